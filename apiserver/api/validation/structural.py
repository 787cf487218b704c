"""Validation by a structural schema, as custom resources have one: compiled once, with upstream's error texts.

    schema = Structural({"type": "object", "properties": {"spec": {…}}})
    errors = schema.errors(value)                    a new object
    errors = schema.errors(value, old)               an update: unchanged parts are not reported again
    errors = schema.errors(value, old, rules=hook)   with rules: hook(node, path, value, old) → errors

A valid value costs one walk of compiled tests. Only mismatches are walked again, with paths and texts. The order is
upstream's: types and limits, embedded objects, list types, rules. Rules are skipped for wrong types. Decoding has
already pruned nulls of schemas that are not nullable, so here they are errors.

Facts: k8s.io/kube-openapi (pkg/validation/validate); apiextensions-apiserver (pkg/apiserver/schema/listtype and
objectmeta, pkg/apiserver/validation/ratcheting.go, pkg/registry/customresource/strategy.go).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, duplicate, invalid, required
from apiserver.api.objects import Json
from apiserver.api.validation.nodes import ABSENT, Node, node_of, same
from apiserver.api.values.names import dns1035_label

__all__ = ["ABSENT", "RuleHook", "Structural", "blocking"]

#: Called for each part of a value whose schema has rules (`x-kubernetes-validations`): the schema, the path, the value,
#: the stored value (ABSENT without a counterpart, so that transition rules are skipped).
RuleHook = Callable[[Json, Path, Any, Any], list[FieldError]]
#: Called for the metadata of an embedded object.
MetadataHook = Callable[[Path, Json], list[FieldError]]

_BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_NOT_ASKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation"
)


_ROOT: Final = Path()


class Structural:
    """A compiled schema. `young`: the release knows the formats of 1.34."""

    def __init__(self, schema: Json, *, young: bool = True) -> None:
        self.schema = schema
        self._node = node_of(schema, young=young)
        self._has_rules = _mentions(schema, "x-kubernetes-validations")
        self._has_embedded = _mentions(schema, "x-kubernetes-embedded-resource")
        self._has_list_types = _mentions(schema, "x-kubernetes-list-type")

    def errors(
        self,
        value: Any,
        old: Any = ABSENT,
        *,
        path: Path | None = None,
        rules: RuleHook | None = None,
        metadata: MetadataHook | None = None,
    ) -> list[FieldError]:
        """Return all errors of a value. `path` is its path in its object."""
        at = path or Path()
        errors = self.limits(value, old, at) + self.embedded(value, metadata, at) + self.list_types(value, old, at)
        return errors + self.rules(value, old, errors, rules, at)

    # Each step on its own, for kinds that have other rules in between

    def limits(self, value: Any, old: Any = ABSENT, at: Path = _ROOT) -> list[FieldError]:
        """Check types, bounds, formats and combinations."""
        if self._node.fits(value):
            return []
        result = self._node.judge(value, "", old, at)
        if old is not ABSENT and same(self.schema, value, old):
            return []
        return [finding.error for finding in result.findings]

    def embedded(self, value: Any, metadata: MetadataHook | None, at: Path = _ROOT) -> list[FieldError]:
        """Check kind, apiVersion and metadata of embedded objects."""
        return _embedded(at, self.schema, value, metadata) if self._has_embedded else []

    def list_types(self, value: Any, old: Any = ABSENT, at: Path = _ROOT) -> list[FieldError]:
        """Check sets and lists by keys, unless the stored value already breaks their rules."""
        if not self._has_list_types or (old is not ABSENT and _list_types(at, self.schema, old)):
            return []
        return _list_types(at, self.schema, value)

    def rules(
        self, value: Any, old: Any, errors: list[FieldError], hook: RuleHook | None, at: Path = _ROOT
    ) -> list[FieldError]:
        """Evaluate the schema's own rules, unless `errors` block them."""
        if hook is None or not self._has_rules:
            return []
        if (blocked := blocking(errors)) is not None:
            return [blocked]
        return _rules(hook, self.schema, at, value, old)


def blocking(errors: list[FieldError]) -> FieldError | None:
    """Return the error that replaces the evaluation of rules if `errors` make it impossible, else None."""
    if any(error.reason in _BLOCKING for error in errors):
        return invalid(Path(), None, _NOT_ASKED)
    return None


def _mentions(schema: Any, word: str) -> bool:
    """Return whether a schema contains an extension."""
    if isinstance(schema, dict):
        return bool(schema.get(word)) or any(_mentions(part, word) for part in schema.values())
    return isinstance(schema, list) and any(_mentions(part, word) for part in schema)


def _below(schema: Json, name: str) -> tuple[Json | None, bool]:
    """Return the schema of a property, and whether the property is unnamed in the schema (additionalProperties)."""
    named = (schema.get("properties") or {}).get(name)
    if named is not None:
        return named, False
    more = schema.get("additionalProperties")
    return (more if isinstance(more, dict) else None), True


# --- embedded objects
# ----------------------------------------------------------------------------------------------------------------------


def _embedded(at: Path, schema: Json | None, value: Any, metadata: MetadataHook | None) -> list[FieldError]:
    """Check kind, apiVersion and metadata of the embedded objects inside the value."""
    if schema is None:
        return []
    errors: list[FieldError] = []
    if isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource"):
            errors += _embedded_object(at, value, metadata)
        for name, part in value.items():
            below, unnamed = _below(schema, name)
            errors += _embedded(at.key(name) if unnamed else at / name, below, part, metadata)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            errors += _embedded(at[index], schema.get("items"), item, metadata)
    return errors


def _embedded_object(at: Path, value: Json, metadata: MetadataHook | None) -> list[FieldError]:
    errors = [required(at / name) for name in ("apiVersion", "kind") if name not in value]
    for name in ("apiVersion", "kind"):
        if name in value:
            errors += _identity(at / name, name, value[name])
    if metadata is not None and "metadata" in value:
        errors += metadata(at / "metadata", value["metadata"])
    return errors


def _identity(at: Path, name: str, value: Any) -> list[FieldError]:
    if not isinstance(value, str):
        return [invalid(at, value, "must be a string")]
    if not value:
        return [invalid(at, value, "must not be empty")]
    if name == "apiVersion":
        wrong = value.count("/") > 1
        return [invalid(at, value, f"unexpected GroupVersion string: {value}")] if wrong else []
    texts = dns1035_label(value.lower())
    return [invalid(at, value, "may have mixed case, but should otherwise match: " + ",".join(texts))] if texts else []


# --- list types
# ----------------------------------------------------------------------------------------------------------------------


def _list_types(at: Path, schema: Json | None, value: Any) -> list[FieldError]:
    """Check that sets have no duplicates and lists by keys no two items with the same keys."""
    if schema is None:
        return []
    errors: list[FieldError] = []
    if isinstance(value, dict):
        for name, part in value.items():
            below, unnamed = _below(schema, name)
            errors += _list_types(at.key(name) if unnamed else at / name, below, part)
    elif isinstance(value, list):
        kind = schema.get("x-kubernetes-list-type")
        if kind == "set":
            errors += [duplicate(at[index], value[index]) for index in _repeated(value)]
        elif kind == "map":
            errors += _keyed(at, value, schema.get("x-kubernetes-list-map-keys") or [])
        for index, item in enumerate(value):
            errors += _list_types(at[index], schema.get("items"), item)
    return errors


def _keyed(at: Path, items: list[Any], names: list[str]) -> list[FieldError]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            return [invalid(at[index], item, "must be an object for an array of list-type map")]
    keys = [{name: item[name] for name in names if name in item} if item else {} for item in items]
    return [duplicate(at[index], keys[index]) for index in _repeated(keys)]


def _repeated(items: list[Any]) -> list[int]:
    """Return the index of the second occurrence of each item. Further occurrences are not reported."""
    found: list[int] = []
    counts: list[tuple[Any, int]] = []
    for index, item in enumerate(items):
        place = next((at for at, (known, _) in enumerate(counts) if same(None, known, item)), -1)
        if place < 0:
            counts.append((item, 1))
            continue
        known, count = counts[place]
        counts[place] = known, count + 1
        if count == 1:
            found.append(index)
    return found


# --- rules
# ----------------------------------------------------------------------------------------------------------------------


def _rules(hook: RuleHook, schema: Json | None, at: Path, value: Any, old: Any) -> list[FieldError]:
    """Evaluate the rules of a schema, then those of its parts. Skip nulls."""
    if schema is None or value is None:
        return []
    errors = hook(schema, at, value, old) if schema.get("x-kubernetes-validations") else []
    if isinstance(value, dict):
        for name, part in value.items():
            below, unnamed = _below(schema, name)
            before = old[name] if isinstance(old, dict) and name in old else ABSENT
            errors += _rules(hook, below, at.key(name) if unnamed else at / name, part, before)
    elif isinstance(value, list):
        stored = Node.correlated(schema, old)
        for index, item in enumerate(value):
            errors += _rules(hook, schema.get("items"), at[index], item, stored(item))
    return errors
