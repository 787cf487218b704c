"""Conditions in the status of an object, and client-go's patches of pod conditions.

Such a patch is the difference between two statuses in strategic-merge form.
"""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.api.objects import Json


def condition_of(obj: Json, type: str) -> Json | None:
    """Return the condition of that type in an object's status."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == type), None)


def with_condition(conditions: Iterable[Json], new: Json) -> list[Json]:
    """Return the conditions with one of them replaced or appended.

    `new` is the whole condition. Its `lastTransitionTime` is used only if the status changes.
    """
    result, known = [], False
    for condition in conditions:
        if condition["type"] == new["type"]:
            known = True
            if condition["status"] == new["status"]:
                new = {**new, "lastTransitionTime": condition.get("lastTransitionTime")}
            condition = new
        result.append(condition)
    return result if known else [*result, new]


def condition_patch(pod: Json, new: Json) -> Json:
    """Return the status patch that sets a condition; empty if it is already set.

    The patch has only the changed keys and the order of the list. `new` is as for `with_condition`.
    """
    conditions = (pod.get("status") or {}).get("conditions") or []
    known = next((c for c in conditions if c["type"] == new["type"]), None)
    if known is None:
        order = [{"type": c["type"]} for c in (*conditions, new)]
        return {**({"$setElementOrder/conditions": order} if conditions else {}), "conditions": [new]}
    if known["status"] == new["status"]:
        new = {**new, "lastTransitionTime": known.get("lastTransitionTime")}
    changed = {name: value for name, value in new.items() if known.get(name) != value}
    if not changed:
        return {}
    changed |= {name: None for name in known if name not in new}
    order = [{"type": c["type"]} for c in conditions]
    return {"$setElementOrder/conditions": order, "conditions": [{**changed, "type": new["type"]}]}
