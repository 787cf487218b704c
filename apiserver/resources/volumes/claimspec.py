"""The spec of a claim, also as pods and sets carry it in templates (pkg/apis/core/validation,
ValidatePersistentVolumeClaimSpec).
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Path, invalid, required
from apiserver.api.names import dns_label, dns_subdomain
from apiserver.api.quantity import Quantity
from apiserver.resources.pods.scheduling import validate_label_selector
from apiserver.resources.volumes.persistentspec import access_modes, class_name, positive, volume_mode

__all__ = ["validate_claim_spec"]

Json = dict[str, Any]

_STORAGE: Final = "storage"


def _source(path: Path, source: Json, any_group: bool) -> list[FieldError]:
    """What a new volume is filled from, by reference."""
    errors = [required(path / field) for field in ("name", "kind") if not source.get(field)]
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        errors.append(invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
    if group and not any_group:
        errors += [invalid(path / "apiGroup", group, text) for text in dns_subdomain(group)]
    namespace = source.get("namespace")
    return (
        errors + [invalid(path / "namespace", namespace, text) for text in dns_label(namespace)]
        if namespace
        else errors
    )


def _sources(path: Path, spec: Json, any_group: bool) -> list[FieldError]:
    """The two fields say the same, unless the source lies in another namespace, which only one of them can say."""
    errors: list[FieldError] = []
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        errors += _source(path / "dataSource", source, any_group)
    if reference is not None:
        errors += _source(path / "dataSourceRef", reference, any_group)
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
    """`attributes_class` on: the field volumeAttributesClassName counts. `any_selector`, `any_group`: the stored claim
    has values of labels, or groups of data sources, that are wrong and may stay."""
    modes = spec.get("accessModes") or []
    errors = [] if modes else [required(path / "accessModes", "at least 1 access mode is required")]
    if not any_selector:
        errors += validate_label_selector(path / "selector", spec.get("selector"))
    errors += access_modes(path / "accessModes", modes)
    amount = ((spec.get("resources") or {}).get("requests") or {}).get(_STORAGE)
    at = (path / "resources").key(_STORAGE)
    errors += [required(at)] if amount is None else positive(at, Quantity.parse(amount))
    if spec.get("storageClassName"):
        errors += class_name(path / "storageClassName", spec["storageClassName"])
    errors += volume_mode(path / "volumeMode", spec.get("volumeMode"))
    errors += _sources(path, spec, any_group)
    if spec.get("volumeAttributesClassName") and attributes_class:
        errors += class_name(path / "volumeAttributesClassName", spec["volumeAttributesClassName"])
    return errors
