"""Compile CEL device selectors once and evaluate them for many devices.

    environment = device_environment((1, 36), {"DRAConsumableCapacity": True}, stored=True)
    program = compile('device.driver == "gpu.example.com"', environment)
    if isinstance(program, CompileError): ...
    program.evaluate(Device("gpu.example.com"))

Only this package knows how expressions are parsed and evaluated. Its import is cheap; the engine is loaded when the
first expression is compiled. Errors have the texts of a real API server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.values.bounded_cache import remembered
from apiserver.cel.errors import LIMIT_EXCEEDED, CompileError, EvaluationError

if TYPE_CHECKING:
    from apiserver.cel.engine import Compiled

#: The cost at which an evaluation is aborted, and the estimated cost above which a selector is refused.
COST_LIMIT: Final = 1_000_000
#: Maximum bytes of a selector.
MAX_EXPRESSION_LENGTH: Final = 10_240
TOO_EXPENSIVE: Final = "too complex, exceeds cost limit"

__all__ = [
    "COST_LIMIT",
    "LIMIT_EXCEEDED",
    "MAX_EXPRESSION_LENGTH",
    "TOO_EXPENSIVE",
    "CompileError",
    "Device",
    "Environment",
    "EvaluationError",
    "Program",
    "compile",
    "device_environment",
]

_CACHE_SIZE: Final = 1024
#: Characters of all cached expressions; a program takes about 100 bytes per character.
_CACHE_CHARACTERS: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Environment:
    """Features available to selectors: release that must understand them, feature gates, stored or new objects."""

    compatible: tuple[int, int]
    consumable_capacity: bool
    list_attributes: bool
    stored: bool


def device_environment(release: tuple[int, int], features: Mapping[str, bool] | object, stored: bool) -> Environment:
    """Return the environment of selectors on a server of `release`.

    `features` provides the feature gates: a mapping, or an object with `enabled(name)`. `stored` is for expressions of
    stored objects and for evaluation: everything known is available there, whatever the gates.
    """
    return Environment(
        (release[0], release[1] - 1),
        _enabled(features, "DRAConsumableCapacity"),
        _enabled(features, "DRAListTypeAttributes"),
        stored,
    )


def _enabled(features: Mapping[str, bool] | object, name: str) -> bool:
    if isinstance(features, Mapping):
        return bool(features.get(name, False))
    enabled = getattr(features, "enabled", None)
    return bool(enabled(name)) if callable(enabled) else bool(getattr(features, name, False))


@dataclass(slots=True, eq=False)
class Device:
    """A device as described by ResourceSlices. Attributes and capacity must not change after its first evaluation."""

    driver: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, Any] = field(default_factory=dict)
    allow_multiple_allocations: bool = False
    _bound: dict[bool, Any] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def from_slice(driver: str, device: Mapping[str, Any]) -> Device:
        """Build a device from an entry of `spec.devices`."""
        return Device(
            driver,
            device.get("attributes") or {},
            device.get("capacity") or {},
            bool(device.get("allowMultipleAllocations")),
        )

    def bound(self, list_attributes: bool) -> Any:
        """Return the value of the variable `device`; raise EvaluationError for an unsupported attribute."""
        known = self._bound.get(list_attributes)
        if known is None:
            from apiserver.cel.environments.devices import bind

            known = self._bound[list_attributes] = bind(self, list_values=list_attributes)
        if known.__class__ is str:
            raise EvaluationError(known)
        return known


class Program:
    """A compiled selector."""

    __slots__ = ("_compiled", "_list_attributes", "expression", "max_cost", "output_type")

    def __init__(self, expression: str, compiled: Compiled, list_attributes: bool) -> None:
        self.expression = expression
        self.max_cost = compiled.max_cost
        self.output_type = str(compiled.output)
        self._compiled = compiled
        self._list_attributes = list_attributes

    def evaluate(self, device: Device) -> bool:
        """Return whether the device matches; raise EvaluationError if the evaluation fails."""
        return self.evaluate_with_cost(device)[0]

    def evaluate_with_cost(self, device: Device, limit: int = COST_LIMIT) -> tuple[bool, int]:
        """Return whether the device matches, and the cost of the evaluation."""
        value, cost = self._compiled.evaluate([device.bound(self._list_attributes)], limit)
        if value is True or value is False:
            return value, cost
        raise self._compiled.not_bool(value, cost)


def compile(expression: str, environment: Environment) -> Program | CompileError:  # noqa: A001 - what it does
    """Compile a selector. The most recent results are cached."""
    return _compile(expression, environment)


@remembered(_CACHE_SIZE, _CACHE_CHARACTERS)
def _compile(expression: str, environment: Environment) -> Program | CompileError:
    from apiserver.cel.engine import CompileFailure, compile_expression
    from apiserver.cel.environments.devices import device_language

    language = device_language(
        environment.compatible,
        consumable=environment.consumable_capacity,
        list_values=environment.list_attributes,
        stored=environment.stored,
    )
    accepted = {"bool", "any", "dyn"} if environment.list_attributes else {"bool", "any"}
    try:
        compiled = compile_expression(expression, language, frozenset(accepted), "bool or the unknown type", COST_LIMIT)
    except CompileFailure as error:
        return CompileError(str(error), error.internal)
    return Program(expression, compiled, environment.list_attributes)
