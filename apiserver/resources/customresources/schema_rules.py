"""Validate the schema of a version: structural, supported, with valid defaults and cheap rules.

Facts: apiextensions-apiserver, pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid, not_supported, required
from apiserver.api.objects import Json
from apiserver.resources.customresources.default_rules import default_errors
from apiserver.resources.customresources.expressions import RuleScope, Spent, expression_errors, total_errors
from apiserver.resources.customresources.fieldpaths import FieldPathError, field_path
from apiserver.resources.customresources.structural_rules import structural_errors, unsupported

__all__ = ["schema_errors"]

#: Errors of the schema itself, and errors of its rules, which come after all of them.
Findings = tuple[list[FieldError], list[FieldError]]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_IDENTITY: Final = frozenset({"metadata", "kind", "apiVersion"})
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
#: The fields allowed at the root with a status subresource, and their Go names in the order of the message.
_ROOT: Final = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title", "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum", "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength", "minLength": "MinLength", "pattern": "Pattern", "maxItems": "MaxItems",
    "minItems": "MinItems", "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs", "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields", "x-kubernetes-validations": "XValidations",
}  # fmt: skip
_LINES: Final = re.compile(r"[\n\r]+")
_UNSUPPORTED: Final = (
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("$ref", "$ref is not supported"),
)


def schema_errors(at: Path, schema: Json, *, has_status: bool, unchanged: bool) -> list[FieldError]:
    """Validate a version's schema.

    `unchanged`: an update does not change the schema, so costs of single rules are not reported again.
    """
    errors = _root(at, schema) if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden(Path(f"{at}.nullable"), "nullable cannot be true at the root"))
    late: list[FieldError] = []
    scope: RuleScope | None = None
    if reason := unsupported(schema):
        late.append(invalid(at, "", reason))
    elif found := structural_errors(at, schema) or default_errors(at, schema):
        errors += found
    else:
        scope = RuleScope.root(schema)
    spent = Spent()
    own, rules = _Walk(spent, unchanged=unchanged).errors(schema, at, _Place(), scope, root=True)
    errors += own + rules
    if not errors:
        errors += late
    return errors + total_errors(at, spent)


def _root(at: Path, schema: Json) -> list[FieldError]:
    """Limit the fields at the root of a schema with a status subresource."""
    for name, value in schema.items():
        if value in (None, "", False, [], {}):
            continue
        if name == "type" and value != "object":
            text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            return [invalid(Path(f"{at}.type"), value, text)]
        if name not in _ROOT:
            names = " ".join(_ROOT.values())
            text = f"only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
            return [invalid(at, schema, text)]
    return []


@dataclass(frozen=True, slots=True)
class _Place:
    """The context of a location in the schema.

    `no_default` is the reason why defaults are forbidden. Items below the path `uncorrelated` cannot be matched with
    stored items.
    """

    no_default: str | None = None
    in_metadata: bool = False
    uncorrelated: Path | None = None

    def no_defaults(self, reason: str) -> _Place:
        return replace(self, no_default=reason)

    def without_old(self, at: Path) -> _Place:
        return self if self.uncorrelated is not None else replace(self, uncorrelated=at)


class _Walk:
    def __init__(self, spent: Spent, *, unchanged: bool) -> None:
        self._spent, self._unchanged = spent, unchanged

    def errors(self, schema: Any, at: Path, place: _Place, scope: RuleScope | None, *, root: bool = False) -> Findings:
        if not isinstance(schema, dict):
            return [], []
        own = _plain(schema, at, place)
        rules: list[FieldError] = []
        for part, path, where, inner in self._parts(schema, at, place, scope, root=root):
            more, later = self.errors(part, path, where, inner)
            own += more
            rules += later
        own += _markers(schema, at) + _map_keys(schema, at) + _rules(schema, at)
        if not own and scope is not None and schema.get("x-kubernetes-validations"):
            rules += expression_errors(scope, at, schema, place.uncorrelated, self._spent, unchanged=self._unchanged)
        return own, rules

    def _parts(
        self, schema: Json, at: Path, place: _Place, scope: RuleScope | None, *, root: bool
    ) -> list[tuple[Any, Path, _Place, RuleScope | None]]:
        """Return the sub-schemas of a schema with their locations."""
        parts: list[tuple[Any, Path, _Place, RuleScope | None]] = []
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            where = (
                place.no_defaults("inside additionalProperties applying to object metadata")
                if place.in_metadata
                else place
            )
            parts.append((others, at / "additionalProperties", where, scope and scope.values(others)))
        for name, part in (schema.get("properties") or {}).items():
            where = place
            if (root or schema.get("x-kubernetes-embedded-resource")) and name in _IDENTITY:
                where = replace(where, in_metadata=True)
                if root:
                    where = where.no_defaults(f"in top-level {name}")
            parts.append((part, (at / "properties").key(name), where, scope and scope.property(name, part)))
        parts.append((schema.get("not"), at / "not", place, None))
        for combination in ("allOf", "oneOf", "anyOf"):
            for index, part in enumerate(schema.get(combination) or ()):
                parts.append((part, (at / combination)[index], place, None))
        for name, part in (schema.get("definitions") or {}).items():
            parts.append((part, (at / "definitions").key(name), place, None))
        items = schema.get("items")
        where = place if schema.get("x-kubernetes-list-type") == "map" else place.without_old(at)
        if isinstance(items, list):
            parts += [(part, (at / "items")[index], where, None) for index, part in enumerate(items)]
        elif items is not None:
            parts.append((items, at / "items", where, scope and scope.items(items)))
        for name, part in (schema.get("dependencies") or {}).items():
            parts.append((part, (at / "dependencies").key(name), place, None))
        return parts


def _plain(schema: Json, at: Path, place: _Place) -> list[FieldError]:
    """Reject unsupported and contradictory keywords of one schema."""
    errors: list[FieldError] = []
    kind = schema.get("type") or ""
    if kind and kind not in _TYPES:
        errors.append(not_supported(at / "type", kind, _TYPES))
    if schema.get("default") is not None and place.no_default is not None:
        errors.append(forbidden(at / "default", f"must not be set {place.no_default}"))
    for name, text in _UNSUPPORTED:
        value = schema.get(name)
        if value or (value is not None and name in ("additionalItems", "dependencies", "$ref")):
            errors.append(forbidden(at / name, text))
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        errors.append(forbidden(at / "type", text))
    if isinstance(schema.get("items"), list) and schema["items"]:
        errors.append(forbidden(at / "items", "items must be a schema object and not an array"))
    if place.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        errors.append(forbidden(at / "x-kubernetes-embedded-resource", "must not be used inside of resource meta"))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(at / "uniqueItems", text))
    others = schema.get("additionalProperties")
    if schema.get("properties") and (others is False or isinstance(others, dict)):
        text = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden(at / "additionalProperties", text))
    return errors


def _markers(schema: Json, at: Path) -> list[FieldError]:
    """Validate the extensions for preserving and merging values."""
    kind, errors = schema.get("type") or "", []
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        errors.append(invalid(at / "x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None:
        errors += _of_type(at, kind, "object", "x-kubernetes-map-type")
        if map_type not in ("atomic", "granular"):
            errors.append(not_supported(at / "x-kubernetes-map-type", map_type, ("atomic", "granular")))
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    if list_type is not None:
        found = _of_type(at, kind, "array", "x-kubernetes-list-type")
        errors += found
        if not found and list_type == "set" and isinstance(items, dict):
            errors += _set_items(items, at / "items")
        if list_type not in ("atomic", "set", "map"):
            errors.append(not_supported(at / "x-kubernetes-list-type", list_type, ("atomic", "set", "map")))
    return errors


def _of_type(at: Path, kind: str, wanted: str, marker: str) -> list[FieldError]:
    if kind == wanted:
        return []
    text = f"must be {wanted} if {marker} is specified"
    return [invalid(at / "type", kind, text) if kind else required(at / "type", text)]


def _set_items(items: Json, at: Path) -> list[FieldError]:
    """Require atomic items of a set."""
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        return [invalid(at / "x-kubernetes-list-type", list_type, text)]
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        return [invalid(at / "x-kubernetes-map-type", list_type, text)]
    return []


def _map_keys(schema: Json, at: Path) -> list[FieldError]:
    """Validate lists whose items are identified by keys."""
    errors: list[FieldError] = []
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        place = at / "x-kubernetes-list-type"
        errors.append(required(place, text) if list_type is None else invalid(place, list_type, text))
    items = schema.get("items")
    if list_type == "map":
        errors += _keyed(schema, items, keys, at)
    if list_type in ("set", "map") and isinstance(items, dict):
        place = at / "items"
        if items.get("nullable"):
            errors.append(
                forbidden(place / "nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
            )
        for key in keys if list_type == "map" else ():
            errors += _key_is_there(items, key, place)
    return errors


def _keyed(schema: Json, items: Any, keys: list[str], at: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    place = at / "x-kubernetes-list-map-keys"
    if not keys:
        errors.append(required(place, "must not be empty if x-kubernetes-list-type is map"))
    if items is None:
        return [*errors, required(at / "items", "must have a schema if x-kubernetes-list-type is map")]
    if not isinstance(items, dict):
        return [
            *errors,
            invalid(at / "items", items, "must only have a single schema if x-kubernetes-list-type is map"),
        ]
    kind = items.get("type") or ""
    if kind != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        return [*errors, invalid(at / "items" / "type", kind, text)]
    seen: set[str] = set()
    for key in keys:
        part = (items.get("properties") or {}).get(key)
        if part is None:
            errors.append(invalid(place, keys, "entries must all be names of item properties"))
        elif part.get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            errors.append(invalid((at / "items" / "properties").key(key) / "type", kind, text))
        if key in seen:
            errors.append(invalid(place, keys, "must not contain duplicate entries"))
        seen.add(key)
    return errors


def _key_is_there(items: Json, key: str, at: Path) -> list[FieldError]:
    """Require that each item has a value for a key."""
    part = (items.get("properties") or {}).get(key)
    if part is None:
        return []
    errors: list[FieldError] = []
    place = (at / "properties").key(key)
    if key not in (items.get("required") or ()) and part.get("default") is None:
        text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
        errors.append(required(place / "default", text))
    if part.get("nullable"):
        text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
        errors.append(forbidden(place / "nullable", text))
    return errors


def _rules(schema: Json, at: Path) -> list[FieldError]:
    """Validate the fields of a schema's rules, except their expressions."""
    errors: list[FieldError] = []
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        place = (at / "x-kubernetes-validations")[index]
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            errors.append(required(place / "rule", "rule is not specified"))
        elif message and not message.strip():
            errors.append(invalid(place / "message", message, "must be non-empty if specified"))
        elif _LINES.search(message.strip()):
            errors.append(invalid(place / "message", message, "must not contain line breaks"))
        elif _LINES.search(text) and not message.strip():
            errors.append(required(place / "message", "message must be specified if rule contains line breaks"))
        expression = rule.get("messageExpression") or ""
        if expression and not expression.strip():
            text = "messageExpression must be non-empty if specified"
            errors.append(required(place / "messageExpression", text))
        if (reason := rule.get("reason")) is not None and reason not in _REASONS:
            errors.append(not_supported(place / "reason", reason, _REASONS))
        errors += _field_path(schema, rule.get("fieldPath") or "", place / "fieldPath")
    return errors


def _field_path(schema: Json, path: str, at: Path) -> list[FieldError]:
    if not path:
        return []
    errors: list[FieldError] = []
    if not path.strip():
        errors.append(invalid(at, path, "must be non-empty if specified"))
    if _LINES.search(path):
        errors.append(invalid(at, path, "must not contain line breaks"))
    try:
        field_path(path, schema)
    except FieldPathError:
        errors.append(invalid(at, path, "must be a valid path"))
    return errors
