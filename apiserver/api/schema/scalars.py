"""Readers of leaf types: each converts a parsed JSON value to normal form, None for an absent one.

They are the fast half of decoding: they raise `UnusualValue` without a text at anything unusual.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final

from apiserver.api.schema.language import ListOf, MapOf, Scalar, Type
from apiserver.api.values.bounded_cache import remembered
from apiserver.api.values.go_json import RawObject
from apiserver.api.values.quantity import Quantity
from apiserver.api.values.times import micro_time, time

__all__ = ["AS_IT_IS", "READERS", "Reader", "UnusualValue", "canonical_quantity", "raw_names"]

Reader = Callable[[Any], Any]


class UnusualValue(Exception):
    pass


def read_string(value: Any) -> Any:
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise UnusualValue


def _bool(value: Any) -> Any:
    if value is True or value is False:
        return value
    if value is None:
        return False
    raise UnusualValue


def _integer(low: int, high: int) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        if value is None:
            return 0
        raise UnusualValue

    return read


def _float(value: Any) -> Any:
    if type(value) is int:
        return value
    if type(value) is float:
        # Go writes whole numbers without a fraction, up to the size from which it uses exponents.
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    if value is None:
        return 0
    raise UnusualValue


def _bytes(value: Any) -> Any:
    if value is None:
        return ""
    if type(value) is not str or len(value) % 4:
        raise UnusualValue
    try:
        return b64encode(b64decode(value, validate=True)).decode() if value else ""
    except ValueError:
        raise UnusualValue from None


def _time(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, str):
        raise UnusualValue
    try:
        return time(value)
    except ValueError:
        raise UnusualValue from None


def _micro_time(value: Any) -> Any:
    if value is None:
        return None
    if type(value) is not str:
        raise UnusualValue
    try:
        return micro_time(value)
    except ValueError:
        raise UnusualValue from None


@remembered(8192)
def canonical_quantity(text: str) -> str:
    """Return a quantity in canonical form. Raise ValueError."""
    return str(Quantity.parse(text.strip()))


def _quantity(value: Any) -> Any:
    if type(value) is str:
        try:
            return canonical_quantity(value)
        except ValueError:
            raise UnusualValue from None
    if value is None:
        return "0"
    if type(value) is int:
        return canonical_quantity(str(value))
    raise UnusualValue


def _int_or_string(value: Any) -> Any:
    if type(value) is str or (type(value) is int and -(2**31) <= value < 2**31):
        return value
    if value is None:
        return 0
    raise UnusualValue


def _anything(value: Any) -> Any:
    return value


def _raw(value: Any) -> Any:
    return RawObject(value) if type(value) is dict else value


#: Scalars in normal form for every value of a Python type.
AS_IT_IS: Final[dict[str, type]] = {"string": str, "bool": bool}

READERS: Final[dict[str, Reader]] = {
    "string": read_string,
    "bool": _bool,
    "int32": _integer(-(2**31), 2**31 - 1),
    "int64": _integer(-(2**63), 2**63 - 1),
    "float64": _float,
    "bytes": _bytes,
    "time": _time,
    "microTime": _micro_time,
    "quantity": _quantity,
    "intOrString": _int_or_string,
    "raw": _raw,
    "fieldsV1": _anything,
    "any": _anything,
}


def raw_names(type: Type) -> frozenset[bytes]:
    """Return the names of fields with raw values, as JSON text contains them."""
    if isinstance(type, ListOf):
        return raw_names(type.item)
    if isinstance(type, MapOf):
        return raw_names(type.value)
    if isinstance(type, Scalar):
        return frozenset()
    known: frozenset[bytes] | None = type.cache.get("raw_names")
    if known is None:
        type.cache["raw_names"] = frozenset()
        own = {
            b'"%s"' % name.encode()
            for name, item in type.fields.items()
            if isinstance(item.type, Scalar) and item.type.name == "raw"
        }
        known = type.cache["raw_names"] = frozenset(own).union(*(raw_names(item.type) for item in type.fields.values()))
    return known
