"""Run-time values of CEL, and their common operations: equality, order, size, type name.

int, double, bool, string, bytes, null, list and map are the Python types (a tuple is also a list). The other types are
declared here. uint is a subclass of int; results of arithmetic on it must be wrapped again.

Equality is by value across the number types. It may fail (`no such overload`) for a library type and another type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apiserver.api.values.quantity import Quantity
from apiserver.api.values.semver import Semver
from apiserver.cel.language.stack import run_on_new_stack


class CelError(Exception):
    """An evaluation error: a value that `&&`, `||` and `?:` may absorb."""


def no_such_overload(_value: object = None) -> CelError:
    """Build the error of a function that does not accept these values."""
    return CelError("no such overload")


class CostExceeded(Exception):
    """The evaluation exceeded its limit; nothing absorbs this."""


class InternalFailure(Exception):
    """The reference implementation fails with an internal error here; nothing absorbs it."""


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CelType:
    """A type as a value: `int`, `type(x)`."""

    name: str


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time, in nanoseconds since 1970. The offset (seconds east of UTC) only affects its text."""

    nanos: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds."""

    nanos: int


class SetList(list[Any]):
    """A list of type set: its order is irrelevant and its elements are unique."""

    __slots__ = ()

    def equals(self, other: Sequence[Any]) -> bool:
        return len(self) == len(other) and all(any(same(item, mine) for mine in self) for item in other)

    def concatenate(self, other: Sequence[Any]) -> SetList:
        made = SetList(self)
        for item in other:
            if not any(same(item, mine) for mine in made):
                made.append(item)
        return made


class KeyedList(list[Any]):
    """A list of type map: its items are identified by the values of their keys, in any order."""

    __slots__ = ("keys",)

    def __init__(self, items: Iterable[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def _key(self, item: Any) -> str:
        if not isinstance(item, dict):
            raise CelError(
                f"unexpected data format for element of array with x-kubernetes-list-type=map: {type_name(item)}"
            )
        return repr([item.get(key) for key in self.keys])

    def equals(self, other: Sequence[Any]) -> bool:
        mine = {self._key(item): item for item in self}
        if len(self) != len(other):
            return False
        return all((found := mine.get(self._key(item))) is not None and equal(found, item) for item in other)

    def concatenate(self, other: Sequence[Any]) -> KeyedList:
        made = {self._key(item): item for item in self}
        made.update((self._key(item), item) for item in other)
        return KeyedList(made.values(), self.keys)


class Optional:
    """A value that may be absent."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _Absent:
    __slots__ = ()


ABSENT: Final = _Absent()
NONE: Final = Optional(ABSENT)


class ComputedQuantity(Quantity):
    """The result of `add` or `sub`. On the right of `==` it raises "no such overload", as upstream's value does."""

    __slots__ = ()


class LibraryValue:
    """Base of the value types of libraries; equal only among themselves."""

    __slots__ = ()
    type_name: str

    def size(self) -> int | None:
        """Return the size for costs, or None for a scalar."""
        return None


_NAMES: Final[dict[type, str]] = {
    str: "string", int: "int", bool: "bool", float: "double", bytes: "bytes", Uint: "uint", list: "list",
    tuple: "list", dict: "map", type(None): "null_type", CelType: "type", Timestamp: "google.protobuf.Timestamp",
    SetList: "list", KeyedList: "list", Duration: "google.protobuf.Duration", Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
    ComputedQuantity: "kubernetes.Quantity", Semver: "kubernetes.Semver",
}  # fmt: skip
# Go names of value types in messages of the reference implementation.
_GO_NAMES: Final[dict[type, str]] = {
    str: "types.String", int: "types.Int", bool: "types.Bool", float: "types.Double", bytes: "types.Bytes",
    Uint: "types.Uint", type(None): "types.Null", CelType: "*types.Type", Timestamp: "types.Timestamp",
    Duration: "types.Duration", Optional: "*types.Optional", Quantity: "cel.Quantity",
    ComputedQuantity: "*cel.Quantity", Semver: "cel.Semver", dict: "*types.baseMap",
}  # fmt: skip
#: Types whose values in the reference implementation have a method Add, as lists have.
_ADDED: Final = frozenset({int, Uint, float, str, bytes, Timestamp, Duration})
_NUMBERS: Final = frozenset({int, float, Uint})
_SIZED: Final = frozenset({list, tuple, dict, bytes, SetList, KeyedList})


def type_name(value: Any) -> str:
    """Return the name of a value's type."""
    name = _NAMES.get(value.__class__)
    if name is not None:
        return name
    if isinstance(value, LibraryValue):
        return value.type_name
    if isinstance(value, dict):
        return str(getattr(value, "type_name", "map"))
    return str(value.__class__.__name__)


def go_type_name(value: Any) -> str:
    """Return the name of a value's Go type in the reference implementation."""
    name = _GO_NAMES.get(value.__class__)
    return name if name is not None else f"cel.{value.__class__.__name__}"


def list_expected_error(value: Any) -> InternalFailure:
    """Build the error of a function that is charged for a list but has none.

    None represents an error, the most frequent case (a missing field).
    """
    missing = "Contains" if value.__class__ in _ADDED else "Add"
    name = "*types.Err" if value is None else go_type_name(value)
    return InternalFailure(f"interface conversion: {name} is not traits.Lister: missing method {missing}")


def size_of(value: Any) -> int:
    """Return the size from which costs are computed; 1 for scalars."""
    kind = value.__class__
    if kind is str:
        return len(value)
    if kind in _SIZED or isinstance(value, dict):
        return len(value)
    if kind is Optional and value.value is not ABSENT:
        return size_of(value.value)
    if isinstance(value, LibraryValue) and (counted := value.size()) is not None:
        return counted
    return 1


def equal(left: Any, right: Any) -> bool:
    """Evaluate `==`; raise CelError for incomparable values."""
    left_kind, right_kind = left.__class__, right.__class__
    if left_kind is str:
        return left_kind is right_kind and bool(left == right)
    if left_kind in _NUMBERS:
        if left_kind is right_kind:
            return bool(left == right)
        return right_kind in _NUMBERS and _compare_numbers(left, right) == 0
    if left is None or right is None:
        return left is right
    if left_kind is bool or left_kind is bytes or left_kind is CelType:
        return left_kind is right_kind and bool(left == right)
    if left_kind is list or left_kind is tuple:
        return _equal_lists(left, right) if isinstance(right, list | tuple) else False
    if left_kind is SetList or left_kind is KeyedList:
        return bool(left.equals(right)) if isinstance(right, list | tuple) else False
    if isinstance(left, dict):
        return _equal_maps(left, right) if isinstance(right, dict) else False
    if left_kind is Optional:
        return _equal_optionals(left, right)
    if left_kind is Timestamp or left_kind is Duration:
        return left_kind is right_kind and bool(left == right)
    return _equal_library_values(left, right)


def _equal_lists(left: Sequence[Any], right: Sequence[Any]) -> bool:
    if len(left) != len(right):
        return False
    return all(map(_agree, left, right))


def _agree(left: Any, right: Any) -> bool:
    """Return whether elements of two collections are equal.

    Incomparable elements count as equal; clients rely on it.
    """
    try:
        return equal(left, right)
    except CelError:
        return True
    except RecursionError:
        return run_on_new_stack(equal, left, right)


def _equal_maps(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        other = find(right, key)
        if other is ABSENT or not _agree(value, other):
            return False
    return True


def _equal_optionals(left: Optional, right: Any) -> bool:
    if not isinstance(right, Optional):
        return False
    if left.value is ABSENT or right.value is ABSENT:
        return left.value is right.value
    return equal(left.value, right.value)


def _equal_library_values(left: Any, right: Any) -> bool:
    kind = left.__class__
    if kind is ComputedQuantity:
        kind = Quantity
    if right.__class__ is not kind:
        raise no_such_overload()
    return bool(left == right)


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal; incomparable values are different."""
    try:
        return equal(left, right)
    except CelError:
        return False


class OpenMap(dict[Any, Any]):
    """A map whose unknown keys look up an empty map, though the key is not `in` it."""

    __slots__ = ()

    def __missing__(self, key: Any) -> Any:
        if key.__class__ is str:
            return {}
        raise KeyError(key)


def find(mapping: dict[Any, Any], key: Any) -> Any:
    """Return the entry of a map, or ABSENT. Numbers match across types; true does not match 1."""
    kind = key.__class__
    if kind is str:
        return mapping.get(key, ABSENT)
    if kind not in _NUMBERS and kind is not bool:
        return ABSENT
    value = mapping.get(key, ABSENT)
    if value is ABSENT:
        return value
    # In Python True equals 1; only a key of the same family matches.
    for known in mapping:
        if known == key and (known.__class__ is bool) == (kind is bool):
            return value
    return ABSENT


def _compare_numbers(left: Any, right: Any, *, ordered: bool = False) -> int:
    """Return the order of two numbers. Integers meet doubles as doubles if the double is in their range."""
    if left != left or right != right:
        if ordered:
            raise CelError("NaN values cannot be ordered")
        return 1
    if left.__class__ is float and right.__class__ is not float and _INT_RANGE[0] <= left <= _INT_RANGE[1]:
        right = float(right)
    elif right.__class__ is float and left.__class__ is not float and _INT_RANGE[0] <= right <= _INT_RANGE[1]:
        left = float(left)
    return int(left > right) - int(left < right)


_INT_RANGE: Final = (-float(1 << 63), float(1 << 64))
_COMPARABLE: Final = frozenset({str, bool, bytes, Timestamp, Duration})


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; raise CelError for NaN and for types without a common order."""
    left_kind, right_kind = left.__class__, right.__class__
    if left_kind in _NUMBERS:
        if right_kind not in _NUMBERS:
            raise no_such_overload()
        return _compare_numbers(left, right, ordered=True)
    if left_kind is not right_kind or left_kind not in _COMPARABLE:
        raise no_such_overload()
    return int(left > right) - int(left < right)
