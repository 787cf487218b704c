"""Plan function calls: choose the implementation, evaluate the arguments, charge the cost.

A failed argument does not stop the evaluation of the others, and the call is still charged. The cost of an absorbed
error depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from apiserver.cel.evaluation.attributes import Code, Frame
from apiserver.cel.language.declarations import Function
from apiserver.cel.language.types import Type
from apiserver.cel.language.values import (
    CelError,
    CelType,
    Duration,
    Optional,
    Timestamp,
    Uint,
    no_such_overload,
    type_name,
)  # fmt: skip

Invoke = Callable[..., Any]
# Adds the cost of a call to the frame, from its arguments (None if they failed) and its result.
Charge = Callable[[Frame, Any, Any], None]

_CLASSES: Final[dict[str, type]] = {
    "bool": bool, "bytes": bytes, "double": float, "int": int, "string": str, "uint": Uint, "null": type(None),
    "timestamp": Timestamp, "duration": Duration, "type": CelType,
}  # fmt: skip


def fits(type_: Type, value: Any) -> bool:
    """Return whether a value matches a declared type. Only the first element of a collection is checked."""
    expected = _CLASSES.get(type_.kind)
    if expected is not None:
        return value.__class__ is expected
    match type_.kind:
        case "list":
            return isinstance(value, list | tuple) and (not value or fits(type_.params[0], value[0]))
        case "map":
            if not isinstance(value, dict):
                return False
            first = next(iter(value.items()), None)
            return first is None or (fits(type_.params[0], first[0]) and fits(type_.params[1], first[1]))
        case "opaque" if type_.name == "optional_type":
            return value.__class__ is Optional
        case "struct" | "opaque":
            return type_name(value) == type_.name
    return True


def _is_certain(type_: Type) -> bool:
    """Return whether values of a static type always have that type; null is a value of many types."""
    return type_.kind not in ("dyn", "any", "null") and all(map(_is_certain, type_.params))


def mismatch(declared: Function, args: tuple[Any, ...]) -> CelError:
    """Build the error for arguments that match no overload."""
    if declared.terse:
        return no_such_overload()
    return CelError(f"no such overload: {declared.name}({', '.join(map(type_name, args))})")


def choose_implementation(
    declared: Function, overload_id: str, static: list[Type], may_be_null: Sequence[bool] = ()
) -> Invoke:
    """Return the implementation to call: one overload if the static types decide, else a dispatcher on the values.

    `may_be_null` marks arguments that may be null whatever their type, as nullable fields are.
    """
    if declared.trait is not None:
        return declared.trait
    arity = len(static)
    candidates = [
        candidate
        for candidate in declared.overloads
        if candidate.impl is not None
        and len(candidate.args) == arity
        and (not overload_id or candidate.id == overload_id)
    ]
    if len(candidates) == 1 and overload_id:
        only = candidates[0]
        assert only.impl is not None
        doubtful = [
            (index, wanted)
            for index, (wanted, known) in enumerate(zip(only.args, static, strict=True))
            if wanted.kind not in ("dyn", "any", "param") and not _is_certain(known)
        ]
        if doubtful:
            return _check_arguments(declared, only.impl, doubtful)
        return _reject_null(declared, only.impl, only.args, may_be_null)
    options = [(candidate.args, candidate.impl) for candidate in candidates]

    def dispatch(*args: Any) -> Any:
        for wanted, implementation in options:
            if implementation is not None and all(map(fits, wanted, args)):
                return implementation(*args)
        raise mismatch(declared, args)

    return dispatch


def _reject_null(
    declared: Function, implementation: Invoke, wanted: Sequence[Type], may_be_null: Sequence[bool]
) -> Invoke:
    """Wrap an implementation whose argument types are certain except for null."""
    concerned = [
        index
        for index, (type_, doubt) in enumerate(zip(wanted, may_be_null, strict=False))
        if doubt and type_.kind not in ("dyn", "any", "param")
    ]
    if not concerned:
        return implementation
    if concerned == [0]:

        def checked_first(*args: Any) -> Any:
            if args[0] is None:
                raise mismatch(declared, args)
            return implementation(*args)

        return checked_first

    def checked(*args: Any) -> Any:
        if any(args[index] is None for index in concerned):
            raise mismatch(declared, args)
        return implementation(*args)

    return checked


def _check_arguments(declared: Function, implementation: Invoke, doubtful: list[tuple[int, Type]]) -> Invoke:
    """Wrap an implementation with checks of the arguments whose static type is uncertain."""
    simple = [(index, _CLASSES.get(wanted.kind), wanted) for index, wanted in doubtful]
    if len(simple) == 1 and simple[0][0] == 0 and (expected := simple[0][1]) is not None:

        def checked_first(*args: Any) -> Any:
            if args[0].__class__ is not expected:
                raise mismatch(declared, args)
            return implementation(*args)

        return checked_first

    def checked(*args: Any) -> Any:
        for index, expected, wanted in simple:
            if args[index].__class__ is not expected and not fits(wanted, args[index]):
                raise mismatch(declared, args)
        return implementation(*args)

    return checked


def nullary(invoke: Invoke) -> Code:
    """Plan a call without arguments."""

    def call(frame: Frame) -> Any:
        frame[0] += 1
        return invoke()

    return call


def unary(argument: Code, invoke: Invoke, charge: Charge | None) -> Code:
    """Plan a call with one argument."""
    if charge is None:

        def flat(frame: Frame) -> Any:
            try:
                value = argument(frame)
            finally:
                frame[0] += 1
            return invoke(value)

        return flat

    def charged(frame: Frame) -> Any:
        value = result = None
        try:
            value = argument(frame)
            result = invoke(value)
        except CelError:
            charge(frame, (value,), None)
            raise
        charge(frame, (value,), result)
        return result

    return charged


def binary(left: Code, right: Code, invoke: Invoke, charge: Charge | None) -> Code:
    """Plan a call with two arguments. Both are evaluated, even if the first fails."""

    def after_error(frame: Frame, error: CelError) -> CelError:
        second = None
        with suppress(CelError):
            second = right(frame)
        if charge is None:
            frame[0] += 1
        else:
            charge(frame, (None, second), None)
        return error

    if charge is None:

        def flat(frame: Frame) -> Any:
            try:
                first = left(frame)
            except CelError as error:
                raise after_error(frame, error) from None
            try:
                second = right(frame)
            finally:
                frame[0] += 1
            return invoke(first, second)

        return flat

    def charged(frame: Frame) -> Any:
        try:
            first = left(frame)
        except CelError as error:
            raise after_error(frame, error) from None
        second = None
        try:
            second = right(frame)
            result = invoke(first, second)
        except CelError:
            charge(frame, (first, second), None)
            raise
        charge(frame, (first, second), result)
        return result

    return charged


def many(arguments: tuple[Code, ...], invoke: Invoke, charge: Charge | None) -> Code:
    """Plan a call that stops at its first failed argument. It is charged only if that is the last one."""
    last = len(arguments) - 1

    def call(frame: Frame) -> Any:
        values: list[Any] = []
        for index, argument in enumerate(arguments):
            try:
                values.append(argument(frame))
            except CelError:
                if index == last:
                    _charge_for(frame, charge, [*values, None], None)
                raise
        try:
            result = invoke(*values)
        except CelError:
            _charge_for(frame, charge, values, None)
            raise
        _charge_for(frame, charge, values, result)
        return result

    return call


def _charge_for(frame: Frame, charge: Charge | None, values: list[Any], result: Any) -> None:
    """Add the cost of one call to the frame; the default is 1."""
    if charge is None:
        frame[0] += 1
    else:
        charge(frame, values, result)


def not_strictly_false(argument: Code) -> Code:
    """Plan the condition of quantifiers: errors do not end the loop."""

    def test(frame: Frame) -> bool:
        try:
            return argument(frame) is not False
        except CelError:
            return True
        finally:
            frame[0] += 1

    return test


_PRIMITIVE: Final = frozenset({bool, float, int, str, Uint})


def in_constant_list(element: Code, items: Any) -> Code | None:
    """Plan membership in a literal list of primitive values, which costs nothing; return None for other lists."""
    if any(item.__class__ not in _PRIMITIVE for item in items):
        return None
    flags = frozenset(item for item in items if item.__class__ is bool)
    others = frozenset(item for item in items if item.__class__ is not bool)

    def test(frame: Frame) -> bool:
        value = element(frame)
        kind = value.__class__
        if kind is bool:
            return value in flags
        return kind in _PRIMITIVE and value in others

    return test
