"""Plan comprehensions as loops.

The accumulator is a slot of the frame. It may contain an error, because errors do not end a loop. It is computed at its
first read, because an unread bound variable costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from apiserver.cel.evaluation.attributes import Code, Frame
from apiserver.cel.language.time_limit import passed_limit
from apiserver.cel.language.values import CelError, go_type_name, no_such_overload

UNSET: Final = object()


class _StoredError:
    """An error as the value of a variable."""

    __slots__ = ("error",)

    def __init__(self, error: CelError) -> None:
        self.error = error


def _iterate(source: Any, pairs: bool) -> Any:
    if isinstance(source, dict):
        return list(source.items()) if pairs else list(source)
    if isinstance(source, list | tuple):
        return enumerate(source) if pairs else source
    if pairs:
        raise CelError(f"unsupported comprehension range type: {go_type_name(source)}")
    raise CelError(f"got '{go_type_name(source)}', expected iterable type")


def accumulator(slot: int, compute: Code) -> Code:
    """Plan the read of a variable that `compute` fills at its first read."""

    def read(frame: Frame) -> Any:
        value = frame[slot]
        if value is UNSET:
            try:
                value = compute(frame)
            except CelError as error:
                value = _StoredError(error)
            frame[slot] = value
        if value.__class__ is _StoredError:
            raise value.error
        return value

    return read


def binding(source: Code, slot: int, start: Any, result: Code, limit: int) -> Code:
    """Plan a comprehension over an empty range: it only passes the accumulator to its result."""

    def bind(frame: Frame) -> Any:
        source(frame)
        frame[slot] = start
        value = result(frame)
        if frame[0] > limit:
            passed_limit(frame, limit)
        return value

    return bind


@dataclass(frozen=True, slots=True)
class Slots:
    """Frame slots of a loop: accumulator, key or element, and the second variable (0 if there is none)."""

    accu: int
    first: int
    second: int = 0


def fold(source: Code, slots: Slots, start: Any, condition: Code | None, step: Code, result: Code, limit: int) -> Code:
    """Plan any comprehension. An initial list or map is copied, so that the step may change it."""
    accu, first, second = slots.accu, slots.first, slots.second
    fresh = start.__class__ in (list, dict)

    def loop(frame: Frame) -> Any:
        items = _iterate(source(frame), bool(second))
        frame[accu] = start.copy() if fresh else start
        for item in items:
            if second:
                frame[first], frame[second] = item
            else:
                frame[first] = item
            if condition is not None:
                try:
                    if condition(frame) is False:
                        break
                except CelError:
                    pass
            try:
                frame[accu] = step(frame)
            except CelError as error:
                frame[accu] = _StoredError(error)
            if frame[0] > limit:
                passed_limit(frame, limit)
        return result(frame)

    return loop


def quantifier(source: Code, slots: Slots, body: Code, decisive: bool, limit: int) -> Code:
    """Plan `exists` (decided by true) or `all` (by false), with the charges of the comprehension they replace."""
    first, second = slots.first, slots.second
    per_condition = 3 if decisive else 2

    def quantify(frame: Frame) -> bool:
        decided = False
        failure: CelError | None = None
        for item in _iterate(source(frame), bool(second)):
            frame[0] += per_condition
            if decided:
                break
            if second:
                frame[first], frame[second] = item
            else:
                frame[first] = item
            frame[0] += 1
            try:
                value = body(frame)
            except CelError as error:
                failure = failure or error
            else:
                if value is decisive:
                    decided = True
                elif value.__class__ is not bool:
                    failure = failure or no_such_overload()
            if frame[0] > limit:
                passed_limit(frame, limit)
        frame[0] += 1
        if decided:
            return decisive
        if failure is not None:
            raise failure
        return not decisive

    return quantify
