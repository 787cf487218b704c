"""Validate updates of pods: new images, added tolerations, removed gates, a shorter deadline.

Subresources change everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid, required
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.core.containers import EphemeralContainer
from apiserver.api.types.core.pods import PodSpec
from apiserver.api.validation.internal_values import internal, shown_diff
from apiserver.resources.pods.containervalidation import PodFacts
from apiserver.resources.pods.gates import pod_gates
from apiserver.resources.pods.scheduling import validate_tolerations
from apiserver.resources.pods.specdiff import spec_diff
from apiserver.resources.pods.validation import validate_pod
from apiserver.resources.pods.validspecs import MIRROR

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context

__all__ = ["annotation_updates", "validate_ephemeral_containers_update", "validate_pod_update"]


_SPEC: Final = Path("spec")
_MAX_INT32: Final = 2147483647
_UPDATABLE: Final = (
    "pod updates may not change fields other than"
    " `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was"
    " previously negative)"
)


def annotation_updates(obj: Json, old: Json) -> list[FieldError]:
    """Reject changes that make a pod a mirror pod, or the reverse."""
    path = Path("metadata.annotations").key(MIRROR)
    new, before = ((part["metadata"].get("annotations") or {}).get(MIRROR) for part in (obj, old))
    if new == before:
        return []
    return [
        forbidden(
            path,
            "may not add mirror pod annotation" if before is None else "may not remove or update mirror pod annotation",
        )
    ]


def validate_pod_update(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    spec, before = obj["spec"], old["spec"]
    errors = validate_pod(ctx, obj, old) + annotation_updates(obj, old)
    if not errors and spec == before:
        return errors  # the remaining rules compare the two specs, and repeat rules that passed
    for field in ("containers", "initContainers"):
        new, stored = spec.get(field) or [], before.get(field) or []
        if len(new) != len(stored):
            return [*errors, forbidden(_SPEC / field, "pod updates may not add or remove containers")]
        errors += _images(_SPEC / field, new)
    deadline = _deadline(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    errors += deadline
    if deadline and spec.get("activeDeadlineSeconds") is not None:
        return errors
    facts = PodFacts(spec, obj["metadata"], pod_gates(ctx, before))
    errors += _tolerations(spec.get("tolerations") or [], before.get("tolerations") or [], facts)
    errors += _gates(spec.get("schedulingGates") or [], before.get("schedulingGates") or [])
    if semantic_equal(PodSpec, spec, before):
        return errors
    allowed = _with_allowed_changes_undone(spec, before)
    if before.get("schedulingGates"):
        errors += _gated(allowed, before)
    if not semantic_equal(PodSpec, allowed, before):
        errors.append(forbidden(_SPEC, f"{_UPDATABLE}\n{spec_diff(before, allowed)}"))
    return errors


def _images(path: Path, listed: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, container in enumerate(listed):
        image = container.get("image", "")
        if not image:
            errors.append(required(path[index] / "image"))
        if image.strip() != image:
            errors.append(invalid(path[index] / "image", image, "must not have leading or trailing whitespace"))
    return errors


def _deadline(new: int | None, old: int | None) -> list[FieldError]:
    path = _SPEC / "activeDeadlineSeconds"
    if new is None:
        return [] if old is None else [invalid(path, None, "must not update from a positive integer to nil value")]
    if not 0 <= new <= _MAX_INT32:
        return [invalid(path, new, f"must be between 0 and {_MAX_INT32}, inclusive")]
    return [invalid(path, new, "must be less than or equal to previous value")] if old is not None and old < new else []


def _without_seconds(toleration: Json) -> Json:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _tolerations(new: list[Json], old: list[Json], facts: PodFacts) -> list[FieldError]:
    path = _SPEC / "tolerations"
    known = [_without_seconds(toleration) for toleration in new]
    if any(_without_seconds(toleration) not in known for toleration in old):
        return [forbidden(path, "existing toleration can not be modified except its tolerationSeconds")]
    return validate_tolerations(path, new, facts)


def _gates(new: list[Json], old: list[Json]) -> list[FieldError]:
    """Reject added gates. A duplicate gate is reported once, at its last index."""
    added = {gate.get("name", ""): index for index, gate in enumerate(new)}
    for gate in old:
        added.pop(gate.get("name", ""), None)
    return [
        forbidden(
            (_SPEC / "schedulingGates")[index] / "name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for name, index in added.items()
    ]


def _keep(target: Json, source: Json, field: str) -> None:
    target.pop(field, None)
    if field in source:
        target[field] = source[field]


def _with_allowed_changes_undone(spec: Json, before: Json) -> Json:
    """Return the new spec with the allowed changes undone. Remaining differences are forbidden."""
    allowed = {
        name: spec[name] if name in spec else before[name]
        for name in (*before, *(n for n in spec if n not in before))
        if name in spec
    }
    for field in ("containers", "initContainers"):
        if spec.get(field):
            allowed[field] = [
                {**new, "image": old.get("image", "")} for new, old in zip(spec[field], before[field], strict=True)
            ]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _keep(allowed, before, field)
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        allowed["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    return allowed


def _gated(allowed: Json, before: Json) -> list[FieldError]:
    """Validate narrowed scheduling fields of a gated pod. Undo the valid changes in `allowed`."""
    errors: list[FieldError] = []
    new, old = allowed.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if new != old:
        if any(new.get(key) != value for key, value in old.items()):
            errors.append(
                invalid(
                    _SPEC / "nodeSelector",
                    new,
                    "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
                )
            )
        _keep(allowed, before, "nodeSelector")
    affinity, stored = dict(allowed.get("affinity") or {}), before.get("affinity") or {}
    if affinity.get("nodeAffinity") != stored.get("nodeAffinity"):
        errors += _node_affinity(affinity.get("nodeAffinity"), stored.get("nodeAffinity"))
        _keep(affinity, stored, "nodeAffinity")
        if affinity or "affinity" in before:
            allowed["affinity"] = affinity
        else:
            allowed.pop("affinity", None)
    return errors


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _node_affinity(new: Json | None, old: Json | None) -> list[FieldError]:
    old_terms = ((old or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    new_terms = ((new or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    path = _SPEC / "affinity" / "nodeAffinity" / _REQUIRED / "nodeSelectorTerms"
    if not old_terms:
        return []
    if len(old_terms) != len(new_terms):
        return [invalid(path, new_terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")]
    return [
        invalid(path[index], new_term, "only additions are allowed (no mutations or deletions)")
        for index, (new_term, old_term) in enumerate(zip(new_terms, old_terms, strict=True))
        if not _only_adds(new_term, old_term)
    ]


def _only_adds(new: Json, old: Json) -> bool:
    if (
        not old.get("matchExpressions")
        and not old.get("matchFields")
        and (new.get("matchExpressions") or new.get("matchFields"))
    ):
        return False
    return all(
        (new.get(field) or [])[: len(old.get(field) or [])] == (old.get(field) or [])
        for field in ("matchExpressions", "matchFields")
    )


# --- ephemeral containers
# ----------------------------------------------------------------------------------------------------------------------


def validate_ephemeral_containers_update(ctx: Context, obj: Json, old: Json) -> list[FieldError]:
    """Validate an update that only adds ephemeral containers."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden(Path("[]"), "static pods do not support ephemeral containers")]
    errors = validate_pod(ctx, obj, old)
    path = _SPEC / "ephemeralContainers"
    named = {container.get("name", ""): container for container in obj["spec"].get("ephemeralContainers") or ()}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container.get("name", "")
        if name not in named:
            errors.append(forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif not semantic_equal(EphemeralContainer, named[name], container):
            changed = shown_diff(internal(EphemeralContainer, container), internal(EphemeralContainer, named[name]))
            errors.append(forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n{changed}'))
    return errors
