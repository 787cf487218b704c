"""Evaluate selections and look-ups: `device.attributes["x"].y`, `list[0]`, `has(…)`, `value.?field`.

A chain is planned as one unit, an `Attribute`: its start and its steps. Each step costs 1, and so does the chain as a
whole, even if a step fails. After an optional step, a missing element ends the chain with `optional.none()` instead of
an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.api.values.numbers import go_float
from apiserver.cel.language.values import (
    ABSENT,
    NONE,
    CelError,
    OpenMap,
    Optional,
    Uint,
    find,
    no_such_overload,
    type_name,
)  # fmt: skip

# The state of one evaluation: its cost so far, the variables, then a slot for every local variable.
Frame = list[Any]
Code = Callable[[Frame], Any]

_KEYS: Final = frozenset({str, int, bool, float, Uint})
_MISSES: Final = (KeyError, TypeError, IndexError)


def format_key(key: Any) -> str:
    """Format a key for an error text."""
    if key.__class__ is bool:
        return "true" if key else "false"
    return go_float(key) if key.__class__ is float else str(key)


def _position(key: Any) -> int:
    """Convert a key to a list index."""
    kind = key.__class__
    if kind is int:
        return int(key)
    if kind is Uint or kind is float:
        if key == int(key) and abs(key) < 1 << 63:
            return int(key)
        raise CelError(f"unsupported index value {format_key(key)} in list")
    raise CelError(f"unsupported index type '{type_name(key)}' in list")


def look_up(container: Any, key: Any) -> Any:
    """Return the value of a key or index, or ABSENT."""
    if isinstance(container, dict):
        found = find(container, key)
        if found is ABSENT and isinstance(container, OpenMap) and key.__class__ is str:
            return container[key]
        return found
    if isinstance(container, list | tuple):
        at = _position(key)
        return container[at] if 0 <= at < len(container) else ABSENT
    return ABSENT


def select(container: Any, key: Any) -> Any:
    """Return the value of a key or index; raise CelError if it is missing."""
    found = look_up(container, key)
    if found is not ABSENT:
        return found
    if isinstance(container, list | tuple):
        raise CelError(f"index out of bounds: {format_key(key)}")
    raise CelError(f"no such key: {format_key(key)}")


class Step:
    """One selection with a constant key."""

    __slots__ = ("key", "optional")

    def __init__(self, key: Any, *, optional: bool = False) -> None:
        self.key, self.optional = key, optional

    def find(self, frame: Frame, container: Any) -> Any:
        """Return the selected value; raise CelError if it is missing."""
        frame[0] += 1
        return select(container, self.key)

    def maybe(self, frame: Frame, container: Any) -> Any:
        """Return the selected value, or ABSENT at no cost."""
        found = look_up(container, self.key)
        if found is not ABSENT:
            frame[0] += 1
        return found


class ComputedStep(Step):
    """One selection with a computed key."""

    __slots__ = ("code",)

    def __init__(self, code: Code, *, optional: bool = False) -> None:
        super().__init__(None, optional=optional)
        self.code = code

    def _key(self, frame: Frame) -> Any:
        key = self.code(frame)
        if key.__class__ not in _KEYS:
            raise CelError(f"invalid qualifier type: {type_name(key)}")
        return key

    def find(self, frame: Frame, container: Any) -> Any:
        """Return the selected value; raise CelError if it is missing."""
        try:
            key = self._key(frame)
        finally:
            frame[0] += 1
        return select(container, key)

    def maybe(self, frame: Frame, container: Any) -> Any:
        """Return the selected value or ABSENT."""
        found = look_up(container, self._key(frame))
        if found is not ABSENT:
            frame[0] += 1
        return found


class PresenceStep(Step):
    """A test for a key."""

    __slots__ = ()

    def find(self, frame: Frame, container: Any) -> Any:
        """Return whether the container has the key; scalars have none."""
        frame[0] += 1
        return look_up(container, self.key) is not ABSENT

    def maybe(self, frame: Frame, container: Any) -> Any:
        """Return the same after an optional step."""
        return self.find(frame, container)


class Attribute:
    """A chain of selections. `base` evaluates its start; `slot` is set if the start is a variable."""

    __slots__ = ("base", "slot", "steps", "tested")

    def __init__(self, base: Code, slot: int | None = None) -> None:
        self.base, self.slot = base, slot
        self.steps: list[Step] = []
        self.tested = False

    def add(self, step: Step) -> None:
        """Extend the chain."""
        self.steps.append(step)
        self.tested = self.tested or isinstance(step, PresenceStep)

    def code(self, *, as_branch: bool = False) -> Code:
        """Return the closure. As a branch of `?:` the chain itself costs nothing."""
        closing = 0 if as_branch or self.tested else 1
        if any(step.optional for step in self.steps) or self.slot is None:
            return _optional_chain(self.base, tuple(self.steps), closing)
        plain = all(type(step) is Step and step.key.__class__ is str for step in self.steps)
        slow = _chain(self.base, tuple(self.steps), closing)
        return _named_chain(self.slot, [step.key for step in self.steps], closing, slow) if plain else slow


def _named_chain(slot: int, names: list[str], closing: int, slow: Code) -> Code:
    """Plan a chain of names from a variable: the common case, without a call per step."""
    cost = len(names) + closing
    if not names:

        def variable(frame: Frame) -> Any:
            frame[0] += cost
            return frame[slot]

        return variable
    if len(names) == 1:
        (only,) = names

        def one(frame: Frame) -> Any:
            try:
                value = frame[slot][only]
            except _MISSES:
                return slow(frame)
            frame[0] += cost
            return value

        return one
    if len(names) == 3:
        first, second, third = names

        def three(frame: Frame) -> Any:
            try:
                value = frame[slot][first][second][third]
            except _MISSES:
                return slow(frame)
            frame[0] += cost
            return value

        return three

    def many(frame: Frame) -> Any:
        value = frame[slot]
        try:
            for name in names:
                value = value[name]
        except _MISSES:
            return slow(frame)
        frame[0] += cost
        return value

    return many


def _chain(base: Code, steps: tuple[Step, ...], closing: int) -> Code:
    def follow(frame: Frame) -> Any:
        try:
            value = base(frame)
            for step in steps:
                value = step.find(frame, value)
        finally:
            frame[0] += closing
        return value

    return follow


def _optional_chain(base: Code, steps: tuple[Step, ...], closing: int) -> Code:
    """Plan a chain that may start from, or turn into, an optional value."""

    def follow(frame: Frame) -> Any:
        try:
            value = base(frame)
            optional = value.__class__ is Optional and bool(steps)
            if optional:
                value = value.value
                if value is ABSENT:
                    return NONE
            for step in steps:
                optional = optional or step.optional
                if not optional:
                    value = step.find(frame, value)
                    continue
                value = step.maybe(frame, value)
                if value is ABSENT:
                    return NONE
        finally:
            frame[0] += closing
        if steps and isinstance(steps[-1], PresenceStep):
            return value
        return Optional(value) if optional else value

    return follow


def conditional(condition: Code, then: Code, otherwise: Code) -> Code:
    """Plan `?:` as the start of a chain."""

    def choose(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        raise no_such_overload()

    return choose
