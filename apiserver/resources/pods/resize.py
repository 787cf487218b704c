"""Validate pods/resize: changes of cpu and memory of an existing pod and its containers.

Facts: pkg/apis/core/validation, ValidatePodResize. Mutable fields are reset to their stored values per container. A
container that still differs has another change. A container with claims always differs, because upstream compares
without them: pods with claims cannot be resized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.core.containers import Container
from apiserver.api.types.core.resources import ResourceRequirements
from apiserver.resources.pods import qos
from apiserver.resources.pods.validation import validate_pod
from apiserver.resources.pods.validspecs import MIRROR

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["INIT_CONTAINERS", "POD_LEVEL", "resized_spec", "validate_resize"]


#: Gates for the resize of non-restartable init containers, and of pod-level resources.
INIT_CONTAINERS: Final = "InPlacePodVerticalScalingInitContainers"
POD_LEVEL: Final = "InPlacePodLevelResourcesVerticalScaling"
_SPEC: Final = Path("spec")
_RESIZED: Final = ("cpu", "memory")
_PARTS: Final = ("limits", "requests")
_LISTS: Final = ("containers", "initContainers")
_ONLY: Final = "only cpu and memory resources are mutable"


def resized_spec(new: Json, old: Json, pod_level: bool) -> Json | None:
    """Return the stored spec with new resources and resize policies; None if the number of containers changed.

    Containers with changed names stay as sent, so that validation rejects them.
    """
    if any(len(new.get(field) or ()) != len(old.get(field) or ()) for field in _LISTS):
        return None
    spec = dict(old)
    for field in _LISTS:
        given, stored = new.get(field) or [], old.get(field) or []
        if given:
            same = [c.get("name") for c in given] == [c.get("name") for c in stored]
            spec[field] = [_merged(c, before) for c, before in zip(given, stored, strict=True)] if same else given
    if pod_level:
        spec.pop("resources", None)
        if new.get("resources") is not None:
            spec["resources"] = new["resources"]
    return spec


def _merged(container: Json, before: Json) -> Json:
    kept = {name: value for name, value in before.items() if name not in ("resources", "resizePolicy")}
    return kept | {name: container[name] for name in ("resources", "resizePolicy") if name in container}


def validate_resize(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    """Validate a resize."""
    new, before, status = obj["spec"], old["spec"], old.get("status") or {}
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden(Path("[]"), "static pods cannot be resized")]
    if (before.get("os") or {}).get("name") == "windows":
        return [forbidden(Path("[]"), "windows pods cannot be resized")]
    errors = validate_pod(ctx, obj, old)
    if (status.get("qosClass") or qos.compute(before)) != qos.compute(new):
        errors.append(
            invalid(
                _SPEC,
                (obj.get("status") or {}).get("qosClass", ""),
                "Pod QOS Class may not change as a result of resizing",
            )
        )
    if not _node_resizes(status):
        errors.append(forbidden(_SPEC, "Pod running on node without support for resize"))
    if _says_resources(before) or _says_resources(new):
        if not ctx.features.enabled(POD_LEVEL):
            detail = (
                f"resize of pods with pod-level resources is forbidden when {POD_LEVEL}Enabled feature gate is disabled"
            )
            return [*errors, forbidden(Path("[]"), detail)]
        errors += _pod_level(new.get("resources"), before.get("resources"))
    if status.get("nodeAllocatableResourceClaimStatuses"):
        errors.append(forbidden(_SPEC, "pods with node allocatable resource claims cannot be resized"))
    reordered = [error for field in _LISTS for error in _order(field, new.get(field) or [], before.get(field) or [])]
    if reordered:
        return errors + reordered
    return errors + _containers(new, before, init=ctx.features.enabled(INIT_CONTAINERS))


def _node_resizes(status: Json) -> bool:
    """Return whether the node supports resize: running containers report resources, or none is running."""
    running = next(
        (
            state
            for state in status.get("containerStatuses") or ()
            if (state.get("state") or {}).get("running") is not None
        ),
        None,
    )
    return running is None or running.get("resources") is not None


def _says_resources(spec: Json) -> bool:
    return any((spec.get("resources") or {}).get(part) for part in _PARTS)


def _removed(path: Path, new: Json, old: Json, whose: str) -> list[FieldError]:
    """Reject the removal of requests or limits. Requests are reported first."""
    return [
        forbidden(path / part, f"{whose}resource {part} cannot be removed")
        for part in reversed(_PARTS) if not (old.get(part) or {}).keys() <= (new.get(part) or {}).keys()
    ]  # fmt: skip


def _pod_level(new: Json | None, old: Json | None) -> list[FieldError]:
    path = _SPEC / "resources"
    if old is not None and new is None:
        return [forbidden(path, "pod-level resources cannot be removed")]
    errors = _removed(path, new or {}, old, "pod-level ") if old is not None else []
    masked: Json | None = {**new, **_unchanged(new, old or {})} if new is not None else None
    if old is None and masked is not None and not any(masked.values()):
        masked = None
    same = masked is None if old is None else semantic_equal(ResourceRequirements, masked, old)
    return errors if same else [*errors, forbidden(_SPEC, "only cpu and memory resources are mutable at pod-level")]


def _order(field: str, new: list[Json], old: list[Json]) -> list[FieldError]:
    path = _SPEC / field
    if len(new) != len(old):
        return [forbidden(path, f"{field} may not be added or removed on resize")]
    return [
        forbidden(path[index] / "name", f"{field} may not be renamed or reordered on resize")
        for index, (container, before) in enumerate(zip(new, old, strict=True))
        if container.get("name") != before.get("name")
    ]


def _containers(new: Json, old: Json, *, init: bool) -> list[FieldError]:
    pairs = {field: list(zip(new.get(field) or (), old.get(field) or (), strict=True)) for field in _LISTS}
    errors: list[FieldError] = []
    for field in reversed(_LISTS):
        for index, (container, before) in enumerate(pairs[field]):
            if field == "containers" or init or _is_sidecar(before):
                at = (_SPEC / field)[index] / "resources"
                errors += _removed(at, container.get("resources") or {}, before.get("resources") or {}, "")
    errors += [
        forbidden(_SPEC, _ONLY)
        for container, before in pairs["containers"]
        if not _differs_in_compute_alone(container, before)
    ]
    for index, (container, before) in enumerate(pairs["initContainers"]):
        errors += _init_container((_SPEC / "initContainers")[index], container, before, init)
    return errors


def _init_container(path: Path, container: Json, before: Json, init: bool) -> list[FieldError]:
    sidecar, changed = _is_sidecar(container), not semantic_equal(Container, container, before)
    if not sidecar and not init:
        return [forbidden(_SPEC, "resources for non-sidecar init containers are immutable")] if changed else []
    errors = []
    if not _differs_in_compute_alone(container, before):
        errors.append(forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable"))
    if changed and not sidecar:
        detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        errors += [
            forbidden(path, detail)
            for policy in container.get("resizePolicy") or ()
            if policy.get("restartPolicy") == "RestartContainer"
        ]
    return errors


def _is_sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == "Always"


def _differs_in_compute_alone(container: Json, before: Json) -> bool:
    masked = {**container, "resources": _unchanged(container.get("resources") or {}, before.get("resources") or {})}
    return semantic_equal(Container, masked, before)


def _unchanged(new: Json, old: Json) -> Json:
    """Return the sent requests and limits with the stored quantities of cpu and memory."""
    parts: Json = {}
    for part in _PARTS:
        kept = {name: amount for name, amount in (new.get(part) or {}).items() if name not in _RESIZED}
        parts[part] = kept | {name: old[part][name] for name in _RESIZED if name in (old.get(part) or {})}
    return parts
