"""What PodGroups, and templates of them, may hold. All of it are upstream's generated rules, with their words and order
(api.md 4.10).

A changed object is only looked at where it changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Named, Path, duplicate, invalid, not_supported, required, too_many
from apiserver.api.names import Check, label_key, long_name, path_segment, short_name

__all__ = [
    "CLAIMS_LIMIT",
    "DISRUPTION_MODES",
    "PRIORITY_LIMIT",
    "TEMPLATES_LIMIT",
    "TOPOLOGY_LIMIT",
    "claim_statuses",
    "controller_reference",
    "immutable",
    "list_map",
    "scheduling_fields",
    "template",
    "template_reference",
]

Json = dict[str, Any]

CLAIMS_LIMIT: Final = 4
TEMPLATES_LIMIT: Final = 8
TOPOLOGY_LIMIT: Final = 1
PRIORITY_LIMIT: Final = 1_000_000_000
DISRUPTION_MODES: Final = ("Pod", "PodGroup")


def immutable(path: Path) -> FieldError:
    return invalid(path, None, "field is immutable")


def _name(path: Path, value: str, check: Check) -> list[FieldError]:
    """A name that must be there."""
    return [invalid(path, value, text) for text in check(value)] if value else [required(path)]


def _optional_name(path: Path, value: str | None, check: Check) -> list[FieldError]:
    return [] if value is None else [invalid(path, value, text) for text in check(value)]


def _union(path: Path, value: Json, *members: str) -> list[FieldError]:
    """Exactly one of the members is there."""
    given = [name for name in members if value.get(name) is not None]
    known = ", ".join(f"`{name}`" for name in members)
    if not given:
        return [invalid(path, "", f"must specify one of: {known}")]
    return [invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {known}")] if len(given) > 1 else []


def list_map(
    path: Path, items: list[Json], limit: int, check: Callable[[Path, Json], list[FieldError]]
) -> list[FieldError]:
    """At most so many items with names of their own, each as `check` wants it."""
    if len(items) > limit:
        return [too_many(path, len(items), limit)]
    names = [item.get("name", "") for item in items]
    errors = [duplicate(path[index], item) for index, item in enumerate(items) if names[index] in names[:index]]
    for index, item in enumerate(items):
        errors += check(path[index], item)
    return errors


def _policy(path: Path, policy: Json) -> list[FieldError]:
    errors = _union(path, policy, "basic", "gang")
    if policy.get("gang") is not None:
        least = policy["gang"].get("minCount", 0)
        at = path / "gang" / "minCount"
        if not least:
            errors.append(required(at))
        elif least < 1:
            errors.append(invalid(at, least, "must be greater than or equal to 1"))
    return errors


def _constraints(path: Path, constraints: Json | None) -> list[FieldError]:
    topology = (constraints or {}).get("topology") or []
    at = path / "topology"
    if len(topology) > TOPOLOGY_LIMIT:
        return [too_many(at, len(topology), TOPOLOGY_LIMIT)]
    return [
        error
        for index, item in enumerate(topology)
        for error in _name(at[index] / "key", item.get("key", ""), label_key)
    ]


def _claim(path: Path, claim: Json) -> list[FieldError]:
    fields = ("resourceClaimName", "resourceClaimTemplateName")
    errors = _union(path, claim, *fields) + _name(path / "name", claim.get("name", ""), short_name)
    for field in fields:
        errors += _optional_name(path / field, claim.get(field), long_name)
    return errors


def scheduling_fields(path: Path, spec: Json) -> list[FieldError]:
    """A new group's spec, or what a template shares with it. Fields of disabled gates are not there any more."""
    errors = _policy(path / "schedulingPolicy", spec.get("schedulingPolicy") or {})
    errors += _constraints(path / "schedulingConstraints", spec.get("schedulingConstraints"))
    errors += list_map(path / "resourceClaims", spec.get("resourceClaims") or [], CLAIMS_LIMIT, _claim)
    mode, priority = spec.get("disruptionMode"), spec.get("priority")
    if mode is not None and mode not in DISRUPTION_MODES:
        errors.append(not_supported(path / "disruptionMode", Named(mode), DISRUPTION_MODES))
    errors += _optional_name(path / "priorityClassName", spec.get("priorityClassName") or None, long_name)
    if priority is not None and priority > PRIORITY_LIMIT:
        errors.append(invalid(path / "priority", priority, f"must be less than or equal to {PRIORITY_LIMIT}"))
    return errors


def template(path: Path, value: Json) -> list[FieldError]:
    """A template of a Workload."""
    return _name(path / "name", value.get("name", ""), short_name) + scheduling_fields(path, value)


def template_reference(path: Path, reference: Json | None) -> list[FieldError]:
    """A group's `podGroupTemplateRef`."""
    if reference is None:
        return []
    errors = _union(path, reference, "workload")
    workload = reference.get("workload")
    if workload is not None:
        errors += _name(path / "workload" / "workloadName", workload.get("workloadName", ""), long_name)
        errors += _name(
            path / "workload" / "podGroupTemplateName", workload.get("podGroupTemplateName", ""), short_name
        )
    return errors


def controller_reference(path: Path, reference: Json | None) -> list[FieldError]:
    """A Workload's `controllerRef`."""
    if reference is None:
        return []
    errors = _optional_name(path / "apiGroup", reference.get("apiGroup") or None, long_name)
    errors += _name(path / "kind", reference.get("kind", ""), path_segment)
    return errors + _name(path / "name", reference.get("name", ""), path_segment)


def claim_statuses(path: Path, statuses: list[Json], old: list[Json]) -> list[FieldError]:
    """A group's `resourceClaimStatuses`, where they changed."""
    if statuses == old:
        return []

    def check(at: Path, entry: Json) -> list[FieldError]:
        before = next((item for item in old if item.get("name") == entry.get("name")), {})
        claim = entry.get("resourceClaimName")
        return (
            []
            if claim == before.get("resourceClaimName")
            else _optional_name(at / "resourceClaimName", claim, long_name)
        )

    return list_map(path, statuses, CLAIMS_LIMIT, check)
