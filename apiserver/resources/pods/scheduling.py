"""Where a pod may run: tolerations, affinity, topology spread, scheduling gates."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Named, Path, duplicate, forbidden, invalid, not_supported, required
from apiserver.api.names import dns_label, label_key, label_value
from apiserver.resources.nodes import taint_effect
from apiserver.resources.nodeselectors import validate_node_selector, validate_node_selector_term

__all__ = ["validate_affinity", "validate_gates", "validate_label_selector", "validate_spread", "validate_tolerations"]

Json = dict[str, Any]

_OPERATORS: Final = ("DoesNotExist", "Exists", "In", "NotIn")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_tolerations(path: Path, tolerations: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        errors += _toleration(path[index], toleration)
    return errors


def _toleration(path: Path, toleration: Json) -> list[FieldError]:
    key, operator, value, effect = (toleration.get(field, "") for field in ("key", "operator", "value", "effect"))
    errors = [invalid(path / "key", key, text) for text in label_key(key)] if key else []
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(path / "operator", Named(operator), detail))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.append(
            invalid(path / "effect", Named(effect), "effect must be 'NoExecute' when `tolerationSeconds` is set")
        )
    if operator in ("Equal", ""):
        if texts := label_value(value):
            errors.append(invalid(path / "operator", value, ";".join(texts)))
    elif operator == "Exists":
        if value:
            errors.append(invalid(path / "operator", value, "value must be empty when `operator` is 'Exists'"))
    elif operator in ("Lt", "Gt"):
        errors.append(not_supported(path / "operator", Named(operator), ("Equal", "Exists", "Lt", "Gt")))
    else:
        errors.append(not_supported(path / "operator", Named(operator), ("Equal", "Exists")))
    return errors + taint_effect(path / "effect", effect) if effect else errors


def validate_gates(path: Path, gates: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += [invalid(path[index], name, text) for text in label_key(name)]
        if name in seen:
            errors.append(duplicate(path[index], name))
        seen.add(name)
    return errors


def validate_label_selector(path: Path, selector: Json | None) -> list[FieldError]:
    """A metav1.LabelSelector as part of an object."""
    if selector is None:
        return []
    errors: list[FieldError] = []
    for key, value in (selector.get("matchLabels") or {}).items():
        errors += [invalid(path / "matchLabels", key, text) for text in label_key(key)]
        errors += [invalid(path / "matchLabels", value, text) for text in label_value(value)]
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        at = (path / "matchExpressions")[index]
        operator, values, key = (
            expression.get("operator", ""),
            expression.get("values") or [],
            expression.get("key", ""),
        )
        if operator in ("In", "NotIn"):
            if not values:
                errors.append(required(at / "values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                errors.append(
                    forbidden(at / "values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
                )
        else:
            errors.append(invalid(at / "operator", Named(operator), "not a valid selector operator"))
        errors += [invalid(at / "key", key, text) for text in label_key(key)]
        for position, value in enumerate(values):
            errors += [invalid((at / "values")[position], value, text) for text in label_value(value)]
    return errors


def _weight(path: Path, term: Json) -> list[FieldError]:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(path / "weight", weight, "must be in the range 1-100")]


def validate_affinity(path: Path, affinity: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    node = affinity.get("nodeAffinity")
    if node is not None:
        at = path / "nodeAffinity"
        if node.get(_REQUIRED) is not None:
            errors += validate_node_selector(at / _REQUIRED, node[_REQUIRED])
        for index, term in enumerate(node.get(_PREFERRED) or ()):
            position = (at / _PREFERRED)[index]
            errors += _weight(position, term)
            errors += validate_node_selector_term(
                position / "preference", term.get("preference") or {}, label_values=False
            )
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind)
        if part is None:
            continue
        at = path / kind
        for index, term in enumerate(part.get(_REQUIRED) or ()):
            errors += _pod_term((at / _REQUIRED)[index], term)
        for index, term in enumerate(part.get(_PREFERRED) or ()):
            position = (at / _PREFERRED)[index]
            errors += _weight(position, term) + _pod_term(
                position / "podAffinityTerm", term.get("podAffinityTerm") or {}
            )
    return errors


def _pod_term(path: Path, term: Json) -> list[FieldError]:
    errors = validate_label_selector(path / "labelSelector", term.get("labelSelector"))
    errors += validate_label_selector(path / "namespaceSelector", term.get("namespaceSelector"))
    for name in term.get("namespaces") or ():
        errors += [invalid(path / "namespace", name, text) for text in dns_label(name)]
    errors += _label_keys(path, term)
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(path / "topologyKey", "can not be empty"))
    return errors + [invalid(path / "topologyKey", key, text) for text in label_key(key)]


def _label_keys(path: Path, term: Json) -> list[FieldError]:
    """Keys whose values the pod's own labels give."""
    match, mismatch = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    errors: list[FieldError] = []
    if not match and not mismatch:
        return errors
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and term.get("labelSelector") is None:
            errors.append(forbidden(path / field, "must not be specified when labelSelector is not set"))
            continue
        for index, key in enumerate(keys):
            errors += [invalid((path / field)[index], key, text) for text in label_key(key)]
    for index, key in enumerate(match):
        if key in mismatch:
            errors.append(
                invalid((path / "matchLabelKeys")[index], key, "exists in both matchLabelKeys and mismatchLabelKeys")
            )
    return errors


def validate_spread(path: Path, constraints: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, constraint in reversed(list(enumerate(constraints))):
        at = path[index]
        pair = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        found = _spread(at, constraint)
        if pair in seen:
            found.append(duplicate(at / "{topologyKey, whenUnsatisfiable}", f"{{{pair[0]}, {pair[1]}}}"))
        seen.add(pair)
        found += _label_keys(at, constraint) + validate_label_selector(
            at / "labelSelector", constraint.get("labelSelector")
        )
        errors = found + errors
    return errors


def _spread(path: Path, constraint: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    skew, key, when = (
        constraint.get("maxSkew", 0),
        constraint.get("topologyKey", ""),
        constraint.get("whenUnsatisfiable", ""),
    )
    if skew <= 0:
        errors.append(invalid(path / "maxSkew", skew, "must be greater than zero"))
    errors += (
        [invalid(path / "topologyKey", key, text) for text in label_key(key)]
        if key
        else [required(path / "topologyKey", "can not be empty")]
    )
    if when not in ("DoNotSchedule", "ScheduleAnyway"):
        errors.append(not_supported(path / "whenUnsatisfiable", Named(when), ("DoNotSchedule", "ScheduleAnyway")))
    least = constraint.get("minDomains")
    if least is not None:
        if least <= 0:
            errors.append(invalid(path / "minDomains", least, "must be greater than zero"))
        if when != "DoNotSchedule":
            errors.append(
                invalid(
                    path / "minDomains",
                    least,
                    f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}",
                )
            )
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(field)
        if policy is not None and policy not in ("Honor", "Ignore"):
            errors.append(not_supported(path / field, Named(policy), ("Honor", "Ignore")))
    return errors
