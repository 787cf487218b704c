"""Synthesize a device that expressions may accept from the values they compare with. The result is a guess to be tried.

synthesize_device(['device.driver == "d" && device.attributes["d"].model == "A1"'])
SynthesizedDevice(driver="d", attributes={"model": {"string": "A1"}}, …)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apiserver.api.values.quantity import Quantity
from apiserver.cel.environments.references import Path, parse, path_of
from apiserver.cel.language.ast import Call, Comprehension, Ident, ListNode, Literal, Node, Select

__all__ = ["SynthesizedDevice", "synthesize_device"]

Local = Mapping[str, Path]

_OPPOSITES: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_METHODS: Final = {"isGreaterThan": ">", "isLessThan": "<"}
_PARTS: Final = frozenset(("startsWith", "endsWith", "contains"))
#: Methods that convert a value or replace a missing one.
_FORMS: Final = frozenset(("lowerAscii", "orValue", "trim", "upperAscii", "value"))
_SHARED: Final = ("device", "allowMultipleAllocations")


@dataclass(slots=True)
class SynthesizedDevice:
    """A synthesized device in the terms of ResourceSlices."""

    driver: str = ""
    """"" if any driver matches."""
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)
    capacity: dict[str, dict[str, str]] = field(default_factory=dict)
    shared: bool = False
    """Whether it allows multiple allocations."""

    def as_device(self) -> dict[str, Any]:
        """Return the device without a name."""
        shared = {"allowMultipleAllocations": True} if self.shared else {}
        return {"attributes": self.attributes, "capacity": self.capacity, **shared}


@dataclass(frozen=True, slots=True)
class _Value:
    """A constant; `kind` is a field of an attribute, or quantity."""

    kind: str
    value: Any

    def above(self) -> Any:
        """Return a larger value, or another one if the kind has no order."""
        match self.kind:
            case "int":
                return self.value + 1
            case "quantity":
                return Quantity.parse(self.value).mul(2)[0].canonical_text()
            case "version":
                major = self.value.removeprefix("v").partition(".")[0]
                return f"{int(major) + 1 if major.isdigit() else 0}.0.0"
        return not self.value if self.kind == "bool" else "other"

    def below(self) -> Any:
        """Return a smaller value."""
        match self.kind:
            case "int":
                return self.value - 1
            case "quantity":
                return "0"
            case "version":
                return "0.0.0"
        return ""


def synthesize_device(expressions: Iterable[str]) -> SynthesizedDevice:
    """Return a device that all expressions may accept.

    It satisfies the first of several alternatives. Unknown constructs are ignored.
    """
    synthesis = _Synthesis()
    for expression in expressions:
        if (root := parse(expression)) is not None:
            synthesis.collect(root, True, {})
    return synthesis.result()


class _Synthesis:
    def __init__(self) -> None:
        self._values: dict[Path, _Value] = {}
        self._firm: set[Path] = set()

    def collect(self, node: Node, wanted: bool, local: Local) -> None:
        """Collect values with which the expression evaluates to `wanted`, as far as they can be derived."""
        match node:
            case Call(function="_&&_" | "_||_" as function, args=args):
                every = (function == "_&&_") is wanted
                for part in args if every else args[:1]:
                    self.collect(part, wanted, local)
            case Call(function="!_", args=[negated]):
                self.collect(negated, not wanted, local)
            case Call(function="_?_:_", args=[condition, then, _]):
                self.collect(condition, True, local)
                self.collect(then, wanted, local)
            case Comprehension(is_binding=True):
                self.collect(node.result, wanted, {**local, node.accu_var: path_of(node.accu_init, local)})
            case Call():
                self._compare(node, wanted, local)
            case Select() | Ident():
                self._flag(node, wanted, local)

    def _flag(self, node: Node, wanted: bool, local: Local) -> None:
        """Collect the value of a field used as a bool, or of a presence test."""
        path = path_of(node, local)
        if not (isinstance(node, Select) and node.test):
            self._set(path, "==", _Value("bool", wanted))
        elif wanted and path not in self._values:
            self._set(path, ">=", _Value("quantity", "1") if "capacity" in path[1:2] else _Value("bool", True))

    def _compare(self, call: Call, wanted: bool, local: Local) -> None:
        target, args = call.target, call.args
        if target is None and len(args) == 2:
            if call.function == "@in":
                self._among(args[0], args[1], wanted, local)
            elif (operator := call.function.strip("_")) in _OPPOSITES:
                left, right = args
                if _constant(left) is not None:
                    left, right, operator = right, left, _MIRRORED[operator]
                match left:
                    case Call(function="compareTo", target=Node() as compared, args=[other]):
                        left, right = compared, other
                self._relate(left, operator, right, wanted, local)
        elif target is not None and len(args) == 1:
            if call.function in _METHODS:
                self._relate(target, _METHODS[call.function], args[0], wanted, local)
            elif call.function in _PARTS:
                self._relate(target, "==", args[0], wanted, local)

    def _among(self, item: Node, there: Node, wanted: bool, local: Local) -> None:
        if isinstance(there, ListNode) and there.elements:
            self._relate(item, "==", there.elements[0], wanted, local)

    def _relate(self, left: Node, operator: str, right: Node, wanted: bool, local: Local) -> None:
        value = _constant(right)
        while isinstance(left, Call) and left.target is not None and left.function in _FORMS:
            left = left.target
        if value is not None:
            self._set(path_of(left, local), operator if wanted else _OPPOSITES[operator], value)

    def _set(self, path: Path, operator: str, value: _Value) -> None:
        if path[:1] != ("device",) or path in self._firm:
            return
        if operator == "==":
            self._firm.add(path)
        elif operator in ("!=", ">"):
            value = _Value(value.kind, value.above())
        elif operator == "<":
            value = _Value(value.kind, value.below())
        self._values[path] = value

    def result(self) -> SynthesizedDevice:
        """Return the synthesized device."""
        named = {path: value for path, value in self._values.items() if len(path) == 4}
        driver = self._values.get(("device", "driver"))
        made = SynthesizedDevice(str(driver.value) if driver is not None else next((path[2] for path in named), ""))
        shared = self._values.get(_SHARED)
        made.shared = shared is not None and shared.value is True
        for (_, part, domain, name), value in sorted(named.items()):
            key = name if domain == made.driver else f"{domain}/{name}"
            if part == "capacity":
                made.capacity[key] = {"value": str(value.value)}
            elif part == "attributes" and value.kind != "quantity":
                made.attributes[key] = {value.kind: value.value}
        return made


def _constant(node: Node) -> _Value | None:
    match node:
        case Literal(value=bool() as value):
            return _Value("bool", value)
        case Literal(value=int() as value):
            return _Value("int", value)
        case Literal(value=str() as value):
            return _Value("string", value)
        case Call(function="quantity", target=None, args=[Literal(value=str() as value)]) if _is_quantity(value):
            return _Value("quantity", value)
        case Call(function="semver", target=None, args=[Literal(value=str() as value), *_]):
            return _Value("version", value)
    return None


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True
