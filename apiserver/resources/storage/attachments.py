"""Define VolumeAttachments: the desired (spec) and actual (status) attachment of a volume to a node."""

from __future__ import annotations

from typing import ClassVar, Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, required, too_long
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import drop_disabled
from apiserver.api.types.storage import VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec, VolumeError
from apiserver.api.validation.changes import changes
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.persistent_spec import validate_spec
from apiserver.resources.common.status import StatusStrategy

_SPEC: Final = Path("spec")
_CHANGES: Final = changes(VolumeAttachment)
_STATUS: Final = Path("status")
_METADATA_LIMIT: Final = 256 * 1024
_MESSAGE_LIMIT: Final = 1024
_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
_ERRORS: Final = ("attachError", "detachError")


def _source(path: Path, source: Json) -> list[FieldError]:
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        return [required(path, _ONE_SOURCE)]
    if inline is not None and name is not None:
        return [forbidden(path, _ONE_SOURCE)]
    if inline is not None:
        return validate_spec(path / "inlineVolumeSpec", inline, inline=True)
    return [] if name else [required(path / "persistentVolumeName", "must specify non empty persistentVolumeName")]


def _problem(path: Path, problem: Json | None) -> list[FieldError]:
    """Validate an error. A message that is too long is reported with the limit of metadata, as upstream's is."""
    if problem is None:
        return []
    errors = (
        [too_long(path / "message", _METADATA_LIMIT)]
        if len(problem.get("message", "").encode()) > _MESSAGE_LIMIT
        else []
    )
    return errors + RULES.of(VolumeError).errors(path, problem)


RULES.set(VolumeAttachmentSource, by_rules=("inlineVolumeSpec", "persistentVolumeName"))
RULES.set(VolumeAttachmentSpec, by_rules=("attacher", "source", "nodeName"))


class VolumeAttachmentStrategy(StatusStrategy):
    new_status: ClassVar[Json] = {"attached": False}
    keeps_metadata = True
    compares_metadata = False

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        spec, status = obj["spec"], obj.get("status") or {}
        here, source = RULES.of(VolumeAttachmentSpec).at(_SPEC, spec), spec.get("source") or {}
        errors = here.field("attacher") + _source(_SPEC / "source", source) + here.field("nodeName")
        if (
            sum(
                len(key.encode()) + len(value.encode())
                for key, value in (status.get("attachmentMetadata") or {}).items()
            )
            > _METADATA_LIMIT
        ):
            errors.append(too_long(_STATUS / "attachmentMetadata", _METADATA_LIMIT))
        for field in _ERRORS:
            errors += _problem(_STATUS / field, status.get(field))
        return errors + RULES.of(VolumeAttachmentSource).at(_SPEC / "source", source).field("persistentVolumeName")

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj) + _CHANGES.errors(Path(), obj, old)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        super().prepare_for_status_update(ctx, obj, old)
        obj.setdefault("status", {})
        drop_disabled(ctx, obj, old)

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate_update(ctx, obj, old)


VOLUME_ATTACHMENTS: Final = Resource(
    group="storage.k8s.io",
    kind="VolumeAttachment",
    plural="volumeattachments",
    singular="volumeattachment",
    namespaced=False,
    versions=(Version(name="v1", schema=VolumeAttachment),),
    strategy=VolumeAttachmentStrategy(),
    storage_prefix="volumeattachments",
    columns=name_and_age(
        Column(
            name="Attacher",
            cell=lambda obj: obj["spec"].get("attacher", ""),
            format="name",
            description="Driver that attaches the volume.",
        ),
        Column(
            name="PV",
            cell=lambda obj: obj["spec"].get("source", {}).get("persistentVolumeName") or "",
            description="PersistentVolume to attach.",
        ),
        Column(name="Node", cell=lambda obj: obj["spec"].get("nodeName", ""), description="Node to attach to."),
        Column(
            name="Attached",
            cell=lambda obj: bool((obj.get("status") or {}).get("attached")),
            type="boolean",
            description="Whether the volume is attached.",
        ),
    ),
    subresources=(Subresource(name="status"),),
    unconditional_update=False,
    delete_returns_object=True,
)
