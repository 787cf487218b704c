"""Validate the spec of a claim, also in templates of pods and sets.

Facts: pkg/apis/core/validation, ValidatePersistentVolumeClaimSpec.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required
from apiserver.api.objects import Json
from apiserver.api.types.core.references import TypedLocalObjectReference, TypedObjectReference
from apiserver.api.types.core.volumes import PersistentVolumeClaimSpec
from apiserver.api.validation.compile import At
from apiserver.api.validation.formats import FORMATS
from apiserver.api.values.quantity import Quantity
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.persistent_spec import access_modes, positive

__all__ = ["validate_claim_spec"]


_STORAGE: Final = "storage"


class _Env(NamedTuple):
    """Context of the rules. `any_group`: the stored claim has invalid groups of data sources."""

    any_group: bool


def _source(at: At) -> list[FieldError]:
    """Validate the reference to the data source of a new volume."""
    errors, group, kind = at.fields("name", "kind"), at.value.get("apiGroup") or "", at.value.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        errors.append(invalid(at.path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
    if group and not at.env.any_group:
        errors += FORMATS["subdomain"].errors(at.path / "apiGroup", group)
    return errors


def _sources(at: At) -> list[FieldError]:
    """Require equal data source fields, unless dataSourceRef names another namespace."""
    path, source, reference = at.path, at.value.get("dataSource"), at.value.get("dataSourceRef")
    errors = at.fields("dataSource", "dataSourceRef")
    if source is None or reference is None:
        return errors
    if reference.get("namespace"):
        # The value is the path of the other field, which prints as an empty struct.
        errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))
    return errors


def validate_claim_spec(
    path: Path, spec: Json, *, attributes_class: bool = True, any_selector: bool = False, any_group: bool = False
) -> list[FieldError]:  # fmt: skip
    """Validate the spec of a claim.

    `attributes_class`: volumeAttributesClassName is validated. `any_selector`, `any_group`: the stored claim has
    invalid label values or data source groups, which may stay.
    """
    at = RULES.of(PersistentVolumeClaimSpec).at(path, spec, _Env(any_group))
    modes = spec.get("accessModes") or []
    errors = [] if modes else at.field("accessModes")
    if not any_selector:
        errors += at.field("selector")
    errors += access_modes(at) if modes else []
    amount = ((spec.get("resources") or {}).get("requests") or {}).get(_STORAGE)
    size = (path / "resources").key(_STORAGE)
    errors += [required(size)] if amount is None else positive(size, Quantity.parse(amount))
    errors += at.fields("storageClassName", "volumeMode") + _sources(at)
    return errors + at.field("volumeAttributesClassName") if attributes_class else errors


RULES.set(TypedLocalObjectReference, _source, by_rules=("name", "kind"))
RULES.set(TypedObjectReference, _source, "namespace", by_rules=("name", "kind"))
RULES.set(
    PersistentVolumeClaimSpec,
    by_rules=(
        "accessModes", "selector", "storageClassName", "volumeMode", "dataSource", "dataSourceRef",
        "volumeAttributesClassName",
    ),
)  # fmt: skip
