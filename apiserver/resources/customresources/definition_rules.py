"""Validate CustomResourceDefinitions. `schema_rules` validates their schemas.

Facts: apiextensions-apiserver, pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

import unicodedata
from typing import Any, Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from apiserver.api.features.gates import Features
from apiserver.api.objects import Json
from apiserver.api.types.apiextensions import CustomResourceDefinitionVersion
from apiserver.api.validation.internal_values import internal
from apiserver.api.validation.items import each_item
from apiserver.api.values.names import dns1035_label, dns_subdomain
from apiserver.resources.customresources.conversion_rules import bundle_errors, conversion_errors
from apiserver.resources.customresources.fieldpaths import FieldPathError, field_path
from apiserver.resources.customresources.names import APPROVED, approval, is_protected, is_true

__all__ = ["definition_errors", "name_errors", "status_errors", "update_errors"]


_SPEC: Final = Path("spec")
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MOST_FIELDS: Final = 8


def name_errors(obj: Json) -> list[FieldError]:
    """Require the name PLURAL.GROUP."""
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    if name and name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
        return [invalid(Path("metadata.name"), name, 'must be spec.names.plural+"."+spec.group')]
    return []


def definition_errors(obj: Json, features: Features) -> list[FieldError]:
    """Validate a new definition."""
    return _spec(obj["spec"], None) + _stored(obj) + _rest(obj, None)


def update_errors(obj: Json, old: Json, features: Features) -> list[FieldError]:
    """Validate an updated definition."""
    spec, before = obj["spec"], old["spec"]
    errors = _spec(spec, before)
    if is_true(old, "Established"):
        errors += bundle_errors(spec, before, _SPEC / "conversion")
        errors += _fixed(_SPEC / "scope", spec.get("scope", ""), before.get("scope", ""))
        errors += _fixed(_SPEC / "names" / "kind", spec["names"]["kind"], before["names"]["kind"])
    errors += _fixed(_SPEC / "group", spec["group"], before["group"])
    errors += _fixed(_SPEC / "names" / "plural", spec["names"]["plural"], before["names"]["plural"])
    return errors + status_errors(obj) + _stored(obj) + _rest(obj, old)


def _fixed(at: Path, value: str, before: str) -> list[FieldError]:
    return [invalid(at, value, "field is immutable")] if value != before else []


def status_errors(obj: Json) -> list[FieldError]:
    """Validate a definition's status."""
    return _names((obj.get("status") or {}).get("acceptedNames") or {}, Path("status.acceptedNames"))


def _stored(obj: Json) -> list[FieldError]:
    """Require all versions that may be stored, until the status no longer lists them."""
    at, stored = Path("status.storedVersions"), obj["status"].get("storedVersions") or []
    if not stored:
        return [invalid(at, stored or None, "must have at least one stored version")]
    # Each version consumes one stored version, so a duplicate name finds none.
    left = {name: index for index, name in enumerate(stored)}
    errors = [
        invalid(at, stored, f"must have the storage version {version['name']}")
        for version in obj["spec"].get("versions") or []
        if left.pop(version["name"], None) is None and version.get("storage")
    ]
    for name, index in left.items():
        text = (
            f"missing from spec.versions; {name} was previously a storage version, and must remain in"
            f" spec.versions until a storage migration ensures no data remains persisted in {name} and removes"
            f" {name} from status.storedVersions"
        )
        errors.append(invalid(at[index], name, text))
    return errors


def _rest(obj: Json, old: Json | None) -> list[FieldError]:
    errors: list[FieldError] = []
    if is_protected(obj["spec"]["group"]):
        _, reason, text = approval(obj)
        before = None if old is None else approval(old)[1]
        at = Path("metadata.annotations").key(APPROVED)
        if reason != before and reason == "MissingAnnotation":
            errors.append(required(at, text))
        elif reason != before and reason == "InvalidAnnotation":
            errors.append(invalid(at, obj["metadata"]["annotations"][APPROVED], text))
    if obj["spec"].get("preserveUnknownFields") and not (old or {"spec": {}})["spec"].get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid(_SPEC / "preserveUnknownFields", True, text))
    return errors


def _spec(spec: Json, old: Json | None) -> list[FieldError]:
    errors = _group(spec.get("group", ""))
    scope = spec.get("scope", "")
    if not scope:
        errors.append(required(_SPEC / "scope"))
    elif scope not in ("Cluster", "Namespaced"):
        errors.append(not_supported(_SPEC / "scope", scope, ("Cluster", "Namespaced")))
    versions = spec.get("versions") or []
    at = _SPEC / "versions"
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            errors.append(required(at[index] / "schema" / "openAPIV3Schema"))
    before = {version["name"]: version for version in (old or {}).get("versions") or ()}
    shared, own = _hoisted(versions)
    for index, version in enumerate(own):
        name = version.get("name", "")
        if texts := dns1035_label(name):
            errors.append(invalid(at[index] / "name", name, ",".join(texts)))
        errors += _deprecation(version, at[index] / "deprecationWarning")
        subresources = shared.get("subresources") or version.get("subresources") or {}
        whole = {**version, "schema": version.get("schema"), "has_status": "status" in subresources}
        errors += _parts(whole, at[index], before.get(name), "schema")
    names = [version.get("name", "") for version in versions]
    shown = None if spec.get("versions") is None else _shown(own)
    if len(set(names)) != len(names):
        errors.append(invalid(at, shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        errors.append(invalid(at, shown, "must have exactly one version marked as storage version"))
    if names and names[0] and (texts := dns1035_label(names[0])):
        # (Upstream's internal form names the first version again.)
        errors.append(invalid(_SPEC / "version", names[0], ",".join(texts)))
    for field in ("plural", "singular", "kind", "listKind"):
        if not spec["names"].get(field):
            errors.append(required(_SPEC / "names" / field))
    errors += _names(spec["names"], _SPEC / "names")
    if versions:
        apart = any("status" in (version.get("subresources") or {}) for version in versions)
        errors += _parts({**shared, "has_status": apart}, _SPEC, before.get(versions[0].get("name", "")), "validation")
    return errors + conversion_errors(spec, _SPEC / "conversion")


#: Fields that upstream hoists to the spec if all versions share them. Errors then have the spec's path.
_SHARED: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def _hoisted(versions: list[Json]) -> tuple[Json, list[Json]]:
    """Return the fields that all versions share, and the versions without them."""
    if not versions:
        return {}, []
    shared = {
        name: versions[0].get(name)
        for name in _SHARED
        if all(version.get(name) == versions[0].get(name) for version in versions)
    }
    return shared, [{name: part for name, part in version.items() if name not in shared} for version in versions]


def _group(group: str) -> list[FieldError]:
    at = _SPEC / "group"
    if not group:
        return [required(at)]
    if texts := dns_subdomain(group):
        return [invalid(at, group, ",".join(texts))]
    return [] if "." in group else [invalid(at, group, "should be a domain with at least one dot")]


def _names(names: Json, at: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    errors += [
        invalid(at / field, name, ",".join(texts))
        for field in ("plural", "singular")
        if (name := names.get(field)) and (texts := dns1035_label(name))
    ]
    for field in ("kind", "listKind"):
        if (name := names.get(field)) and (texts := dns1035_label(name.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(texts)
            errors.append(invalid(at / field, name, text))
    errors += _each_name(names.get("shortNames"), at / "shortNames")
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        errors.append(invalid(at / "listKind", names["listKind"], "kind and listKind may not be the same"))
    return errors + _each_name(names.get("categories"), at / "categories")


def _each_name(names: list[str] | None, at: Path) -> list[FieldError]:
    return [
        invalid(at[index], name, ",".join(texts))
        for index, name in enumerate(names or ())
        if (texts := dns1035_label(name))
    ]


def _parts(version: Json, at: Path, old: Json | None, called: str) -> list[FieldError]:
    """Validate schema, subresources, columns and selectable fields of a version, or of all.

    `called` is the name of the schema's field there.
    """
    errors: list[FieldError] = []
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    subresources = version.get("subresources") or {}
    if schema is not None:
        # Import here, because rules load CEL, which few requests need.
        from apiserver.resources.customresources.schema_rules import schema_errors

        errors += schema_errors(
            at / called / "openAPIV3Schema",
            schema,
            has_status=version["has_status"],
            unchanged=old is not None and old.get("schema") == version.get("schema"),
        )
    errors += _scale(subresources.get("scale"), at / "subresources")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        errors += _column(column, (at / "additionalPrinterColumns")[index])
    if version.get("selectableFields"):
        given = None if version.get("schema") is None else schema or {}
        errors += _selectable(version["selectableFields"], given, at / "selectableFields", old)
    return errors


def _deprecation(version: Json, at: Path) -> list[FieldError]:
    if version.get("deprecationWarning") is None:
        return []
    warning = Named(version["deprecationWarning"])  # upstream shows a pointer
    if not version.get("deprecated"):
        return [invalid(at, warning, "can only be set for deprecated versions")]
    errors: list[FieldError] = []
    if len(warning.encode()) > 256:
        errors.append(invalid(at, warning, "must be <= 256 characters long"))
    if not warning:
        errors.append(invalid(at, warning, "must not be an empty string"))
    offset = 0
    for char in warning:
        if char != " " and unicodedata.category(char)[0] not in "LMNPS":
            text = f"must only contain printable UTF-8 characters; non-printable character found at index {offset}"
            return [*errors, invalid(at, warning, text)]
        offset += len(char.encode())
    return errors


def _scale(scale: Json | None, at: Path) -> list[FieldError]:
    if scale is None:
        return []
    errors: list[FieldError] = []
    for field, prefix in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        place, path = at / f"scale.{field}", scale.get(field, "")
        if not path:
            errors.append(required(place))
        elif found := _simple(path, place):
            errors += found
        elif not path.startswith(prefix):
            errors.append(invalid(place, path, f"should be a json path under {prefix[:-1]}"))
    place, path = at / "scale.labelSelectorPath", scale.get("labelSelectorPath")
    if path:
        if found := _simple(path, place):
            errors += found
        elif not path.startswith((".spec.", ".status.")):
            errors.append(invalid(place, path, "should be a json path under either .spec or .status"))
    return errors


def _simple(path: str, at: Path) -> list[FieldError]:
    return [] if path[0] == "." else [invalid(at, path, "must be a simple json path starting with .")]


def _shown(versions: list[Json]) -> list[Any]:
    return [internal(CustomResourceDefinitionVersion, version) for version in versions]


def _column(column: Json, at: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if not column.get("name"):
        errors.append(required(at / "name"))
    kind, form, path = column.get("type", ""), column.get("format", ""), column.get("jsonPath", "")
    text = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        errors.append(required(at / "type", text))
    elif kind not in _COLUMN_TYPES:
        errors.append(invalid(at / "type", kind, text))
    if form and form not in _COLUMN_FORMATS:
        errors.append(invalid(at / "format", form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    if not path:
        errors.append(required(at / "JSONPath"))
    else:
        errors += _simple(path, at / "JSONPath")
    return errors


def _selectable(fields: list[Json], schema: Json | None, at: Path, old: Json | None) -> list[FieldError]:
    if schema is None:
        text = "may only be set when `version.schema.openAPIV3Schema` is not included"
        if at.text == "spec.selectableFields":
            text = "may only be set when validations.schema is included"
        return [invalid(at, "", text)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for here, item in each_item(at, fields):
        place, text = here / "jsonPath", item.get("jsonPath", "")
        if not text:
            errors.append(required(place))
            continue
        try:
            path, found = field_path(text, schema, keys=False)
        except FieldPathError as error:
            errors.append(invalid(place, text, f"is an invalid path: {error}"))
            continue
        if path.text.partition(".")[0] == "metadata":
            errors.append(invalid(place, text, "must not point to fields in metadata"))
        if found.get("type") not in ("string", "boolean", "integer"):
            reason = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats"
                " are allowed."
            )
            errors.append(invalid(place, text, reason))
        if path.text in seen:
            errors.append(duplicate(place, text))
        seen.add(path.text)
    before = (old or {}).get("selectableFields") or []
    if len(seen) > _MOST_FIELDS and not (len(before) > _MOST_FIELDS and before == fields):
        errors.append(too_many(at, len(seen), _MOST_FIELDS))
    return errors
