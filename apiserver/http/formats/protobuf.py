"""Protobuf responses: objects, lists, watch events, statuses and discovery documents.

An entry's message is encoded once and shared by all readers, also in lists and events; an event's frame is encoded once
for all watchers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from apiserver.api import protobuf
from apiserver.api.protobuf import frame, wrap
from apiserver.api.protobuf.wire import header
from apiserver.api.schema.language import Struct
from apiserver.api.types import discovery, meta
from apiserver.http.formats.batches import join_batch
from apiserver.registry.body.convert import read, to_version
from apiserver.runtime.offload import iterate_in_slices

if TYPE_CHECKING:
    from apiserver.http.formats.negotiation import ResponseFormat
    from apiserver.http.formats.view import View
    from apiserver.registry.store.results import WatchEvent
    from apiserver.storage.watchcache.entry import Entry

_DOCUMENTS: Final = {
    kind.kind: kind
    for kind in (
        meta.Status,
        meta.APIVersions,
        meta.APIGroup,
        meta.APIGroupList,
        meta.APIResourceList,
        discovery.APIGroupDiscoveryList,
    )
}
_PARTIAL: Final = "PartialObjectMetadata"
_METADATA_KEY: Final = ("protobuf", _PARTIAL)
#: Tags of the fields of a list.
_ONE, _TWO = b"\x0a", b"\x12"
_SHAPED_EVENTS: Final = 100


def document(obj: dict[str, Any], schema: Struct | None = None) -> bytes | None:
    """Encode an object of its own kind or of the given schema; return None if the kind has no message."""
    kind = obj.get("kind", "")
    schema = schema or _DOCUMENTS.get(kind)
    return None if schema is None else wrap(obj.get("apiVersion", ""), kind, protobuf.encode(schema, obj))


def message(view: View, entry: Entry) -> bytes:
    """Return the message of an entry in a version."""
    key = view.protobuf_key
    made: bytes | None = entry.encodings.get(key)
    if made is None:
        obj = read(entry)
        shown = obj if view.stored else to_version(view.resource, view.version, obj)
        made = entry.encodings[key] = protobuf.encode(view.version.schema, shown)
    return made


def metadata(entry: Entry) -> bytes:
    """Return the message of only an entry's metadata, the same in all versions."""
    made: bytes | None = entry.encodings.get(_METADATA_KEY)
    if made is None:
        made = entry.encodings[_METADATA_KEY] = protobuf.encode(meta.PartialObjectMetadata, read(entry))
    return made


def render(view: View, chosen: ResponseFormat, entry: Entry) -> bytes | None:
    """Render one object in the requested form; return None if it has none."""
    if not chosen.shape:
        return wrap(view.api_version, view.resource.kind, message(view, entry))
    return wrap(_meta_version(chosen), _PARTIAL, metadata(entry)) if chosen.shape == _PARTIAL else None


async def render_list(
    view: View, chosen: ResponseFormat, entries: Sequence[Entry], list_meta: dict[str, Any]
) -> bytes | None:
    """Render a list in the requested form; return None if it has none."""
    make: Callable[[Entry], bytes]
    if not chosen.shape:
        api_version, kind, make = view.api_version, view.resource.list_kind, lambda entry: message(view, entry)
    elif chosen.shape == _PARTIAL + "List":
        api_version, kind, make = _meta_version(chosen), chosen.shape, metadata
    else:
        return None
    head = protobuf.encode(meta.ListMeta, list_meta)
    # The first version of lists of metadata numbers its two fields the other way round.
    meta_key, item_key = (_TWO, _ONE) if kind == chosen.shape and chosen.version == "v1beta1" else (_ONE, _TWO)
    parts: list[bytes] = []
    async for entry in iterate_in_slices(entries):
        made = make(entry)
        parts += (header(item_key, len(made)), made)
    parts[len(parts) if meta_key == _TWO else 0 : 0] = (header(meta_key, len(head)), head)
    return wrap(api_version, kind, b"".join(parts))


def _meta_version(chosen: ResponseFormat) -> str:
    return f"meta.k8s.io/{chosen.version}"


def error_frame(event: WatchEvent) -> bytes:
    """Return the frame of an ERROR event."""
    return frame(event.type, _status(event))


def _status(event: WatchEvent) -> bytes:
    return document(event.status or {}) or b""


class Frames:
    """A watch's events as frames; otherwise like `EventLines`."""

    def __init__(self, view: View, chosen: ResponseFormat) -> None:
        self._view, self._format = view, chosen
        self._key = (*view.protobuf_key, chosen.shape, chosen.version)
        self.possible = chosen.shape in ("", _PARTIAL)
        #: Maximal number of events to encode without a break.
        self.most = _SHAPED_EVENTS

    def lines(self, events: Sequence[WatchEvent], _now: datetime) -> bytes:
        """Encode a batch as one chunk."""
        return join_batch(events, self._key, lambda event: frame(event.type, self._object(event)))

    def _object(self, event: WatchEvent) -> bytes:
        view, chosen = self._view, self._format
        if event.status is not None:
            return _status(event)
        if event.entry is not None:
            return render(view, chosen, event.entry) or b""
        mark = view.bookmark(event)
        if chosen.shape:
            return wrap(_meta_version(chosen), _PARTIAL, protobuf.encode(meta.PartialObjectMetadata, mark))
        return wrap(view.api_version, view.resource.kind, protobuf.encode(view.version.schema, mark))
