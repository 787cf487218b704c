"""One version of one resource as clients see it: its entries as JSON and as dicts.

The stored version only joins bytes; another version is encoded once per entry and shared by all readers.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from apiserver.api.codec.codec import decode
from apiserver.api.objects import Json
from apiserver.api.schema.dropping import list_hidden_marks
from apiserver.api.values.go_json import escape_html
from apiserver.registry.body.convert import read, to_version
from apiserver.registry.definition.resource import Resource, Version, same_form
from apiserver.registry.store.results import Listing, WatchEvent
from apiserver.storage.watchcache.cache import Cache
from apiserver.storage.watchcache.entry import Entry

PARTIAL: Final = "PartialObjectMetadata"
_OPENING: Final = b'{"metadata":{'
_TYPED: Final = frozenset({"kind", "apiVersion"})


class View:
    """One version of one resource as clients see it, created at start.

    `hides`: stored objects may have fields that the version hides, so that the stored bytes cannot be sent.
    """

    def __init__(self, resource: Resource, version: Version, *, hides: bool = False) -> None:
        self.resource, self.version = resource, version
        self.api_version = resource.api_versions[version.name]
        self.opening = b'{"kind":"%b","apiVersion":"%b","metadata":{' % (
            resource.kind.encode(),
            self.api_version.encode(),
        )
        self.list_opening = b'{"kind":"%b","apiVersion":"%b","metadata":' % (
            resource.list_kind.encode(),
            self.api_version.encode(),
        )
        self.stored = version.from_hub is same_form and not hides
        #: Items of custom resources have their kind and apiVersion.
        self.item_opening = self.opening if resource.custom else _OPENING
        self._next = b"," + self.item_opening
        self._key = (resource.group, resource.plural, version.name)
        self.protobuf_key = (*self._key, "protobuf")

    def bookmark(self, event: WatchEvent) -> Json:
        """Build the object of a bookmark: only a revision."""
        meta: Json = {"resourceVersion": str(event.revision)}
        if event.initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        empty = decode(self.version.schema, {}).obj
        return {
            "kind": self.resource.kind,
            "apiVersion": self.api_version,
            **empty,
            "metadata": {**empty.get("metadata", {}), **meta},
        }

    def tail(self, entry: Entry) -> bytes:
        """Return the bytes after the opening of the metadata: stored, or converted once."""
        if self.stored:
            return entry.escaped_tail
        made: bytes | None = entry.encodings.get(self._key)
        if made is None:
            obj = to_version(self.resource, self.version, read(entry))
            rest = {name: value for name, value in obj.items() if name not in _TYPED}
            text = orjson.dumps({"metadata": rest.pop("metadata"), **rest})
            made = entry.encodings[self._key] = escape_html(text[len(_OPENING) :])
        return made

    def object(self, entry: Entry) -> bytes:
        """Return the object with kind and apiVersion, as JSON."""
        return self.opening + self.tail(entry)

    def line(self, entry: Entry) -> bytes:
        """Return the object as a whole response: with an end of line."""
        return b"".join((self.opening, self.tail(entry), b"\n"))

    def item(self, entry: Entry) -> dict[str, Any]:
        """Return the object as an item of a list: without kind and apiVersion, unless it is custom."""
        obj: dict[str, Any] = orjson.loads(self.item_opening + self.tail(entry))
        return obj

    def dict(self, entry: Entry) -> dict[str, Any]:
        """Return the object as a new dict."""
        obj: dict[str, Any] = orjson.loads(self.object(entry))
        return obj

    def shared(self, event: WatchEvent) -> Json:
        """Return a watch event's object as a dict whose parts are shared with other readers and must not be changed."""
        entry = event.entry
        if entry is None:
            return event.status or self.bookmark(event)
        if self.stored:
            return {"kind": self.resource.kind, "apiVersion": self.api_version, **entry.obj}
        return self.dict(entry)

    def list(self, listing: Listing) -> bytes:
        """Render the whole list as JSON, assembled in one copy."""
        head = self.list_opening + orjson.dumps(self.list_meta(listing)) + b',"items":['
        if not listing.entries:
            return head + b"]}\n"
        parts = (
            [entry.escaped_tail for entry in listing.entries]
            if self.stored
            else [self.tail(entry) for entry in listing.entries]
        )
        parts[0] = head + self.item_opening + parts[0]
        parts[-1] += b"]}\n"
        return self._next.join(parts)

    def list_meta(self, listing: Listing) -> Json:
        """Return a list's metadata; lists of custom objects always have `continue`."""
        meta = list_meta(listing)
        return {"continue": "", **meta} if self.resource.custom else meta


def hides_of(version: Version, cache: Cache) -> bool:
    """Return whether a version hides a field of a cached object (`apiserver.api.schema.dropping`)."""
    marks = list_hidden_marks(version.schema)
    return bool(marks) and any(mark in entry.tail for entry in cache.list().entries for mark in marks)


def list_meta(listing: Listing) -> dict[str, Any]:
    """Build a list's metadata."""
    meta: dict[str, Any] = {"resourceVersion": str(listing.revision)} if listing.revision else {}
    if listing.continue_token:
        meta["continue"] = listing.continue_token
    if listing.remaining is not None:
        meta["remainingItemCount"] = listing.remaining
    if listing.shards:
        meta["shardInfo"] = {"selector": listing.shards}
    return meta


def partial(obj: dict[str, Any], version: str) -> dict[str, Any]:
    """Return only an object's metadata."""
    return {"kind": PARTIAL, "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}
