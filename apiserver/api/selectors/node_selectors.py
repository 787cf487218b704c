"""Node selectors and node affinity: parsed once, matched against nodes.

Invariants
- Terms are alternatives. All requirements of a term must match. A term without requirements selects nothing.
- A selector with an invalid term is either rejected as a whole (`NodeSelector.strict`), or raises only if no other
  term matches (`match`), as upstream always treated pods.
- Field requirements always match a node without a name.

Source of facts: the core/v1 API (NodeSelector, NodeAffinity) and answers recorded from Kubernetes 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, aggregate, invalid, not_supported
from apiserver.api.values.names import label_key, label_value

Object = Mapping[str, Any]

_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_INT64: Final = 1 << 63


class InvalidNodeSelector(ValueError):
    """An unusable selector; the text names every problem."""


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        return _HOLDS[self.operator](value, self.values)


def _greater(value: str | None, values: tuple[str, ...]) -> bool:
    number = None if value is None else _int64(value)
    return number is not None and number > int(values[0])


def _less(value: str | None, values: tuple[str, ...]) -> bool:
    number = None if value is None else _int64(value)
    return number is not None and number < int(values[0])


_HOLDS: Final[dict[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _greater,
    "Lt": _less,
}


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text) if len(text) < 40 else _INT64
    return number if -_INT64 <= number < _INT64 else None


@dataclass(frozen=True, slots=True)
class _Term:
    labels: tuple[_Requirement, ...]
    fields: tuple[_Requirement, ...]
    errors: tuple[FieldError, ...]

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if not all(requirement.holds(labels) for requirement in self.labels):
            return False
        if not name:
            return True
        # A field that nodes do not have compares as the empty text.
        fields = {"metadata.name": name}
        return all(item.holds({item.key: fields.get(item.key, "")}) for item in self.fields)


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """A parsed node selector."""

    terms: tuple[_Term, ...]

    @staticmethod
    def parse(selector: Object, path: Path | None = None) -> NodeSelector:
        """Parse a selector. Its problems are stored; `match` raises them if they matter."""
        where = (path or Path()) / "nodeSelectorTerms"
        terms = selector.get("nodeSelectorTerms") or ()
        return NodeSelector(tuple(_term(term, where[i]) for i, term in enumerate(terms) if not _is_empty(term)))

    @staticmethod
    def strict(selector: Object, path: Path | None = None) -> NodeSelector:
        """Parse a selector. Raise InvalidNodeSelector for any invalid term."""
        parsed = NodeSelector.parse(selector, path)
        _raise([error for term in parsed.terms for error in term.errors])
        return parsed

    def match(self, node: Object) -> bool:
        """Return whether the node is selected. Raise InvalidNodeSelector if it is not and a term is invalid."""
        labels, name = _labels(node), _name(node)
        errors: list[FieldError] = []
        for term in self.terms:
            if term.errors:
                errors += term.errors
            elif term.matches(labels, name):
                return True
        _raise(errors)
        return False

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node with these labels and this name is selected, for selectors without problems."""
        return any(term.matches(labels, name) for term in self.terms if not term.errors)


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """The required node selection of a pod: its `nodeSelector` and its required node affinity."""

    labels: Mapping[str, str]
    selector: NodeSelector | None

    @staticmethod
    def of_pod(pod: Object) -> RequiredNodeAffinity:
        """Return the requirements of a pod."""
        spec = pod.get("spec") or {}
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        return RequiredNodeAffinity(
            spec.get("nodeSelector") or {}, None if required is None else NodeSelector.parse(required)
        )

    def match(self, node: Object) -> bool:
        """Return whether the pod accepts the node. Raise InvalidNodeSelector as `NodeSelector.match` does."""
        labels = _labels(node)
        if any(labels.get(key) != value for key, value in self.labels.items()):
            return False
        return self.selector is None or self.selector.match(node)


@dataclass(frozen=True, slots=True)
class PreferredTerms:
    """Preferred scheduling terms with their weights."""

    terms: tuple[tuple[int, _Term], ...]

    @staticmethod
    def parse(terms: Sequence[Object], path: Path | None = None) -> PreferredTerms:
        """Parse terms. Ignore terms without weight or without requirements, including their errors."""
        where = path or Path()
        parsed = [
            (term["weight"], _term(term.get("preference") or {}, where[i]))
            for i, term in enumerate(terms)
            if term.get("weight") and not _is_empty(term.get("preference") or {})
        ]
        _raise([error for _, term in parsed for error in term.errors])
        return PreferredTerms(tuple(parsed))

    def score(self, node: Object) -> int:
        """Return the sum of the weights of the matching terms."""
        labels, name = _labels(node), _name(node)
        return sum(weight for weight, term in self.terms if term.matches(labels, name))


def _labels(node: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = (node.get("metadata") or {}).get("labels") or {}
    return labels


def _name(node: Object) -> str:
    name: str = (node.get("metadata") or {}).get("name") or ""
    return name


def _raise(errors: list[FieldError]) -> None:
    if errors:
        raise InvalidNodeSelector(aggregate(errors))


def _is_empty(term: Object) -> bool:
    return not term.get("matchExpressions") and not term.get("matchFields")


def _term(term: Object, path: Path) -> _Term:
    errors: list[FieldError] = []
    labels = [
        _label_requirement(item, (path / "matchExpressions")[i], errors)
        for i, item in enumerate(term.get("matchExpressions") or ())
    ]
    fields = [
        _field_requirement(item, (path / "matchFields")[i], errors)
        for i, item in enumerate(term.get("matchFields") or ())
    ]
    return _Term(tuple(labels), tuple(fields), tuple(errors))


def _label_requirement(item: Object, path: Path, errors: list[FieldError]) -> _Requirement:
    key, operator, values = item.get("key") or "", item.get("operator") or "", tuple(item.get("values") or ())
    if operator not in _LABEL_OPERATORS:
        errors.append(not_supported(path / "operator", operator, _LABEL_OPERATORS))
        return _Requirement(key, operator, values)
    problems = label_key(key)
    if problems:
        errors.append(invalid(path / "key", key, "; ".join(problems)))
    errors += _value_errors(operator, item.get("values"), path / "values")
    for i, value in enumerate(values):
        problems = label_value(value)
        if problems:
            errors.append(invalid((path / "values")[i].key(key), value, "; ".join(problems)))
    return _Requirement(key, operator, values)


def _value_errors(operator: str, values: Sequence[str] | None, path: Path) -> list[FieldError]:
    if operator in ("In", "NotIn"):
        problem = "for 'in', 'notin' operators, values set can't be empty"
        return [] if values else [invalid(path, values, problem)]
    if operator in ("Exists", "DoesNotExist"):
        return [invalid(path, values, "values set must be empty for exists and does not exist")] if values else []
    errors = []
    if len(values or ()) != 1:
        errors.append(invalid(path, values, "for 'Gt', 'Lt' operators, exactly one value is required"))
    for i, value in enumerate(values or ()):
        if _int64(value) is None:
            errors.append(invalid(path[i], value, "for 'Gt', 'Lt' operators, the value must be an integer"))
    return errors


def _field_requirement(item: Object, path: Path, errors: list[FieldError]) -> _Requirement:
    key, operator, values = item.get("key") or "", item.get("operator") or "", tuple(item.get("values") or ())
    if operator not in _FIELD_OPERATORS:
        errors.append(not_supported(path / "operator", operator, _FIELD_OPERATORS))
    elif len(values) != 1:
        errors.append(invalid(path / "values", item.get("values"), "must have one element"))
    return _Requirement(key, operator, values)
