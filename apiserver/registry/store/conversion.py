"""Kinds with asynchronous conversion between their versions (conversion webhooks).

Objects are stored unconverted and converted to the request's version before any rule sees them. `convert_entry`
converts a cached entry to an entry of the same state in that version. Verbs treat it like every other entry. A verb
converts an object to the storage version last (`convert_to_stored`). See docs/adr/0024-webhooks.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from apiserver.api.objects import Hub, Stored
from apiserver.registry.body.convert import encode_stored
from apiserver.storage.log.types import Record
from apiserver.storage.watchcache.entry import Entry

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.resource import Resource

__all__ = [
    "ConvertedEntry",
    "add_mark",
    "convert_entry",
    "convert_to_stored",
    "read_mark",
    "remove_mark",
    "version_mark",
]

_KEY: Final = b',"apiVersion":"'
_END: Final = b'"}'


class ConvertedEntry(Entry):
    """The state of an entry in another form. The stored bytes stay unchanged."""

    __slots__ = ("raw", "version")

    def __init__(self, raw: Entry, version: str, obj: Hub) -> None:
        value = encode_stored(obj)
        super().__init__(Record(raw.revision, raw.key, raw.create_revision, 0, False, value), orjson.loads)
        self.raw, self.version = raw, version

    @property
    def value(self) -> bytes:
        return self.raw.value


async def convert_entry(resource: Resource, ctx: Context, entry: Entry, *, kept: bool = False) -> Entry:
    """Convert an entry to the version of a request; `kept` allows a cached conversion. Raise StatusError."""
    conversion = resource.conversion
    if conversion is None or type(entry) is not Entry:  # An unsaved object has the version of its request.
        return entry
    return (await conversion.convert_entries((entry,), ctx.version, kept=kept))[0]


async def convert_to_stored(resource: Resource, ctx: Context, obj: Hub) -> Hub:
    """Convert an object of a request to the storage version. Raise StatusError."""
    conversion = resource.conversion
    return obj if conversion is None else await conversion.convert_to_stored(obj, ctx.version)


# The version of a stored object. If a resource was stored in several versions, a row ends with the name of its version,
# except for the first version.


def version_mark(version: str) -> bytes:
    """Return the last member of a row, which marks its version."""
    return _KEY + version.encode() + _END


def add_mark(value: Stored, mark: bytes) -> Stored:
    """Return a value with its mark, if there is one."""
    return Stored(value[:-1] + mark) if mark else value


def read_mark(value: bytes) -> str:
    """Return the version in a stored value's mark, or "" without a mark."""
    if not value.endswith(_END):
        return ""
    at = value.rfind(_KEY)
    name = value[at + len(_KEY) : -len(_END)]
    return name.decode() if at >= 0 and name.isalnum() else ""


def remove_mark(value: bytes) -> bytes:
    """Return a stored value without its mark."""
    version = read_mark(value)
    return value[: -len(version_mark(version))] + b"}" if version else value
