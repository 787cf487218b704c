"""Where a pod may run: tolerations, affinity, topology spread, scheduling gates."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Named, Path, duplicate, forbidden, invalid, not_supported
from apiserver.api.names import label_key, label_value
from apiserver.api.types.core.scheduling import (
    NodeAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
)
from apiserver.api.validation.compile import At
from apiserver.api.validation.formats import FORMATS
from apiserver.resources.corerules import RULES
from apiserver.resources.nodeselectors import validate_node_selector, validate_node_selector_term

__all__ = ["validate_gates", "validate_spread", "validate_tolerations"]

Json = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _toleration(at: At) -> list[FieldError]:
    key, operator, value, effect = (at.value.get(field, "") for field in ("key", "operator", "value", "effect"))
    path, errors = at.path, at.field("key")
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(path / "operator", Named(operator), detail))
    if at.value.get("tolerationSeconds") is not None and effect != "NoExecute":
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
    return errors + at.field("effect")


def validate_tolerations(path: Path, tolerations: list[Json]) -> list[FieldError]:
    checks = RULES.of(Toleration)
    return [error for index, item in enumerate(tolerations) for error in checks.errors(path[index], item)]


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


def _node_affinity(at: At) -> list[FieldError]:
    needed, wanted = at.value.get(_REQUIRED), at.value.get(_PREFERRED)
    errors = validate_node_selector(at.path / _REQUIRED, needed) if needed is not None else []
    for index, term in enumerate(wanted or ()):
        here = RULES.of(PreferredSchedulingTerm).at((at.path / _PREFERRED)[index], term)
        errors += here.field("weight")
        errors += validate_node_selector_term(
            here.path / "preference", term.get("preference") or {}, label_values=False
        )
    return errors


def _pod_term(at: At) -> list[FieldError]:
    errors = at.field("labelSelector") + at.field("namespaceSelector")
    for name in at.value.get("namespaces") or ():
        errors += FORMATS["dns-label"].errors(at.path / "namespace", name)
    errors += _label_keys(at, "matchLabelKeys", "mismatchLabelKeys")
    key = at.value.get("topologyKey", "")
    # An empty key is missing, and has no form.
    return errors + at.field("topologyKey") + ([] if key else FORMATS["label-key"].errors(at.path / "topologyKey", key))


def _label_keys(at: At, *fields: str) -> list[FieldError]:
    """Keys whose values the pod's own labels give."""
    errors: list[FieldError] = []
    for field in fields:
        if at.value.get(field) and at.value.get("labelSelector") is None:
            errors.append(forbidden(at.path / field, "must not be specified when labelSelector is not set"))
        else:
            errors += at.field(field)
    mismatch = at.value.get("mismatchLabelKeys") or ()
    return errors + [
        invalid((at.path / "matchLabelKeys")[index], key, "exists in both matchLabelKeys and mismatchLabelKeys")
        for index, key in enumerate(at.value.get("matchLabelKeys") or ())
        if key in mismatch
    ]


def validate_spread(path: Path, constraints: list[Json]) -> list[FieldError]:
    """Constraints, each for a topology of its own. The last is looked at first, so that the first is the repetition."""
    checks = RULES.of(TopologySpreadConstraint)
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, constraint in reversed(list(enumerate(constraints))):
        at = checks.at(path[index], constraint)
        pair = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        found = at.fields("maxSkew", "topologyKey", "whenUnsatisfiable", "minDomains") + _domains(at)
        found += at.fields("nodeAffinityPolicy", "nodeTaintsPolicy")
        if pair in seen:
            shown = f"{{{pair[0]}, {pair[1]}}}"
            found.append(duplicate(at.path / "{topologyKey, whenUnsatisfiable}", shown))
        seen.add(pair)
        errors = found + _label_keys(at, "matchLabelKeys") + at.field("labelSelector") + errors
    return errors


def _domains(at: At) -> list[FieldError]:
    least, when = at.value.get("minDomains"), at.value.get("whenUnsatisfiable", "")
    if least is None or when == "DoNotSchedule":
        return []
    detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
    return [invalid(at.path / "minDomains", least, detail)]


RULES.set(Toleration, _toleration, by_rules=("key", "operator", "effect"))
RULES.set(PreferredSchedulingTerm, by_rules=("weight", "preference"))
RULES.set(NodeAffinity, _node_affinity, by_rules=(_REQUIRED, _PREFERRED))
RULES.set(
    PodAffinityTerm,
    _pod_term,
    by_rules=("labelSelector", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys", "topologyKey"),
)
RULES.set(
    TopologySpreadConstraint,
    by_rules=(
        "maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector", "minDomains", "nodeAffinityPolicy",
        "nodeTaintsPolicy", "matchLabelKeys",
    ),
)  # fmt: skip
