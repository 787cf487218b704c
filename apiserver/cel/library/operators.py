"""Operators: `+ - * / %`, unary minus and not, order, membership, size, index.

They dispatch on values, not on static types, because a static type may be dynamic. 64-bit overflow is an error, never a
wrap. The planner evaluates equality, `&&`, `||` and `?:`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from apiserver.cel.language.declarations import Function, function, method, overload
from apiserver.cel.language.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    param,
    type_of,
)  # fmt: skip
from apiserver.cel.language.values import (
    ABSENT,
    CelError,
    CelType,
    Duration,
    KeyedList,
    SetList,
    Timestamp,
    Uint,
    compare,
    find,
    no_such_overload,
    same,
    type_name,
)  # fmt: skip

MAX_INT: Final = (1 << 63) - 1
MIN_INT: Final = -(1 << 63)
MAX_UINT: Final = (1 << 64) - 1
MIN_SECONDS: Final = -62135596800
MAX_SECONDS: Final = 253402300799
SECOND: Final = 1_000_000_000

_A, _B = param("A"), param("B")
_LIST, _MAP = list_of(_A), map_of(_A, _B)
# Values of these types dispatch calls themselves, so their missing operations are reported without a name.
_RECEIVERS: Final = frozenset({str, Timestamp, Duration})


def checked_int(value: int) -> int:
    """Return the value; raise CelError outside the signed 64-bit range."""
    if MIN_INT <= value <= MAX_INT:
        return value
    raise CelError("integer overflow")


def checked_uint(value: int) -> Uint:
    """Return the value; raise CelError outside the unsigned 64-bit range."""
    if 0 <= value <= MAX_UINT:
        return Uint(value)
    raise CelError("unsigned integer overflow")


def checked_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """Return a timestamp; raise CelError outside the years 1 to 9999."""
    if MIN_SECONDS <= nanos // SECOND <= MAX_SECONDS:
        return Timestamp(nanos, offset)
    raise CelError("timestamp overflow")


def _unsupported(operator: str, value: Any) -> CelError:
    return no_such_overload() if value.__class__ in _RECEIVERS else CelError(f"no such overload: {operator}")


def add(left: Any, right: Any) -> Any:
    """Evaluate `+`."""
    kind = left.__class__
    if kind is int:
        if right.__class__ is int:
            return checked_int(left + right)
    elif kind is str or kind is float or kind is bytes:
        if right.__class__ is kind:
            return left + right
    elif kind is list or kind is tuple:
        if isinstance(right, list | tuple):
            return [*left, *right]
    elif kind is SetList or kind is KeyedList:
        if isinstance(right, list | tuple):
            return left.concatenate(right)
    elif kind is Uint:
        if right.__class__ is Uint:
            return checked_uint(int(left) + int(right))
    elif kind is Duration:
        if right.__class__ is Duration:
            return Duration(checked_int(left.nanos + right.nanos))
        if right.__class__ is Timestamp:
            return checked_timestamp(left.nanos + right.nanos, right.offset)
    elif kind is Timestamp:
        if right.__class__ is Duration:
            return checked_timestamp(left.nanos + right.nanos, left.offset)
    else:
        raise _unsupported("_+_", left)
    raise no_such_overload()


def subtract(left: Any, right: Any) -> Any:
    """Evaluate `-`."""
    kind = left.__class__
    if kind is int:
        if right.__class__ is int:
            return checked_int(left - right)
    elif kind is float:
        if right.__class__ is float:
            return left - right
    elif kind is Uint:
        if right.__class__ is Uint:
            return checked_uint(int(left) - int(right))
    elif kind is Duration:
        if right.__class__ is Duration:
            return Duration(checked_int(left.nanos - right.nanos))
    elif kind is Timestamp:
        if right.__class__ is Duration:
            checked_int(-right.nanos)
            return checked_timestamp(left.nanos - right.nanos, left.offset)
        if right.__class__ is Timestamp:
            return Duration(checked_int(left.nanos - right.nanos))
    else:
        raise _unsupported("_-_", left)
    raise no_such_overload()


def multiply(left: Any, right: Any) -> Any:
    """Evaluate `*`."""
    kind = left.__class__
    if kind is not int and kind is not float and kind is not Uint:
        raise _unsupported("_*_", left)
    if right.__class__ is not kind:
        raise no_such_overload()
    if kind is int:
        return checked_int(left * right)
    return left * right if kind is float else checked_uint(int(left) * int(right))


def divide(left: Any, right: Any) -> Any:
    """Evaluate `/`, truncating for integers."""
    kind = left.__class__
    if kind is not int and kind is not float and kind is not Uint:
        raise _unsupported("_/_", left)
    if right.__class__ is not kind:
        raise no_such_overload()
    if kind is float:
        return _divide_doubles(left, right)
    if right == 0:
        raise CelError("division by zero")
    if kind is Uint:
        return Uint(int(left) // int(right))
    quotient = abs(left) // abs(right)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: Any, right: Any) -> Any:
    """Evaluate `%`, with the sign of the dividend."""
    kind = left.__class__
    if kind is not int and kind is not Uint:
        raise _unsupported("_%_", left)
    if right.__class__ is not kind:
        raise no_such_overload()
    if right == 0:
        raise CelError("modulus by zero")
    if kind is Uint:
        return Uint(int(left) % int(right))
    if left == MIN_INT and right == -1:
        raise CelError("integer overflow")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def negate(value: Any) -> Any:
    """Evaluate unary `-`."""
    kind = value.__class__
    if kind is int:
        return checked_int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return Duration(checked_int(-value.nanos))
    if kind is bool:
        raise no_such_overload()
    raise _unsupported("-_", value)


def logical_not(value: Any) -> bool:
    """Evaluate `!`."""
    if value is True:
        return False
    if value is False:
        return True
    raise no_such_overload()


_ORDERED: Final = frozenset({int, str, float, bool, bytes, Uint, Timestamp, Duration})


def _order(operator: str, accepts: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        if left.__class__ not in _ORDERED:
            raise _unsupported(operator, left)
        return accepts(compare(left, right))

    return ordered


less = _order("_<_", lambda order: order < 0)
less_equal = _order("_<=_", lambda order: order <= 0)
greater = _order("_>_", lambda order: order > 0)
greater_equal = _order("_>=_", lambda order: order >= 0)


def contains(element: Any, container: Any) -> bool:
    """Evaluate `in`: an element of a list, a key of a map."""
    if isinstance(container, list | tuple):
        return any(same(element, candidate) for candidate in container)
    if isinstance(container, dict):
        return find(container, element) is not ABSENT
    raise no_such_overload()


def size(value: Any) -> int:
    """Evaluate `size`."""
    if isinstance(value, str | bytes | list | tuple | dict):
        return len(value)
    raise _unsupported("size", value)


def convert_type(value: Any) -> CelType:
    """Evaluate `type`."""
    return CelType(type_name(value))


_KINDS: Final[dict[str, Type]] = {
    "bool": BOOL, "int64": INT, "uint64": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES,
    "timestamp": TIMESTAMP, "duration": DURATION,
}  # fmt: skip
_CROSS: Final = (
    "bool", "int64", "int64 double", "int64 uint64", "uint64", "uint64 double", "uint64 int64", "double",
    "double int64", "double uint64", "string", "bytes", "timestamp", "duration",
)  # fmt: skip


def _relation(operator: str, prefix: str, implementation: Callable[[Any, Any], bool]) -> Function:
    overloads = []
    for kinds in _CROSS:
        left, _, right = kinds.partition(" ")
        suffix = f"{left}_{right}" if right else left
        overloads.append(overload(f"{prefix}_{suffix}", (_KINDS[left], _KINDS[right or left]), BOOL))
    return function(operator, *overloads, trait=implementation)


def _arithmetic(operator: str, prefix: str, implementation: Callable[[Any, Any], Any], kinds: str) -> Function:
    overloads = [overload(f"{prefix}_{kind}", (_KINDS[kind], _KINDS[kind]), _KINDS[kind]) for kind in kinds.split()]
    return function(operator, *overloads, trait=implementation)


def _sums() -> tuple[Function, Function]:
    added = function(
        "_+_",
        overload("add_bytes", (BYTES, BYTES), BYTES),
        overload("add_double", (DOUBLE, DOUBLE), DOUBLE),
        overload("add_duration_duration", (DURATION, DURATION), DURATION),
        overload("add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP),
        overload("add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        overload("add_int64", (INT, INT), INT),
        overload("add_list", (_LIST, _LIST), _LIST),
        overload("add_string", (STRING, STRING), STRING),
        overload("add_uint64", (UINT, UINT), UINT),
        trait=add,
    )
    subtracted = function(
        "_-_",
        overload("subtract_double", (DOUBLE, DOUBLE), DOUBLE),
        overload("subtract_duration_duration", (DURATION, DURATION), DURATION),
        overload("subtract_int64", (INT, INT), INT),
        overload("subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        overload("subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION),
        overload("subtract_uint64", (UINT, UINT), UINT),
        trait=subtract,
    )
    return added, subtracted


def library() -> list[Function]:
    """Return the declarations of the operators."""
    return [
        function("_?_:_", overload("conditional", (BOOL, _A, _A), _A)),
        function("_&&_", overload("logical_and", (BOOL, BOOL), BOOL)),
        function("_||_", overload("logical_or", (BOOL, BOOL), BOOL)),
        function("!_", overload("logical_not", (BOOL,), BOOL), trait=logical_not),
        function("@not_strictly_false", overload("not_strictly_false", (BOOL,), BOOL)),
        function("_==_", overload("equals", (_A, _A), BOOL)),
        function("_!=_", overload("not_equals", (_A, _A), BOOL)),
        *_sums(),
        _arithmetic("_/_", "divide", divide, "double int64 uint64"),
        _arithmetic("_%_", "modulo", modulo, "int64 uint64"),
        _arithmetic("_*_", "multiply", multiply, "double int64 uint64"),
        function(
            "-_", overload("negate_double", (DOUBLE,), DOUBLE), overload("negate_int64", (INT,), INT), trait=negate
        ),
        _relation("_<_", "less", less),
        _relation("_<=_", "less_equals", less_equal),
        _relation("_>_", "greater", greater),
        _relation("_>=_", "greater_equals", greater_equal),
        function(
            "_[_]", overload("index_list", (_LIST, INT), _A), overload("index_map", (_MAP, _A), _B)
        ),
        function(
            "@in", overload("in_list", (_A, _LIST), BOOL), overload("in_map", (_A, _MAP), BOOL), trait=contains
        ),
        function(
            "size",
            overload("size_bytes", (BYTES,), INT), method("bytes_size", (BYTES,), INT),
            overload("size_list", (_LIST,), INT), method("list_size", (_LIST,), INT),
            overload("size_map", (_MAP,), INT), method("map_size", (_MAP,), INT),
            overload("size_string", (STRING,), INT), method("string_size", (STRING,), INT),
            trait=size,
        ),
        function("type", overload("type", (_A,), type_of(_A)), trait=convert_type),
        function("dyn", overload("to_dyn", (_A,), Type("dyn", "dyn")), trait=lambda value: value),
    ]  # fmt: skip
