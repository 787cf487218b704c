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


def with_condition(conditions: Iterable[Json], wanted: Json) -> list[Json]:
    """Return the conditions with one of them replaced or appended.

    Args:
        wanted: The whole condition. Its `lastTransitionTime` is used only if the status changes.
    """
    made, known = [], False
    for condition in conditions:
        if condition["type"] == wanted["type"]:
            known = True
            if condition["status"] == wanted["status"]:
                wanted = {**wanted, "lastTransitionTime": condition.get("lastTransitionTime")}
            condition = wanted
        made.append(condition)
    return made if known else [*made, wanted]


def condition_patch(pod: Json, wanted: Json) -> Json:
    """Return the status patch that sets a condition; empty if it is already set.

    The patch has only the changed keys and the order of the list.

    Args:
        wanted: The whole condition. Its `lastTransitionTime` is used only if the status changes.
    """
    conditions = (pod.get("status") or {}).get("conditions") or []
    known = next((c for c in conditions if c["type"] == wanted["type"]), None)
    if known is None:
        order = [{"type": c["type"]} for c in (*conditions, wanted)]
        return {**({"$setElementOrder/conditions": order} if conditions else {}), "conditions": [wanted]}
    if known["status"] == wanted["status"]:
        wanted = {**wanted, "lastTransitionTime": known.get("lastTransitionTime")}
    changed = {name: value for name, value in wanted.items() if known.get(name) != value}
    if not changed:
        return {}
    changed |= {name: None for name in known if name not in wanted}
    order = [{"type": c["type"]} for c in conditions]
    return {"$setElementOrder/conditions": order, "conditions": [{**changed, "type": wanted["type"]}]}
