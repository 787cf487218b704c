"""Device selectors: each expression is evaluated once for devices that look the same to it.

Invariants
- A verdict depends on the expression and the device's driver, attributes, capacities and `allowMultipleAllocations`
  alone, never on node, pool, name or allocation state; errors are verdicts too.
- When it can be read off an expression which attributes it looks at, only those distinguish devices: thousands of
  devices that differ in their serial numbers cost one evaluation of `attributes["x"].model == "A100"`.
- What cannot be read off with certainty counts as looking at everything.

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
    """The expression cannot be compiled, or failed for this device."""

    kind: str
    """`compile` or `runtime`."""
    text: str


Verdict = bool | SelectorError

Path = tuple[str, str, str]
"""`attributes` or `capacity` with domain and identifier; or a field of the device with two empty texts."""


class Evaluator(Protocol):
    """Runs one expression; the seam to the expression language."""

    def compile(self, expression: str) -> Callable[[Device], Verdict] | SelectorError:
        """A function that judges devices, or why the expression is unusable."""

    def reads(self, expression: str) -> tuple[Path, ...] | None:
        """All that the expression can look at in a device, or None when that is not certain."""


class CelEvaluator:
    """Expressions in CEL, with everything known to this release available (stored expressions must keep working)."""

    def __init__(self, release: str, consumable_capacity: bool, list_type_attributes: bool) -> None:
        major, minor = release.split(".")[:2]
        self._release = (int(major), int(minor))
        self._features = {
            "DRAConsumableCapacity": consumable_capacity,
            "DRAListTypeAttributes": list_type_attributes,
        }

    def compile(self, expression: str) -> Callable[[Device], Verdict] | SelectorError:
        """See Evaluator."""
        from apiserver import cel  # the language costs time to load and may never be needed

        environment = cel.device_environment(self._release, self._features, stored=True)
        program = cel.compile(expression, environment)
        if isinstance(program, cel.CompileError):
            return SelectorError("compile", program.text)

        def judge(device: Device) -> Verdict:
            if device.expression_view is None:
                device.expression_view = cel.Device.from_slice(device.driver, device.raw)
            try:
                return program.evaluate(device.expression_view)
            except cel.EvaluationError as error:
                return SelectorError("runtime", error.text)

        return judge

    def reads(self, expression: str) -> tuple[Path, ...] | None:
        """See Evaluator."""
        return paths_read(expression)


class _Expression:
    __slots__ = ("judge", "paths", "verdicts")

    def __init__(self, judge: Callable[[Device], Verdict] | SelectorError, paths: tuple[Path, ...] | None) -> None:
        self.judge = judge
        self.paths = paths
        self.verdicts: dict[Any, Verdict] = {}


class Selectors:
    """Remembers compiled expressions and verdicts."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._expressions: OrderedDict[str, _Expression] = OrderedDict()
        self.evaluations = 0
        """How often an expression was really evaluated."""

    def verdict(self, expression: str, device: Device) -> Verdict:
        """Whether the expression selects the device."""
        entry = self._expressions.get(expression)
        if entry is None:
            entry = self._add(expression)
        judge = entry.judge
        if isinstance(judge, SelectorError):
            return judge
        key = device.content if entry.paths is None or not device.plain else _project(device, entry.paths)
        verdict = entry.verdicts.get(key)
        if verdict is None:
            if len(entry.verdicts) >= _VERDICTS_KEPT:
                entry.verdicts.clear()
            self.evaluations += 1
            verdict = entry.verdicts[key] = judge(device)
        return verdict

    def prepare(self, expression: str) -> None:
        """Compiles an expression that will be asked for: the first one loads the language, which takes a while."""
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
    """All that an expression can look at in a device, or None when that is not certain.

    Every mention of `device` must be a plain access (`device.driver`, `device.attributes["domain"].name`, …).
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
    """Whether a dot behind this token selects a field (and does not mark a name of the outermost scope)."""
    return text in (")", "]", "}") or text[:1] in ("'", '"') or text.isidentifier()


def _path(after: list[str]) -> Path | None:
    """The path that the tokens behind `device` spell."""
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
    """The values that the paths lead to, comparable."""
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
