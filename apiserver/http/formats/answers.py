"""Responses with objects and lists, in the negotiated format."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apiserver.api.errors.status import StatusError
from apiserver.api.types.meta import PartialObjectMetadata
from apiserver.http.formats.encoding import encode
from apiserver.http.formats.gathering import gather
from apiserver.http.formats.negotiation import JSON, PLAIN, PROTOBUF, ResponseFormat
from apiserver.http.formats.table import parse_include_object, row, sort_rows, table
from apiserver.http.formats.view import PARTIAL, View, list_meta, partial
from apiserver.registry.body.decode import Kinds
from apiserver.registry.definition.resource import go_package
from apiserver.registry.definition.table import table_of
from apiserver.registry.store.results import Listing
from apiserver.request.messages import Request, Response
from apiserver.runtime.offload import iterate_in_slices
from apiserver.storage.watchcache.entry import Entry


async def list_response(
    request: Request, chosen: ResponseFormat, view: View, listing: Listing, now: datetime
) -> Response:
    """Build the response with a list. Raise 400 and 406."""
    if chosen is PLAIN and view.stored:
        return Response(200, view.list(listing))
    body = await render_list(view, chosen, listing, now, parse_include_object(request, chosen))
    return Response(200, body, chosen.media)


def json_response(chosen: ResponseFormat, kinds: Kinds, body: dict[str, Any], code: int) -> Response:
    """Build the response with an object that is not stored: a Status, which has one form, or a review. Raise 406."""
    schema = None
    if chosen.shape and body.get("kind") != "Status":
        if chosen.shape != PARTIAL:
            group = body["apiVersion"].rpartition("/")[0]
            raise _no_list(chosen.shape, f"{go_package(group)}.{body['kind']}")
        body, schema = partial(body, chosen.version), PartialObjectMetadata
    elif chosen.media == PROTOBUF:
        schema = kinds.schema(body.get("apiVersion", ""), body.get("kind", ""))
    return Response(code, encode(chosen.media, body, pretty=chosen.pretty, schema=schema), chosen.media)


def render_object(view: View, chosen: ResponseFormat, entry: Entry, now: datetime, include: str = "") -> bytes:
    """Render one object in the requested form. `include` is a Table's includeObject."""
    if chosen.media == PROTOBUF:
        from apiserver.http.formats import protobuf

        made = protobuf.render(view, chosen, entry)
        if made is not None:
            return made
    if not chosen.shape:
        if chosen.media == JSON and not chosen.pretty:
            return view.line(entry)
        return encode(chosen.media, view.dict(entry), pretty=chosen.pretty)
    if chosen.shape == "Table":
        version = entry.obj["metadata"].get("resourceVersion")
        meta = {"resourceVersion": version} if version else {}
        return encode(chosen.media, table(view, chosen, [entry], meta, now, include), pretty=chosen.pretty)
    if chosen.shape == PARTIAL:
        return encode(chosen.media, partial(entry.obj, chosen.version), pretty=chosen.pretty)
    if view.resource.custom:  # upstream has only generic columns for them
        raise StatusError(500, "", "content is not a list")
    raise _no_list(chosen.shape, view.resource.go_type)


def _no_list(shape: str, go_type: str) -> StatusError:
    text = f"you requested {shape}, but the requested object is not a list (*{go_type})"
    return StatusError(406, "NotAcceptable", text)


async def render_list(view: View, chosen: ResponseFormat, listing: Listing, now: datetime, include: str = "") -> bytes:
    """Render a list in the requested form. Long lists yield to other requests."""
    entries, meta = listing.entries, list_meta(listing)
    if chosen.media == PROTOBUF:
        from apiserver.http.formats import protobuf

        made = await protobuf.render_list(view, chosen, entries, meta)
        if made is not None:
            return made
    if not chosen.shape:
        if chosen.media == JSON and not chosen.pretty:
            if not view.stored:
                async for entry in iterate_in_slices(entries):
                    view.tail(entry)
            return view.list(listing)
        head = {
            "kind": view.resource.list_kind,
            "apiVersion": view.api_version,
            "metadata": view.list_meta(listing),
        }
        return await gather(chosen.media, head, "items", entries, view.item, pretty=chosen.pretty)
    if chosen.shape == "Table":
        head = table_of(view.resource, (), meta, version=chosen.version)
        if not entries:
            return encode(chosen.media, head, pretty=chosen.pretty)
        del head["rows"]
        return await gather(
            chosen.media,
            head,
            "rows",
            sort_rows(view, entries),
            lambda entry: row(view, chosen, entry, now, include),
            pretty=chosen.pretty,
        )
    if chosen.shape == PARTIAL + "List":
        head = {"kind": chosen.shape, "apiVersion": f"meta.k8s.io/{chosen.version}", "metadata": meta}
        if not entries:
            return encode(chosen.media, {**head, "items": None}, pretty=chosen.pretty)
        return await gather(
            chosen.media, head, "items", entries, lambda entry: partial(entry.obj, chosen.version), pretty=chosen.pretty
        )
    raise StatusError(
        406,
        "NotAcceptable",
        f"you requested {chosen.shape}, but the requested object is a list (*{view.resource.go_type}List)",
    )
