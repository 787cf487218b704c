"""Define PersistentVolumeClaims. `claimupdates` validates their updates.

Rules: pkg/registry/core/persistentvolumeclaim, pkg/api/persistentvolumeclaim.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import DroppedField, drop_disabled
from apiserver.api.types.core.persistentvolumes import PersistentVolumeClaim
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import AGE, NAME
from apiserver.resources.common.core_rules import validate_label_selector
from apiserver.resources.common.volume_claim_spec import validate_claim_spec
from apiserver.resources.pods.defaults import default_claim_spec, round_amounts
from apiserver.resources.volumes.claimupdates import recovers, validate_claim_status, validate_claim_update
from apiserver.resources.volumes.columns import amount_text, class_text, modes_text, phase_text, unset
from apiserver.resources.volumes.warnings import claim_warnings

_SPEC: Final = Path("spec")
_ELSEWHERE: Final = "CrossNamespaceVolumeDataSource"


def default(obj: Json, now: datetime) -> None:
    status = obj.get("status") or {}
    default_claim_spec(obj["spec"])
    for field in ("capacity", "allocatedResources"):
        if status.get(field):
            round_amounts(status[field])


def _drop(ctx: Context, obj: Json, old: Json | None) -> None:
    """Drop fields of disabled gates, and a dataSource that is neither a claim nor a snapshot.

    Such data sources were always ignored.
    """
    drop_disabled(ctx, obj, old)
    spec, before = obj["spec"], {} if old is None else old["spec"]
    elsewhere = (spec.get("dataSourceRef") or {}).get("namespace")
    if elsewhere and "dataSourceRef" not in before and not ctx.features.enabled(_ELSEWHERE):
        del spec["dataSourceRef"]
        ctx.dropped.append(DroppedField("spec.dataSourceRef", _ELSEWHERE))
    source = spec.get("dataSource")
    if source is None or spec.get("dataSourceRef") is not None or "dataSource" in before or "dataSourceRef" in before:
        return
    if (source.get("kind", ""), source.get("apiGroup") or "") not in (
        ("PersistentVolumeClaim", ""),
        ("VolumeSnapshot", "snapshot.storage.k8s.io"),
    ):
        del spec["dataSource"]


def _complete_sources(ctx: Context, spec: Json) -> None:
    """Copy dataSource and dataSourceRef to each other."""
    if not ctx.features.enabled("AnyVolumeDataSource"):
        return
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {name: value for name, value in reference.items() if name != "namespace"}


def _validate(ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
    before = {} if old is None else old["spec"]
    return validate_claim_spec(
        _SPEC,
        obj["spec"],
        attributes_class=ctx.features.enabled("VolumeAttributesClass") or "volumeAttributesClassName" in before,
        any_selector=bool(validate_label_selector(_SPEC, before.get("selector"))),
        any_group=any(
            (before.get(field) or {}).get("apiGroup") is not None for field in ("dataSource", "dataSourceRef")
        ),
    )


class PersistentVolumeClaimStrategy(Strategy):
    reset_fields = ("status",)
    status_reset_fields = ("spec",)

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {"phase": "Pending"}
        _drop(ctx, obj, None)
        _complete_sources(ctx, obj["spec"])

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        return _validate(ctx, obj, None)

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["status"] = old.get("status", {})
        _drop(ctx, obj, old)
        _complete_sources(ctx, obj["spec"])

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _validate(ctx, obj, old) + validate_claim_update(ctx, obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        obj.setdefault("status", {})
        drop_disabled(ctx, obj, old)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return validate_claim_status(obj, recovers(ctx, old))

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return claim_warnings(obj)

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return claim_warnings(obj)


def _given(field: str) -> Any:
    """Return a cell that is empty until the claim has a volume."""
    text = amount_text if field == "capacity" else modes_text
    return lambda obj: text((obj.get("status") or {}).get(field)) if obj["spec"].get("volumeName") else ""


PERSISTENT_VOLUME_CLAIMS: Final = Resource(
    group="",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    singular="persistentvolumeclaim",
    namespaced=True,
    short_names=("pvc",),
    versions=(Version(name="v1", schema=PersistentVolumeClaim, default=default),),
    strategy=PersistentVolumeClaimStrategy(),
    storage_prefix="persistentvolumeclaims",
    columns=(
        NAME,
        Column(name="Status", cell=phase_text, description="Phase of the claim."),
        Column(name="Volume", cell=lambda obj: obj["spec"].get("volumeName", ""), description="Bound volume."),
        Column(name="Capacity", cell=_given("capacity"), description="Capacity of the volume."),
        Column(name="Access Modes", cell=_given("accessModes"), description="Access modes of the volume."),
        Column(name="StorageClass", cell=class_text, description="Storage class."),
        Column(
            name="VolumeAttributesClass",
            cell=lambda obj: unset(obj["spec"].get("volumeAttributesClassName")),
            description="Volume attributes class.",
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
