"""Validate where a pod may run: tolerations, affinity, topology spread, scheduling gates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    not_supported,
)
from apiserver.api.helpers.tolerations import CANONICAL, COMPARISONS, parse_integer
from apiserver.api.objects import Json
from apiserver.api.types.core.scheduling import (
    NodeAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
)
from apiserver.api.validation.compile import At
from apiserver.api.validation.formats import FORMATS
from apiserver.api.validation.items import each_unique
from apiserver.api.values.names import label_value
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.node_selectors import validate_node_selector, validate_node_selector_term

if TYPE_CHECKING:
    from apiserver.resources.pods.containervalidation import PodFacts

__all__ = ["validate_gates", "validate_spread", "validate_tolerations"]


_DIGITS: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
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
    elif operator not in COMPARISONS:
        errors.append(not_supported(path / "operator", Named(operator), ("Equal", "Exists")))
    elif at.env is None or not at.env.gates.compares:
        errors.append(not_supported(path / "operator", Named(operator), ("Equal", "Exists", *COMPARISONS)))
    else:
        errors += _number(path / "value", value)
    return errors + at.field("effect")


def _number(path: Path, value: str) -> list[FieldError]:
    """Validate the number of a comparison. Upstream reports both its format and Go's parse error."""
    errors = []
    if not CANONICAL.fullmatch(value):
        words = "must be a valid decimal integer in canonical form" if value else "must be non-empty"
        errors.append(invalid(path, value, words))
    if not _DIGITS.fullmatch(value):
        errors.append(invalid(path, value, f"strconv.ParseInt: parsing {go_quote(value)}: invalid syntax"))
    elif parse_integer(_plain(value)) is None:
        errors.append(invalid(path, value, f"strconv.ParseInt: parsing {go_quote(value)}: value out of range"))
    return errors


def _plain(digits: str) -> str:
    """Return the number without plus sign and leading zeros."""
    sign, rest = ("-", digits[1:]) if digits[0] == "-" else ("", digits.removeprefix("+"))
    number = rest.lstrip("0")
    return sign + number if number else "0"


def validate_tolerations(path: Path, tolerations: list[Json], env: PodFacts | None = None) -> list[FieldError]:
    """Validate tolerations. `env` are the facts about their pod, if there is one."""
    checks = RULES.of(Toleration)
    return [error for index, item in enumerate(tolerations) for error in checks.errors(path[index], item, env)]


def validate_gates(path: Path, gates: list[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    for at, gate, is_repeated in each_unique(path, gates, "name"):
        name = gate.get("name", "")
        errors += FORMATS["label-key"].errors(at, name)
        if is_repeated:
            errors.append(duplicate(at, name))
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
    # An empty key is reported as missing only, not as malformed.
    return errors + at.field("topologyKey") + ([] if key else FORMATS["label-key"].errors(at.path / "topologyKey", key))


def _label_keys(at: At, *fields: str) -> list[FieldError]:
    """Validate label keys whose values come from the pod's own labels."""
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
    """Validate spread constraints, with unique topologies.

    The last one is compared first, so that the first one is reported as the duplicate.
    """
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
