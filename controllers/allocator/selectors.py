"""Device selectors: evaluate each expression once per group of devices that it cannot distinguish.

Invariants
- A verdict depends only on the expression and the device's driver, attributes, capacities and
  `allowMultipleAllocations`, not on node, pool, name or allocation state. Errors are verdicts, too.
- If the attributes read by an expression are known, only they distinguish devices: thousands of devices with different
  serial numbers cost one evaluation of `attributes["x"].model == "A100"`.
- Otherwise the expression counts as reading everything.

Source of facts: CEL selectors of resource.k8s.io/v1.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from controllers.allocator.devices import Device

_EXPRESSIONS_KEPT: Final = 1024
_VERDICTS_KEPT: Final = 50_000


@dataclass(frozen=True, slots=True)
class SelectorError:
    """The expression does not compile, or failed for this device."""

    kind: str
    """`compile` or `runtime`."""
    text: str


Verdict = bool | SelectorError

Path = tuple[str, str, str]
"""`attributes` or `capacity` with domain and identifier, or a field of the device with two empty strings."""


class Evaluator(Protocol):
    """Interface to the expression language."""

    def compile(self, expression: str) -> Callable[[Device], Verdict] | SelectorError:
        """Compile an expression. Return a predicate over devices, or the error."""

    def reads(self, expression: str) -> tuple[Path, ...] | None:
        """Return all paths that the expression can read in a device, or None if unknown."""


class CelEvaluator:
    """CEL expressions with the full environment of a release, because stored expressions must keep working."""

    def __init__(self, release: str, consumable_capacity: bool, list_type_attributes: bool) -> None:
        major, minor = release.split(".")[:2]
        self._release = (int(major), int(minor))
        self._features = {
            "DRAConsumableCapacity": consumable_capacity,
            "DRAListTypeAttributes": list_type_attributes,
        }

    def compile(self, expression: str) -> Callable[[Device], Verdict] | SelectorError:
        """Compile an expression. Return a predicate over devices, or the error."""
        from apiserver import cel  # slow to import, and often not needed

        environment = cel.device_environment(self._release, self._features, stored=True)
        program = cel.compile(expression, environment)
        if isinstance(program, cel.CompileError):
            return SelectorError("compile", program.text)

        def predicate(device: Device) -> Verdict:
            if device.expression_view is None:
                device.expression_view = cel.Device.from_slice(device.driver, device.raw)
            try:
                return program.evaluate(device.expression_view)
            except cel.EvaluationError as error:
                return SelectorError("runtime", error.text)

        return predicate

    def reads(self, expression: str) -> tuple[Path, ...] | None:
        """Return all paths that the expression can read in a device, or None if unknown."""
        return paths_read(expression)


class _Expression:
    __slots__ = ("paths", "predicate", "verdicts")

    def __init__(self, predicate: Callable[[Device], Verdict] | SelectorError, paths: tuple[Path, ...] | None) -> None:
        self.predicate = predicate
        self.paths = paths
        self.verdicts: dict[Any, Verdict] = {}


class Selectors:
    """Caches compiled expressions and verdicts."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._expressions: OrderedDict[str, _Expression] = OrderedDict()
        self.evaluations = 0
        """Number of evaluations, without cache hits."""

    def verdict(self, expression: str, device: Device) -> Verdict:
        """Return whether the expression selects the device, or its error."""
        entry = self._expressions.get(expression)
        if entry is None:
            entry = self._add(expression)
        predicate = entry.predicate
        if isinstance(predicate, SelectorError):
            return predicate
        key = device.content if entry.paths is None or not device.plain else _project(device, entry.paths)
        verdict = entry.verdicts.get(key)
        if verdict is None:
            if len(entry.verdicts) >= _VERDICTS_KEPT:
                entry.verdicts.clear()
            self.evaluations += 1
            verdict = entry.verdicts[key] = predicate(device)
        return verdict

    def prepare(self, expression: str) -> None:
        """Compile an expression in advance. The first call imports the language, which is slow."""
        if expression not in self._expressions:
            self._add(expression)

    def _add(self, expression: str) -> _Expression:
        if len(self._expressions) >= _EXPRESSIONS_KEPT:
            self._expressions.popitem(last=False)
        entry = _Expression(self._evaluator.compile(expression), self._evaluator.reads(expression))
        self._expressions[expression] = entry
        return entry


_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
      | (?P<odd>[bBrR]{1,2}["'] | \"{3} | '{3})
      | (?P<string>"(?:[^"\\\n])*" | '(?:[^'\\\n])*')
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>[0-9][0-9A-Za-z_.]*)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def paths_read(expression: str) -> tuple[Path, ...] | None:
    """Return all paths that an expression can read in a device, or None if unknown.

    Every occurrence of `device` must be a plain access (`device.driver`, `device.attributes["domain"].name`, …).
    """
    tokens = _tokens(expression)
    if tokens is None:
        return None
    paths: dict[Path, None] = {}
    for i, text in enumerate(tokens):
        if text != "device":
            continue
        if i and tokens[i - 1] == ".":
            if i > 1 and _is_operand_end(tokens[i - 2]):
                continue
            return None
        path = _path(tokens[i + 1 : i + 10])
        if path is None:
            return None
        paths[path] = None
    return tuple(paths)


def _tokens(expression: str) -> list[str] | None:
    tokens = []
    for match in _TOKEN.finditer(expression):
        kind, text = match.lastgroup, match.group()
        if kind == "odd" or text in ('"', "'", "\\", "`"):
            return None
        if kind != "skip":
            tokens.append(text)
    return tokens


def _is_operand_end(text: str) -> bool:
    """Return whether a dot after this token selects a field instead of marking a root-scoped name."""
    return text in (")", "]", "}") or text[:1] in ("'", '"') or text.isidentifier()


def _path(after: list[str]) -> Path | None:
    """Return the path spelled by the tokens after `device`."""
    after += [""] * (9 - len(after))
    if after[0] != ".":
        return None
    field = after[1]
    if field in ("driver", "allowMultipleAllocations"):
        return (field, "", "")
    domain = after[3]
    if field not in ("attributes", "capacity") or after[2] != "[" or domain[:1] not in ("'", '"') or after[4] != "]":
        return None
    if after[5] == "." and after[6] == "?":
        after = [*after[:6], *after[7:], ""]
    if after[5] == "." and after[6].isidentifier() and after[7] != "(":
        return (field, domain[1:-1], after[6])
    if after[5] == "[" and after[6][:1] in ("'", '"') and after[7] == "]":
        return (field, domain[1:-1], after[6][1:-1])
    return None


def _project(device: Device, paths: tuple[Path, ...]) -> tuple[Any, ...]:
    """Return the values at the paths in a comparable form."""
    values: list[Any] = []
    for field, domain, name in paths:
        if field == "driver":
            values.append(device.driver)
        elif field == "allowMultipleAllocations":
            values.append(device.multiple)
        else:
            source = device.attributes if field == "attributes" else device.capacity
            values.append(_value(source.get(f"{domain}/{name}"), field))
            if domain == device.driver:
                values.append(_value(source.get(name), field))
    return tuple(values)


def _value(raw: Any, field: str) -> Any:
    if raw is None:
        return None
    if field == "capacity":
        return str(raw.get("value"))
    [(kind, value)] = raw.items()
    return (kind, value)
