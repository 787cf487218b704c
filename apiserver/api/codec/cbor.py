"""CBOR (RFC 8949) as Kubernetes speaks it: what JSON can say, and nothing else.

Strings, names of fields included, are written as byte strings, floats in the shortest form that keeps them, and the
whole is enclosed in tag 55799, which tells what it is. Read is more than is written: text strings, what has no length
at its beginning, times and bytes by their tags, other tags for what they enclose. What JSON does not have (NaN, big
numbers, undefined, keys that are no strings) is refused, and so is a key that occurs twice.

Errors are those of github.com/fxamacker/cbor v2
with the settings of k8s.io/apimachinery (pkg/runtime/serializer/cbor).
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Final, NoReturn

import orjson

from apiserver.api.codec.bodies import DecodeError
from apiserver.api.depth import MAX_DEPTH, TOO_DEEP

__all__ = ["SELF_DESCRIBED", "dumps", "dumps_event", "to_json", "type_of"]

#: The head of tag 55799.
SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
_TYPES: Final = (
    "positive integer",
    "negative integer",
    "byte string",
    "UTF-8 text string",
    "array",
    "map",
    "tag",
    "primitives",
)
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_LITERALS: Final = {20: b"false", 21: b"true", 22: b"null"}
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_BREAK: Final = 0xFF
_BIG_NUMBERS: Final = frozenset({2, 3})
_TIMES: Final = frozenset({0, 1})
_SHOWN_AS: Final = {21: base64.urlsafe_b64encode, 22: base64.b64encode, 23: base64.b16encode}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INT64: Final = 1 << 63


# Writing


def dumps(value: Any, turn: int = 0) -> bytes:
    """A value of JSON in CBOR. Keys are in an order that depends on `turn`, so that no client comes to rely on one."""
    out = bytearray(SELF_DESCRIBED)
    pending: list[Iterator[Any]] = [iter((value,))]
    while pending:
        for item in pending[-1]:
            inner = _write(out, item, turn)
            if inner is not None:
                pending.append(inner)
                break
        else:
            pending.pop()
    return bytes(out)


def dumps_event(kind: str, obj: Any, turn: int = 0) -> bytes:
    """An event of a watch, whose object is a whole of its own."""
    parts = [dumps("type")[3:] + dumps(kind)[3:], dumps("object")[3:] + dumps(obj, turn)]
    return SELF_DESCRIBED + b"\xa2" + b"".join(reversed(parts) if turn % 2 else parts)


def _write(out: bytearray, item: Any, turn: int) -> Iterator[Any] | None:
    """Appends an item, of an array or a map the head alone. Gives what it is made of."""
    if item is None or isinstance(item, bool):
        out.append(0xF6 if item is None else 0xF4 + item)
    elif isinstance(item, str):
        text = item.encode()
        _head(out, _BYTES, len(text))
        out += text
    elif isinstance(item, int):
        _head(out, _UNSIGNED, item) if item >= 0 else _head(out, _NEGATIVE, -1 - item)
    elif isinstance(item, float):
        _float(out, item)
    elif isinstance(item, dict):
        _head(out, _MAP, len(item))
        pairs: list[tuple[str, Any]] = list(item.items())
        first = turn % len(pairs) if pairs else 0
        return chain.from_iterable(pairs[first:] + pairs[:first])
    else:
        _head(out, _ARRAY, len(item))
        items: list[Any] = item
        return iter(items)
    return None


def _head(out: bytearray, major: int, number: int) -> None:
    if number < 24:
        out.append(major << 5 | number)
        return
    power = 0 if number < 1 << 8 else 1 if number < 1 << 16 else 2 if number < 1 << 32 else 3
    out.append(major << 5 | 24 + power)
    out += number.to_bytes(1 << power, "big")


def _float(out: bytearray, value: float) -> None:
    for info, form in _FLOATS.items():
        try:
            packed = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, packed)[0] == value:
            out.append(_SIMPLE << 5 | info)
            out += packed
            return


# Reading


def to_json(data: bytes) -> bytes:
    """One item of CBOR as JSON. Raises DecodeError."""
    return _Reader(data).read()


def type_of(data: bytes) -> str:
    """What an item is, in the words of errors."""
    return _TYPES[_Reader(data).kind()]


class _Open:
    """An array or map whose end is still to come. `left` is how many items are missing, None where a break ends it."""

    __slots__ = ("count", "keys", "left")

    def __init__(self, left: int | None, keys: set[bytes] | None) -> None:
        self.left, self.keys, self.count = left, keys, 0


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._opened: list[_Open] = []
        self._out: list[bytes] = []

    def read(self) -> bytes:
        if not self._data:
            raise DecodeError("EOF")
        self._item()
        while self._opened:
            if self._ended():
                self._out.append(b"]" if self._opened.pop().keys is None else b"}")
            else:
                self._item()
        if self._at < len(self._data):
            raise DecodeError(
                f"cbor: {len(self._data) - self._at} bytes of extraneous data starting at index {self._at}"
            )
        return b"".join(self._out)

    def kind(self) -> int:
        """The type of the next item."""
        return self._tags()[1][0]

    def _ended(self) -> bool:
        """Whether the innermost array or map is complete. Passes over the break that ends it."""
        inner = self._opened[-1]
        if inner.left is not None or self._at >= len(self._data) or self._data[self._at] != _BREAK:
            return inner.left == 0
        if inner.keys is not None and inner.count % 2:
            raise DecodeError('cbor: unexpected "break" code')
        self._at += 1
        return True

    def _item(self) -> None:
        """Reads one item, of an array or map its head."""
        inner = self._opened[-1] if self._opened else None
        is_key = inner is not None and inner.keys is not None and inner.count % 2 == 0
        if inner is not None:
            if inner.count:
                self._out.append(b":" if inner.keys is not None and not is_key else b",")
            inner.count += 1
            if inner.left is not None:
                inner.left -= 1
        tag, (major, info, number) = self._tags()
        if is_key and major not in (_BYTES, _TEXT):
            raise DecodeError(f"cbor: cannot unmarshal {_TYPES[major]} into Go value of type string")
        if major in (_ARRAY, _MAP):
            self._open(major, number)
            return
        made = self._scalar(major, info, number, tag)
        if is_key and inner is not None and inner.keys is not None:
            if made in inner.keys:
                shown = f"{made.decode()} at map element index {len(inner.keys)}"
                raise DecodeError(f"cbor: found duplicate map key {shown}")
            inner.keys.add(made)
        self._out.append(made)

    def _open(self, major: int, number: int | None) -> None:
        if len(self._opened) >= MAX_DEPTH:
            raise DecodeError(f"cbor: {TOO_DEEP}")
        if major == _MAP:
            self._opened.append(_Open(None if number is None else 2 * number, set()))
        else:
            self._opened.append(_Open(number, None))
        self._out.append(b"{" if major == _MAP else b"[")

    def _tags(self) -> tuple[int, tuple[int, int, int | None]]:
        """The innermost tag of an item, -1 where it has none, and its head."""
        tag, head = -1, self._head()
        while head[0] == _TAG:
            assert head[2] is not None, "a tag without a number is refused"
            tag = head[2]
            if tag in _BIG_NUMBERS:
                raise _refused(_TAG, "bignum")
            head = self._head()
        return tag, head

    def _head(self) -> tuple[int, int, int | None]:
        """Type, additional information and number of an item; no number where a break ends it."""
        first = self._take(1)[0]
        major, info = first >> 5, first & 31
        if info < 24:
            return major, info, info
        if info < 28:
            number = int.from_bytes(self._take(1 << (info - 24)), "big")
            if major == _SIMPLE and info == 24 and number < 32:
                raise DecodeError(f"cbor: invalid simple value {number} for type {_TYPES[major]}")
            return major, info, number
        if info < 31 or major in (_UNSIGNED, _NEGATIVE, _TAG):
            raise DecodeError(f"cbor: invalid additional information {info} for type {_TYPES[major]}")
        if major == _SIMPLE:
            raise DecodeError('cbor: unexpected "break" code')
        return major, info, None

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise DecodeError("unexpected EOF")
        self._at += count
        return taken

    def _scalar(self, major: int, info: int, number: int | None, tag: int) -> bytes:
        """The JSON of an item that is made of no others."""
        if major in (_BYTES, _TEXT):
            held = self._take(number) if number is not None else self._chunks(major)
            if major == _BYTES and tag in _SHOWN_AS:
                held = _SHOWN_AS[tag](held)
                return orjson.dumps(held.decode().lower() if tag == 23 else held.decode().rstrip("=" * (tag == 21)))
            return orjson.dumps(_text(held, major))
        assert number is not None, "only strings, arrays and maps are ended by a break"
        value: float | int
        if major == _SIMPLE:
            if info not in _FLOATS:
                return _LITERALS.get(number) or _refuse(_SIMPLE, f"simple value {number} is not recognized")
            value = struct.unpack(_FLOATS[info], number.to_bytes(1 << (info - 24), "big"))[0]
            if not math.isfinite(value):
                raise _refused(_SIMPLE, "floating-point NaN" if math.isnan(value) else "floating-point infinity")
        else:
            value = number if major == _UNSIGNED else -1 - number
            if not -_INT64 <= value < _INT64:
                what = f"{value} overflows Go's int64"
                raise DecodeError(f"cbor: cannot unmarshal {_TYPES[major]} into Go value of type int64 ({what})")
        return orjson.dumps(_time(value) if tag in _TIMES else value)

    def _chunks(self, major: int) -> bytes:
        """The whole of a string that comes in pieces."""
        parts: list[bytes] = []
        while True:
            if self._at >= len(self._data):
                raise DecodeError("unexpected EOF")
            if self._data[self._at] == _BREAK:
                self._at += 1
                return b"".join(parts)
            found, _, number = self._head()
            whole = _TYPES[major]
            if found != major:
                raise DecodeError(f"cbor: wrong element type {_TYPES[found]} for indefinite-length {whole}")
            if number is None:
                raise DecodeError(f"cbor: indefinite-length {whole} chunk is not definite-length")
            parts.append(self._take(number))


def _text(held: bytes, major: int) -> str:
    """Bytes that are no UTF-8 are replaced where JSON would be written of them; text has to be some."""
    try:
        return held.decode()
    except UnicodeDecodeError:
        if major == _TEXT:
            raise DecodeError("cbor: invalid UTF-8 string") from None
        return held.decode(errors="replace")


def _time(seconds: float) -> str:
    """A time since 1970 as RFC 3339."""
    try:
        at = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise DecodeError(f"cbor: {seconds} overflows Go's time.Time") from None
    text = at.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{at.microsecond:06}".rstrip("0") + "Z" if at.microsecond else text + "Z"


def _refused(major: int, what: str) -> DecodeError:
    return DecodeError(f"cbor: data item of cbor type {_TYPES[major]} is not accepted by protocol: {what}")


def _refuse(major: int, what: str) -> NoReturn:
    raise _refused(major, what)
