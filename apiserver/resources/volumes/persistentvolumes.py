"""Define PersistentVolumes.

Rules: pkg/registry/core/persistentvolume, pkg/apis/core/validation (ValidatePersistentVolume), pkg/volume/validation.
"""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.core.persistentvolumes import PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity
from apiserver.api.types.core.persistentvolumesources import PersistentVolumeSource
from apiserver.api.validation.changes import changes
from apiserver.api.validation.internal_values import internal, shown_diff
from apiserver.api.values.times import timestamp
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.node_selectors import validate_node_selector
from apiserver.resources.common.persistent_spec import validate_spec
from apiserver.resources.pods.defaults import round_amounts
from apiserver.resources.pods.warnings import NEW_LABELS
from apiserver.resources.volumes.columns import amount_text, class_text, modes_text, phase_text, unset
from apiserver.resources.volumes.warnings import MOUNT_OPTIONS, persistent_volume_warnings

_CHANGES: Final = changes(PersistentVolumeSpec)
_SPEC: Final = Path("spec")
_MOUNTED: Final = (
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
)


def default(obj: Json, now: datetime) -> None:
    """Set the defaults of a volume. The type has none, because volumes in VolumeAttachments are not defaulted."""
    spec = obj["spec"]
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    spec.setdefault("volumeMode", "Filesystem")
    if spec.get("capacity"):
        round_amounts(spec["capacity"])


def _selects_by_invalid_labels(spec: Json) -> bool:
    selector = (spec.get("nodeAffinity") or {}).get("required")
    return (
        selector is not None
        and bool(validate_node_selector(_SPEC, selector))
        and not validate_node_selector(_SPEC, selector, label_values=False)
    )


def _validate(ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
    attributes_class = ctx.features.enabled("VolumeAttributesClass") or (
        old is not None and "volumeAttributesClassName" in old["spec"]
    )
    lax = old is not None and _selects_by_invalid_labels(old["spec"])
    errors = validate_spec(
        _SPEC, obj["spec"], obj["metadata"].get("name", ""), label_values=not lax, attributes_class=attributes_class
    )
    return errors + _mount_options(obj)


def _mount_options(obj: Json) -> list[FieldError]:
    """Reject the legacy annotation of mount options for sources that do not support it."""
    if MOUNT_OPTIONS not in (obj["metadata"].get("annotations") or {}) or any(
        obj["spec"].get(name) is not None for name in _MOUNTED
    ):
        return []
    return [
        forbidden(Path("metadata.annotations") / MOUNT_OPTIONS, "may not specify mount options for this volume type")
    ]


def _source(spec: Json, before: Json) -> Json:
    """Return the source of an updated volume, without the one secret that may be added later."""
    source: Json = {name: spec[name] for name in PersistentVolumeSource.fields if spec.get(name) is not None}
    if source.get("csi") and before.get("csi") and "controllerExpandSecretRef" not in before["csi"]:
        source["csi"] = {name: value for name, value in source["csi"].items() if name != "controllerExpandSecretRef"}
    return source


def _unchanged(ctx: Context, spec: Json, before: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    source, stored = _source(spec, before), _source(before, {})
    if not semantic_equal(PersistentVolumeSource, source, stored):
        diff = shown_diff(internal(PersistentVolumeSource, stored), internal(PersistentVolumeSource, source))
        errors.append(
            forbidden(
                _SPEC / "persistentvolumesource", f"spec.persistentvolumesource is immutable after creation\n{diff}"
            )
        )
    errors += _CHANGES.errors(Path(), spec, before)
    if not ctx.features.enabled("MutablePVNodeAffinity") and before.get("nodeAffinity") is not None:
        errors += _node_affinity(spec.get("nodeAffinity"), before["nodeAffinity"])
    return errors


def _node_affinity(affinity: Json | None, before: Json) -> list[FieldError]:
    """Reject changes of the node affinity, except from a beta label to its GA successor."""
    if semantic_equal(VolumeNodeAffinity, affinity, before) or (affinity is not None and _succeeds(affinity, before)):
        return []
    shown = None if affinity is None else internal(VolumeNodeAffinity, affinity)
    return [invalid(Path("nodeAffinity"), shown, "field is immutable, except for updating from beta label to GA")]


def _succeeds(affinity: Json, before: Json) -> bool:
    keys = iter([requirement.get("key", "") for requirement in _requirements(affinity)])
    renamed = copy.deepcopy(before)
    for requirement in _requirements(renamed):
        wanted, successor = next(keys, None), NEW_LABELS.get(requirement.get("key", ""))
        if successor is not None and successor == wanted:
            requirement["key"] = successor
    return semantic_equal(VolumeNodeAffinity, affinity, renamed)


def _requirements(affinity: Json) -> list[Json]:
    terms = (affinity.get("required") or {}).get("nodeSelectorTerms") or ()
    return [
        requirement
        for term in terms
        for part in ("matchExpressions", "matchFields")
        for requirement in term.get(part) or ()
    ]


def _attributes_class(ctx: Context, spec: Json, before: Json) -> list[FieldError]:
    at, new, old = (
        _SPEC / "volumeAttributesClassName",
        spec.get("volumeAttributesClassName"),
        before.get("volumeAttributesClassName"),
    )
    if new == old:
        return []
    errors: list[FieldError] = []
    if not ctx.features.enabled("VolumeAttributesClass"):
        errors.append(forbidden(at, "update is forbidden when the VolumeAttributesClass feature gate is disabled"))
    if old is not None and new is None:
        errors.append(forbidden(at, "update from non-nil value to nil is forbidden"))
    return errors


class PersistentVolumeStrategy(Strategy):
    compares_metadata = False
    reset_fields = ("status",)
    status_reset_fields = ("spec",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": timestamp(ctx.now)}
        drop_disabled(ctx, obj, None)

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _validate(ctx, obj, None)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old.get("status", {})
        drop_disabled(ctx, obj, old)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        """Validate an update.

        The rules for volume and metadata run twice, as upstream's do, and report their causes twice.
        """
        spec, before = obj["spec"], old["spec"]
        found = _validate(ctx, obj, old)
        again = [error for error in found if error.field not in _ASKED_ONCE]
        if obj["metadata"] != old["metadata"]:
            again = self.validate_metadata(ctx, obj["metadata"], namespaced=False) + again
        return found + again + _unchanged(ctx, spec, before) + _attributes_class(ctx, spec, before)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        """Set the time of a phase change, unless the client sets another."""
        obj["spec"] = old["spec"]
        status, before = obj.setdefault("status", {}), old.get("status", {})
        said, stored = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        if status.get("phase") == before.get("phase"):
            if said is None and stored is not None:
                status["lastPhaseTransitionTime"] = stored
        elif said is None or said == stored:
            status["lastPhaseTransitionTime"] = timestamp(ctx.now)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return persistent_volume_warnings(obj)

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return persistent_volume_warnings(obj)


_ASKED_ONCE: Final = frozenset({f"metadata.annotations.{MOUNT_OPTIONS}"})


def _claim(obj: Json) -> str:
    claim = obj["spec"].get("claimRef")
    return "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}"


PERSISTENT_VOLUMES: Final = Resource(
    group="",
    kind="PersistentVolume",
    plural="persistentvolumes",
    singular="persistentvolume",
    namespaced=False,
    short_names=("pv",),
    versions=(Version(name="v1", schema=PersistentVolume, default=default),),
    strategy=PersistentVolumeStrategy(),
    storage_prefix="persistentvolumes",
    columns=(
        NAME,
        Column(
            name="Capacity",
            cell=lambda obj: amount_text(obj["spec"].get("capacity")),
            description="Capacity of the volume.",
        ),
        Column(
            name="Access Modes",
            cell=lambda obj: modes_text(obj["spec"].get("accessModes")),
            description="Access modes of the volume.",
        ),
        Column(
            name="Reclaim Policy",
            cell=lambda obj: obj["spec"].get("persistentVolumeReclaimPolicy", ""),
            description="Reclaim policy after release.",
        ),
        Column(name="Status", cell=phase_text, description="Phase of the volume."),
        Column(name="Claim", cell=_claim, description="Bound claim."),
        Column(name="StorageClass", cell=class_text, description="Storage class."),
        Column(
            name="VolumeAttributesClass",
            cell=lambda obj: unset(obj["spec"].get("volumeAttributesClassName")),
            description="Volume attributes class.",
        ),
        Column(
            name="Reason",
            cell=lambda obj: (obj.get("status") or {}).get("reason", ""),
            description="Reason of the phase.",
        ),
        AGE,
        Column(
            name="VolumeMode",
            cell=lambda obj: unset(obj["spec"].get("volumeMode")),
            priority=1,
            description="Filesystem or block device.",
        ),
    ),
    subresources=(Subresource(name="status"),),
    delete_returns_object=True,
)
