"""Define PriorityLevelConfigurations."""

from __future__ import annotations

import math
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.schema.markers import AtMost, Enum, Forbidden, If, Invalid, Required, UntilError, equals
from apiserver.api.types.flowcontrol import (
    PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec,
    QueuingConfiguration,
)
from apiserver.api.validation.compile import At
from apiserver.api.validation.internal_values import internal
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.flowcontrol.bootstrap import MANDATORY_LEVELS
from apiserver.resources.flowcontrol.schemas import FlowControlStrategy

__all__ = ["PRIORITY_LEVELS"]

Errors = list[FieldError]

_SPEC: Final = Path("spec")
_HASH_BITS: Final = 60
_MISNAMED: Final = "must be 'Exempt' if and only if `name` is 'exempt'"


def _entropy(at: At) -> Errors:
    """Limit the hash bits that shuffle sharding needs to choose a hand of queues."""
    queues, hand = at.value["queues"], at.value["handSize"]
    if math.ceil(math.log2(queues) * hand) <= _HASH_BITS:
        return []
    text = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
    return [invalid(at.path / "handSize", hand, text)]


RULES.set(
    QueuingConfiguration, "queueLengthLimit", "queues",
    UntilError(("handSize", AtMost("handSize", "queues", "should not be greater than queues ({})"), _entropy)),
)  # fmt: skip
#: `env` is the name of the level.
RULES.set(
    PriorityLevelConfigurationSpec,
    Invalid("type", _MISNAMED, when=lambda at: (at.env == "exempt") != (at.value.get("type") == "Exempt")),
    Forbidden("limited", "must be nil if the type is not Limited", when=equals("type", "Exempt")),
    If(equals("type", "Exempt"), ("exempt",)),
    Forbidden("exempt", "must be nil if the type is Limited", when=equals("type", "Limited")),
    Required("limited", "must not be empty when type is Limited", when=equals("type", "Limited")),
    If(equals("type", "Limited"), ("limited",)),
    Enum("type", ("Exempt", "Limited")),
)  # fmt: skip


def _fixed(name: str, spec: Json) -> Errors:
    """Require the fixed spec of mandatory levels. The exempt level may change its `exempt` field."""
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
        return RULES.of(PriorityLevelConfigurationSpec).errors(_SPEC, spec, name) + _fixed(name, spec)


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
        Column(name="HandSize", cell=_of_limited(*_QUEUING, "handSize"), description="Queues per flow."),
        Column(name="QueueLengthLimit", cell=_of_limited(*_QUEUING, "queueLengthLimit"),
            description="Maximum number of requests per queue."),
    ),
    subresources=(Subresource(name="status"),),
)  # fmt: skip
