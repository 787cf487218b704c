"""Drop fields of disabled feature gates from pods and templates (pkg/api/pod/util.go).

The types declare most gated fields. This module has the rules that drop more than the field itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.schema.dropping import DroppedField, drop_disabled
from apiserver.registry.definition.context import Context

__all__ = ["drop_disabled_in_pod", "drop_disabled_in_template"]


_IMAGES: Final = "ImageVolume"
_RESTARTS: Final = "ContainerRestartRules"
_PROC_MOUNTS: Final = "ProcMountType"
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_ALWAYS: Final = "Always"
_DEFAULT: Final = "Default"


def drop_disabled_in_pod(ctx: Context, obj: Json, old: Json | None) -> None:
    """Drop disabled fields from a pod. Its spec and status may be replaced by new objects."""
    drop_disabled(ctx, obj, old)
    _drop_by_rules(ctx, obj["spec"], {} if old is None else old["spec"], "spec")


def drop_disabled_in_template(ctx: Context, obj: Json, old: Json | None, *steps: str) -> None:
    """Drop disabled fields from an object with a pod template at the path `steps`."""
    drop_disabled(ctx, obj, old)
    spec = _spec_of(obj, steps)
    if spec is not None:
        _drop_by_rules(ctx, spec, {} if old is None else _spec_of(old, steps) or {}, ".".join((*steps, "spec")))


def _spec_of(obj: Json, steps: tuple[str, ...]) -> Json | None:
    part: Json | None = obj
    for step in steps:
        part = (part or {}).get(step)
    return None if part is None else part["spec"]


def _drop_by_rules(ctx: Context, spec: Json, old: Json, at: str) -> None:
    """Drop fields from a pod's spec in place.

    `at` is the path of the spec. `old` is the stored spec, empty for a new pod.
    """
    enabled = ctx.features.enabled
    if not enabled(_IMAGES) and not any("image" in volume for volume in old.get("volumes") or ()):
        _drop_image_volumes(ctx, spec, at)
    if not enabled(_RESTARTS) and not _restarts_by_rule(old):
        _drop_restart_rules(ctx, spec, at)
    if not enabled(_PROC_MOUNTS) and not any(mount != _DEFAULT for _, mount in _proc_mounts(old)):
        for holder, mount in _proc_mounts(spec):
            if mount != _DEFAULT:
                # Set the default instead of dropping the field: earlier pods were stored with the default even if
                # unset.
                holder["procMount"] = _DEFAULT
                ctx.dropped.append(DroppedField(f"{at}.*.securityContext.procMount", _PROC_MOUNTS))


def _containers(spec: Json) -> Iterator[tuple[str, int, Json]]:
    for field in _CONTAINERS:
        for index, container in enumerate(spec.get(field) or ()):
            yield field, index, container


def _drop_image_volumes(ctx: Context, spec: Json, at: str) -> None:
    """Drop image volumes and their mounts."""
    volumes = spec.get("volumes") or []
    images = {volume.get("name", "") for volume in volumes if "image" in volume}
    if not images:
        return
    ctx.dropped += [
        DroppedField(f"{at}.volumes[{index}]", _IMAGES) for index, volume in enumerate(volumes) if "image" in volume
    ]
    _keep(spec, "volumes", [volume for volume in volumes if "image" not in volume])
    for _, _, container in _containers(spec):
        mounts = container.get("volumeMounts")
        if mounts:
            _keep(container, "volumeMounts", [mount for mount in mounts if mount.get("name", "") not in images])


def _keep(holder: Json, field: str, items: list[Json]) -> None:
    """Set a list, or delete it if it is empty."""
    if items:
        holder[field] = items
    else:
        del holder[field]


def _restarts_by_rule(spec: Json) -> bool:
    """Return whether containers have restart rules or policies. The policy of sidecars is older and does not count."""
    return any(
        container.get("restartPolicyRules") or container.get("restartPolicy") not in (None, _ALWAYS)
        for container in spec.get("initContainers") or ()
    ) or any("restartPolicy" in container for container in spec.get("containers") or ())


def _drop_restart_rules(ctx: Context, spec: Json, at: str) -> None:
    for field, index, container in _containers(spec):
        kept = (_ALWAYS,) if field == "initContainers" else ()
        for name in ("restartPolicy", "restartPolicyRules"):
            if name in container and container[name] not in kept:
                del container[name]
                ctx.dropped.append(DroppedField(f"{at}.{field}[{index}].{name}", _RESTARTS))


def _proc_mounts(spec: Json) -> list[tuple[Json, str]]:
    """Return the security contexts that set a proc mount, with its value."""
    holders = (container.get("securityContext") or {} for _, _, container in _containers(spec))
    return [(holder, holder["procMount"]) for holder in holders if "procMount" in holder]
