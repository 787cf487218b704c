"""The kubedra server that receives a copy."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from kubedra.client.responses import ApiError
from kubedra.runtime.objects import Json

if TYPE_CHECKING:
    from kubedra.client.client import Client

__all__ = ["send"]

#: Bytes per request. A server accepts 3 MiB.
_PART: Final = 2 << 20
#: Seconds until the server has stored a copy.
_TIMEOUT: Final = 600.0
_NOT_FOUND: Final = 404


def send(client: Client, objects: Iterable[Json]) -> Json:
    """Store objects in a server. Return its counts and refusals.

    Raises ValueError if the server is not kubedra's, ApiError if it refuses the copy.
    """
    copy, parts = secrets.token_hex(8), [*_parts(objects)] or [[]]
    answer: Json = {}
    for number, part in enumerate(parts, 1):
        params = {"copy": copy, "parts": str(number if number == len(parts) else 0)}
        try:
            answer = client.request("POST", "/-/import", part, params=params, timeout=_TIMEOUT)
        except ApiError as error:
            if error.code == _NOT_FOUND:
                raise ValueError(f"{client.url}: not a server of this kubedra; start one with `kubedra up`") from None
            raise
    return answer


def _parts(objects: Iterable[Json]) -> Iterator[list[Json]]:
    """Yield the objects in parts that a request may have."""
    part: list[Json] = []
    size = 0
    for each in objects:
        length = len(json.dumps(each))
        if size + length > _PART and part:
            yield part
            part, size = [], 0
        part.append(each)
        size += length + 2
    if part:
        yield part
