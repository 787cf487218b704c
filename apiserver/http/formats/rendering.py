"""Entries as answers: an object, a list, a watch line, in the version and form that was asked for.

The stored form's own version costs nothing but joining bytes; another version or a row is encoded once per entry and
shared by all readers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from typing import Any, Final

import orjson

from apiserver.api.codec import decode
from apiserver.api.status import StatusError
from apiserver.http.formats import negotiation
from apiserver.http.formats.gathering import gather, in_turns
from apiserver.http.formats.negotiation import Form
from apiserver.registry.body.convert import api_version, read, to_version
from apiserver.registry.resource import Resource, Version, same_form
from apiserver.registry.results import Listing, WatchEvent
from apiserver.registry.table import row_of, row_of_entry, table_of
from apiserver.storage.entry import Batch, Entry

_OPENING: Final = b'{"metadata":{'
_NEXT: Final = b',{"metadata":{'
_SHAPED_EVENTS: Final = 100
_PLAIN_EVENTS: Final = 1000
#: A batch that is larger is joined for each watcher anew, rather than kept until the next one.
_SHARED_BYTES: Final = 1024 * 1024
_TYPED: Final = frozenset({"kind", "apiVersion"})
_PARTIAL: Final = "PartialObjectMetadata"

Json = dict[str, Any]


class View:
    """One version of one resource as clients see it. Made once for each, at start."""

    def __init__(self, resource: Resource, version: Version) -> None:
        self.resource, self.version = resource, version
        self.api_version = api_version(resource.group, version.name)
        self.opening = b'{"kind":"%b","apiVersion":"%b","metadata":{' % (
            resource.kind.encode(),
            self.api_version.encode(),
        )
        self.list_opening = b'{"kind":"%b","apiVersion":"%b","metadata":' % (
            resource.list_kind.encode(),
            self.api_version.encode(),
        )
        self.stored = version.from_hub is same_form
        self._key = (resource.group, resource.plural, version.name)
        self.protobuf_key = (*self._key, "protobuf")

    def bookmark(self, event: WatchEvent) -> Json:
        """The object of a bookmark: a revision and nothing else."""
        meta: Json = {"resourceVersion": str(event.revision)}
        if event.initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        empty = decode(self.version.schema, {}).obj
        return {
            **empty,
            "kind": self.resource.kind,
            "apiVersion": self.api_version,
            "metadata": {**empty.get("metadata", {}), **meta},
        }

    def tail(self, entry: Entry) -> bytes:
        """What follows the opening of the metadata: the stored bytes, or those of the converted object, made once."""
        if self.stored:
            return entry.tail
        made: bytes | None = entry.encodings.get(self._key)
        if made is None:
            obj = to_version(self.resource, self.version, read(entry))
            rest = {name: value for name, value in obj.items() if name not in _TYPED}
            made = entry.encodings[self._key] = orjson.dumps({"metadata": rest.pop("metadata"), **rest})[
                len(_OPENING) :
            ]
        return made

    def object(self, entry: Entry) -> bytes:
        """The object with kind and apiVersion, as JSON."""
        return self.opening + self.tail(entry)

    def line(self, entry: Entry) -> bytes:
        """The object as a whole answer: with an end of line."""
        return b"%b%b\n" % (self.opening, entry.tail if self.stored else self.tail(entry))

    def item(self, entry: Entry) -> dict[str, Any]:
        """The object as an item of a list: without kind and apiVersion."""
        obj: dict[str, Any] = orjson.loads(_OPENING + self.tail(entry))
        return obj

    def dict(self, entry: Entry) -> dict[str, Any]:
        """The object as a dict of its own."""
        obj: dict[str, Any] = orjson.loads(self.object(entry))
        return obj

    def list(self, listing: Listing) -> bytes:
        """The whole list as JSON, put together in one copy."""
        head = self.list_opening + orjson.dumps(list_meta(listing)) + b',"items":['
        if not listing.entries:
            return head + b"]}\n"
        parts = (
            [entry.tail for entry in listing.entries]
            if self.stored
            else [self.tail(entry) for entry in listing.entries]
        )
        parts[0] = head + _OPENING + parts[0]
        parts[-1] += b"]}\n"
        return _NEXT.join(parts)


def list_meta(listing: Listing) -> dict[str, Any]:
    """A list's metadata."""
    meta: dict[str, Any] = {"resourceVersion": str(listing.revision)}
    if listing.continue_token:
        meta["continue"] = listing.continue_token
    if listing.remaining is not None:
        meta["remainingItemCount"] = listing.remaining
    return meta


def partial(obj: dict[str, Any], version: str) -> dict[str, Any]:
    """An object's metadata alone."""
    return {"kind": _PARTIAL, "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}


def render_object(
    view: View, form: Form, entry: Entry, now: datetime, include: str = "", *, pretty: bool = False
) -> bytes:
    """One object in the form that was asked for. `include` is a Table's includeObject."""
    if form.media == negotiation.PROTOBUF:
        from apiserver.http.formats import protobuf

        made = protobuf.render(view, form, entry)
        if made is None:
            raise negotiation.not_acceptable()
        return made
    if not form.shape:
        if form.media == negotiation.JSON and not pretty:
            return view.line(entry)
        return negotiation.encode(form.media, view.dict(entry), pretty=pretty)
    if form.shape == "Table":
        version = entry.obj["metadata"].get("resourceVersion")
        meta = {"resourceVersion": version} if version else {}
        return negotiation.encode(form.media, table(view, form, [entry], meta, now, include), pretty=pretty)
    if form.shape == _PARTIAL:
        return negotiation.encode(form.media, partial(entry.obj, form.version), pretty=pretty)
    raise StatusError(
        406,
        "NotAcceptable",
        f"you requested {form.shape}, but the requested object is not a list (*{view.resource.go_type})",
    )


async def render_list(
    view: View, form: Form, listing: Listing, now: datetime, include: str = "", *, pretty: bool = False
) -> bytes:
    """A list in the form that was asked for. Others get their turn while a long one is made."""
    entries, meta = listing.entries, list_meta(listing)
    if form.media == negotiation.PROTOBUF:
        from apiserver.http.formats import protobuf

        made = await protobuf.render_list(view, form, entries, meta)
        if made is None:
            raise negotiation.not_acceptable()
        return made
    if not form.shape:
        if form.media == negotiation.JSON and not pretty:
            if not view.stored:
                async for entry in in_turns(entries):
                    view.tail(entry)
            return view.list(listing)
        head = {"kind": view.resource.list_kind, "apiVersion": view.api_version, "metadata": meta}
        return await gather(form.media, head, "items", entries, view.item, pretty=pretty)
    if form.shape == "Table":
        head = table_of(view.resource, (), meta, version=form.version)
        del head["rows"]
        return await gather(
            form.media, head, "rows", entries, lambda entry: row(view, form, entry, now, include), pretty=pretty
        )
    if form.shape == _PARTIAL + "List":
        head = {"kind": form.shape, "apiVersion": f"meta.k8s.io/{form.version}", "metadata": meta}
        if not entries:
            return negotiation.encode(form.media, {**head, "items": None}, pretty=pretty)
        return await gather(
            form.media, head, "items", entries, lambda entry: partial(entry.obj, form.version), pretty=pretty
        )
    raise StatusError(
        406,
        "NotAcceptable",
        f"you requested {form.shape}, but the requested object is a list (*{view.resource.go_type}List)",
    )


def row(view: View, form: Form, entry: Entry, now: datetime, include: str) -> dict[str, Any]:
    """An entry as a row of a Table."""
    return row_of_entry(view.resource, entry, now) | {"object": _row_object(view, form, entry, include)}


def table(
    view: View,
    form: Form,
    entries: Sequence[Entry],
    meta: dict[str, Any],
    now: datetime,
    include: str,
    *,
    columns: bool = True,
) -> dict[str, Any]:
    """Entries as a Table."""
    rows = [row(view, form, entry, now, include) for entry in entries]
    return table_of(view.resource, rows, meta, version=form.version, columns=columns)


def _row_object(view: View, form: Form, entry: Entry, include: str) -> Any:
    if include == "None":
        return None
    return view.dict(entry) if include == "Object" else partial(entry.obj, form.version)


def together(events: Sequence[WatchEvent], key: Hashable, make: Callable[[WatchEvent], bytes]) -> bytes:
    """The events' lines or frames joined. Each is made once, and so is the whole of a batch that many watchers get."""
    forms = events.forms if isinstance(events, Batch) else {}
    whole: bytes | None = forms.get(key)
    if whole is None:
        parts = []
        for event in events:
            made = event.encodings.get(key)
            if made is None:
                made = event.encodings[key] = make(event)
            parts.append(made)
        whole = b"".join(parts)
        if len(whole) <= _SHARED_BYTES:
            forms[key] = whole
    return whole


class EventLines:
    """A watch's events as lines of JSON. `include` as for a Table, whose columns only the first event carries.

    A list of metadata cannot be made of one event: such a watch opens, and ends with its first event (`possible`).
    """

    def __init__(self, view: View, form: Form, include: str = "") -> None:
        self._view, self._form, self._include = view, form, include
        self._key = (
            view.resource.group,
            view.resource.plural,
            view.version.name,
            form.shape,
            form.version if form.shape else "",
        )
        self._columns = True
        self.possible = form.shape != _PARTIAL + "List"
        #: How many events may be turned into lines without a break.
        self.most = _SHAPED_EVENTS if form.shape else _PLAIN_EVENTS

    def lines(self, events: Sequence[WatchEvent], now: datetime) -> bytes:
        """A batch as one chunk."""
        if self._form.shape == "Table":
            return b"".join(self._table_line(event, now) for event in events)
        return together(events, self._key, self._partial_line if self._form.shape else self._object_line)

    def _object_line(self, event: WatchEvent) -> bytes:
        if event.entry is not None:
            return b'{"type":"%b","object":%b}\n' % (event.type.encode(), self._view.object(event.entry))
        return _line(event.type, event.status or self._view.bookmark(event))

    def _partial_line(self, event: WatchEvent) -> bytes:
        if event.entry is None:
            return _line(event.type, event.status or partial(self._view.bookmark(event), self._form.version))
        return _line(event.type, partial(event.entry.obj, self._form.version))

    def _table_line(self, event: WatchEvent, now: datetime) -> bytes:
        if event.status is not None:
            return _line(event.type, event.status)
        columns, self._columns = self._columns, False
        if event.entry is not None:
            meta = {"resourceVersion": str(event.entry.revision)}
            return _line(
                event.type, table(self._view, self._form, [event.entry], meta, now, self._include, columns=columns)
            )
        mark = self._view.bookmark(event)
        row = row_of(self._view.resource, mark, now) | {"object": partial(mark, self._form.version)}
        made = table_of(
            self._view.resource,
            [row],
            {"resourceVersion": str(event.revision)},
            version=self._form.version,
            columns=columns,
        )
        return _line(event.type, made)


def _line(kind: str, obj: Any) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), orjson.dumps(obj))
