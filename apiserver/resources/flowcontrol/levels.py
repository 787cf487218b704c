"""PriorityLevelConfigurations."""

from __future__ import annotations

import math
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, forbidden, invalid, not_supported, required
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.flowcontrol import PriorityLevelConfiguration, PriorityLevelConfigurationSpec
from apiserver.api.validation.internal_values import internal
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.flowcontrol.bootstrap import MANDATORY_LEVELS
from apiserver.resources.flowcontrol.schemas import FlowControlStrategy

__all__ = ["PRIORITY_LEVELS"]

Json = dict[str, Any]
Errors = list[FieldError]

_SPEC: Final = Path("spec")
_MOST_QUEUES: Final = 10 * 1000 * 1000
_HASH_BITS: Final = 60
_TYPES: Final = ("Exempt", "Limited")
_RESPONSES: Final = ("Queue", "Reject")


def _percent(path: Path, value: int | None) -> Errors:
    if value is None or 0 <= value <= 100:
        return []
    return [invalid(path, value, "must be between 0 and 100, inclusive")]


def _shares(path: Path, value: int | None) -> Errors:
    return [invalid(path, value, "must be a non-negative integer")] if value is not None and value < 0 else []


def _entropy(queues: int, hand: int) -> int:
    """Bits of a hash that choose a hand of queues (shuffle sharding)."""
    return math.ceil(math.log2(queues) * hand)


def _queuing(path: Path, queuing: Json) -> Errors:
    length, queues, hand = (queuing.get(name, 0) for name in ("queueLengthLimit", "queues", "handSize"))
    errors = [] if length > 0 else [invalid(path / "queueLengthLimit", length, "must be positive")]
    if queues <= 0:
        errors.append(invalid(path / "queues", queues, "must be positive"))
    elif queues > _MOST_QUEUES:
        errors.append(invalid(path / "queues", queues, f"must not be greater than {_MOST_QUEUES}"))
    if hand <= 0:
        errors.append(invalid(path / "handSize", hand, "must be positive"))
    elif hand > queues:
        errors.append(invalid(path / "handSize", hand, f"should not be greater than queues ({queues})"))
    elif _entropy(queues, hand) > _HASH_BITS:
        text = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
        errors.append(invalid(path / "handSize", hand, text))
    return errors


def _response(path: Path, response: Json) -> Errors:
    kind, queuing, at = response.get("type", ""), response.get("queuing"), path / "queuing"
    if kind not in _RESPONSES:
        return [not_supported(path / "type", Named(kind), _RESPONSES)]
    if kind == "Reject":
        text = "must be nil if limited.limitResponse.type is not Limited"
        return [] if queuing is None else [forbidden(at, text)]
    if queuing is None:
        return [required(at, "must not be empty if limited.limitResponse.type is Limited")]
    return _queuing(at, queuing)


def _limited(path: Path, limited: Json) -> Errors:
    errors = _shares(path / "nominalConcurrencyShares", limited.get("nominalConcurrencyShares"))
    errors += _response(path / "limitResponse", limited.get("limitResponse") or {})
    errors += _percent(path / "lendablePercent", limited.get("lendablePercent"))
    most = limited.get("borrowingLimitPercent")
    if most is not None and most < 0:
        errors.append(invalid(path / "borrowingLimitPercent", most, "if specified, must be a non-negative integer"))
    return errors


def _fixed(name: str, spec: Json) -> Errors:
    """The levels that every server needs stay as they are, but for what the exempt one lends."""
    fixed, shown = MANDATORY_LEVELS.get(name), internal(PriorityLevelConfigurationSpec, spec)
    if fixed is None:
        return []
    if name == "exempt":
        same = semantic_equal(PriorityLevelConfigurationSpec, {**spec, "exempt": fixed["exempt"]}, fixed)
        text = f"spec of '{name}' except the 'spec.exempt' field must equal the fixed value"
    else:
        same = semantic_equal(PriorityLevelConfigurationSpec, spec, fixed)
        text = f"spec of '{name}' must equal the fixed value"
    return [] if same else [invalid(_SPEC, shown, text)]


class PriorityLevelStrategy(FlowControlStrategy):
    spec_type = PriorityLevelConfigurationSpec

    def errors(self, name: str, spec: Json) -> Errors:
        kind, limited, exempt = spec.get("type", ""), spec.get("limited"), spec.get("exempt")
        errors: Errors = []
        if (name == "exempt") != (kind == "Exempt"):
            text = "must be 'Exempt' if and only if `name` is 'exempt'"
            errors.append(invalid(_SPEC / "type", Named(kind), text))
        if kind == "Exempt":
            if limited is not None:
                errors.append(forbidden(_SPEC / "limited", "must be nil if the type is not Limited"))
            path, given = _SPEC / "exempt", exempt or {}
            errors += _shares(path / "nominalConcurrencyShares", given.get("nominalConcurrencyShares"))
            errors += _percent(path / "lendablePercent", given.get("lendablePercent"))
        elif kind == "Limited":
            if exempt is not None:
                errors.append(forbidden(_SPEC / "exempt", "must be nil if the type is Limited"))
            if limited is None:
                errors.append(required(_SPEC / "limited", "must not be empty when type is Limited"))
            else:
                errors += _limited(_SPEC / "limited", limited)
        else:
            errors.append(not_supported(_SPEC / "type", Named(kind), _TYPES))
        return errors + _fixed(name, spec)


def _of_limited(*steps: str) -> Any:
    def cell(obj: Json) -> Any:
        value: Any = obj["spec"].get("limited")
        for step in steps:
            value = None if value is None else value.get(step)
        return "<none>" if value is None else value

    return cell


_QUEUING: Final = ("limitResponse", "queuing")
PRIORITY_LEVELS: Final = Resource(
    group="flowcontrol.apiserver.k8s.io", kind="PriorityLevelConfiguration", plural="prioritylevelconfigurations",
    singular="prioritylevelconfiguration", namespaced=False,
    versions=(Version(name="v1", schema=PriorityLevelConfiguration),),
    strategy=PriorityLevelStrategy(), storage_prefix="prioritylevelconfigurations",
    columns=name_and_age(
        Column(name="Type", cell=lambda obj: obj["spec"].get("type", ""), description="Limited or Exempt."),
        Column(name="NominalConcurrencyShares", cell=_of_limited("nominalConcurrencyShares"),
            description="Share of the server's seats."),
        Column(name="Queues", cell=_of_limited(*_QUEUING, "queues"), description="Number of queues."),
        Column(name="HandSize", cell=_of_limited(*_QUEUING, "handSize"), description="Queues that a flow may use."),
        Column(name="QueueLengthLimit", cell=_of_limited(*_QUEUING, "queueLengthLimit"),
            description="Requests that may wait in a queue."),
    ),
    subresources=(Subresource(name="status"),),
)  # fmt: skip
