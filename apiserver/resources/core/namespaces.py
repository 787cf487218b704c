"""Define Namespaces: phase, the `kubernetes` finalizer, the name label. Rules: pkg/registry/core/namespace."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from apiserver.api.errors.field_errors import FieldError, Named, Path, invalid
from apiserver.api.objects import Json
from apiserver.api.types.core.namespaces import Namespace
from apiserver.api.values.names import label_key
from apiserver.api.values.times import timestamp
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age

if TYPE_CHECKING:
    from apiserver.registry.definition.options import DeleteOptions


NAME_LABEL = "kubernetes.io/metadata.name"
_FINALIZER = "kubernetes"
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def _phase(obj: Json) -> str:
    phase: str = obj.get("status", {}).get("phase", "")
    return phase


def default(obj: Json, now: datetime) -> None:
    metadata = obj["metadata"]
    if name := metadata.get("name"):
        metadata.setdefault("labels", {})[NAME_LABEL] = name
    obj.setdefault("status", {}).setdefault("phase", "Active")


class NamespaceStrategy(Strategy):
    name_rule = "label"
    reset_fields = ("status",)
    status_reset_fields = ("spec",)
    storage_preconditions = True

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["status"] = {"phase": "Active"}
        finalizers = obj["spec"].setdefault("finalizers", [])
        if _FINALIZER not in finalizers:
            finalizers.append(_FINALIZER)

    def canonicalize(self, ctx: Context, obj: Json) -> None:
        obj["metadata"].setdefault("labels", {})[NAME_LABEL] = obj["metadata"]["name"]

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        errors: list[FieldError] = []
        for finalizer in obj["spec"].get("finalizers") or ():
            errors += _finalizer_name(finalizer, Path("spec") / "finalizers")
        return errors

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        _restore(obj, old, "spec", "finalizers")
        obj["status"] = old.get("status", {})

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj)

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        phase = _phase(obj)
        if "deletionTimestamp" in obj["metadata"]:
            wrong = phase != "Terminating"
            text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        else:
            wrong = phase != "Active"
            text = "may only be 'Active' if `deletionTimestamp` is empty"
        return [invalid(Path("status.Phase"), Named(phase), text)] if wrong else []

    def prepare_for_subresource(self, ctx: Context, subresource: str, obj: Json, old: Json) -> None:
        """Restrict the subresource finalize to spec.finalizers."""
        obj["status"] = old.get("status", {})

    def validate_subresource(self, ctx: Context, subresource: str, obj: Json, old: Json) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, finalizer in enumerate(obj["spec"].get("finalizers") or ()):
            errors += _finalizer_name(finalizer, (Path("spec") / "finalizers")[index])
        return errors

    def reset_fields_of(self, subresource: str) -> tuple[str, ...]:
        return ("spec",) if subresource == "status" else ("status",)

    def starts_deletion(self, ctx: Context, obj: Json, options: DeleteOptions) -> bool:
        """Mark the namespace as terminating on the first DELETE. It is removed after its finalizers."""
        if "deletionTimestamp" in obj["metadata"]:
            return False
        obj["metadata"]["deletionTimestamp"] = timestamp(ctx.now)
        obj.setdefault("status", {})["phase"] = "Terminating"
        return True

    def may_remove(self, obj: Json) -> bool:
        return not obj["spec"].get("finalizers")


def _restore(obj: Json, old: Json, section: str, field: str) -> None:
    """Restore the stored value of a field."""
    part = dict(obj.get(section) or {})
    part.pop(field, None)
    if field in old.get(section, {}):
        part[field] = old[section][field]
    obj[section] = part


def _finalizer_name(name: str, path: Path) -> list[FieldError]:
    errors = [invalid(path, name, text) for text in label_key(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        errors.append(invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))
    return errors


NAMESPACES = Resource(
    group="", kind="Namespace", plural="namespaces", singular="namespace", namespaced=False, short_names=("ns",),
    versions=(Version(name="v1", schema=Namespace, default=default),),
    strategy=NamespaceStrategy(), storage_prefix="namespaces",
    columns=name_and_age(Column(name="Status", cell=_phase, description="Phase of the namespace.")),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=(Subresource(name="finalize", verbs=("update",), tables=False), Subresource(name="status")),
    field_labels={"status.phase": _phase},
    field_error_style="plain", delete_returns_object=True,
)  # fmt: skip
