"""Incremental encoding of long responses, so that the event loop serves other requests.

A list of thousands of objects as a Table, indented or in YAML takes long to encode. Its elements are encoded one by one
and joined to the same bytes as an encoding of the whole. After each slice of time other requests run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import orjson

from apiserver.api.values.go_json import escape_html
from apiserver.http.formats.encoding import encode, to_yaml
from apiserver.http.formats.negotiation import YAML
from apiserver.runtime.offload import iterate_in_slices

T = TypeVar("T")

_INDENT: Final = b"\n    "


async def gather(
    media: str, whole: dict[str, Any], key: str, items: Sequence[T], make: Callable[[T], Any], *, pretty: bool = False
) -> bytes:
    """Encode `{**whole, key: [make(item), …]}`. `key` comes last in JSON; YAML is sorted."""
    if not items:
        return encode(media, {**whole, key: []}, pretty=pretty)
    if media == YAML:
        return await _yaml(whole, key, items, make)
    option = orjson.OPT_INDENT_2 if pretty else 0
    parts = [escape_html(orjson.dumps(make(item), option=option)) async for item in iterate_in_slices(items)]
    head = escape_html(orjson.dumps(whole, option=option))
    if not pretty:
        parts[0] = b'%b,"%b":[%b' % (head[:-1], key.encode(), parts[0])
        parts[-1] += b"]}\n"
        return b",".join(parts)
    # No string of JSON contains a line end, so that all of them can be indented.
    shifted = [part.replace(b"\n", _INDENT) async for part in iterate_in_slices(parts)]
    return b'%b,\n  "%b": [\n    %b\n  ]\n}' % (head[:-2], key.encode(), b",\n    ".join(shifted))


async def _yaml(whole: dict[str, Any], key: str, items: Sequence[T], make: Callable[[T], Any]) -> bytes:
    before = {name: value for name, value in whole.items() if name < key}
    after = {name: value for name, value in whole.items() if name > key}
    parts = [to_yaml(before)] if before else []
    parts.append(f"{key}:\n".encode())
    parts += [to_yaml([make(item)]) async for item in iterate_in_slices(items)]
    if after:
        parts.append(to_yaml(after))
    return b"".join(parts)
