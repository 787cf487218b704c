"""The API as typed calls: get, list, create, update, patch, delete, bind, watch.

Objects are dicts in their wire form. Statuses of 400 or above are raised as `StatusError` (`code`, `reason`, `message`,
`details`), broken connections as `TransportError`. Like client-go, the client repeats a request up to ten times if the
answer is 429 or 5xx with Retry-After.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

import orjson

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.device_form import reader, writer
from controllers.runtime.kinds import NEWEST, PODS, Kind, at_release
from controllers.runtime.transport import Headers, Transport

__all__ = ["Batch", "Client", "PatchType", "StatusError", "WatchEvent", "is_reason"]

PatchType = Literal["strategic", "merge", "json", "apply"]
_PATCH_TYPES: Mapping[str, str] = {
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_RETRIES = 10
#: Seconds that a server may take to end an expired watch. After that the connection is considered dead.
_GRACE = 10.0
USER_AGENT = "kubedra"


class WatchEvent(NamedTuple):
    """An ADDED, MODIFIED, DELETED or BOOKMARK event with its object. ERROR is raised as StatusError."""

    type: str
    object: Json


#: Events that arrived together.
Batch = list[WatchEvent]


def is_reason(error: BaseException, *reasons: str) -> bool:
    """Return whether an exception is an API error of one of these reasons (`NotFound`, `Conflict`, ...)."""
    return isinstance(error, StatusError) and error.reason in reasons


class Client:
    """A client of one server. As upstream, the server derives the field manager from the user agent.

    Callers use kinds of the newest release; `release` is the server's and decides the version in each path.
    `device_version` is the version of resource.k8s.io to use if it is not that of the release; objects of v1beta1 are
    converted.
    """

    def __init__(
        self,
        transport: Transport,
        user_agent: str = USER_AGENT,
        *,
        release: tuple[int, int] = NEWEST,
        device_version: str = "",
    ) -> None:
        self.transport, self.release, self.device_version = transport, release, device_version
        self.user_agent = user_agent
        self._headers = {"accept": "application/json", "user-agent": user_agent}
        self._typed = {
            media: {**self._headers, "content-type": media} for media in ("application/json", *_PATCH_TYPES.values())
        }

    def with_user_agent(self, user_agent: str) -> Client:
        """Return a client with another user agent on the same transport."""
        return Client(self.transport, user_agent, release=self.release, device_version=self.device_version)

    def for_controller(self, name: str) -> Client:
        """Return a client for one of kube-controller-manager's controllers, with a user agent of upstream's form.

        Its beginning is the field manager of all controllers.
        """
        major, minor = self.release
        return self.with_user_agent(f"kube-controller-manager/v{major}.{minor} (linux/amd64) kubernetes/{name}")

    def at(self, kind: Kind) -> Kind:
        """Return the kind in the version that the server serves."""
        if self.release == NEWEST and not self.device_version:
            return kind
        return at_release(kind, self.release, self.device_version)

    def _path(self, kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
        return self.at(kind).path(namespace, quote(name, safe=":"), subresource)

    def _body(self, kind: Kind, obj: Json) -> Json:
        """Return the object in the version that the server serves."""
        at = self.at(kind)
        convert = writer(kind.kind, at.version) if self.device_version else None
        obj = obj if convert is None else convert(obj)
        return obj if obj.get("apiVersion", at.api_version) == at.api_version else {**obj, "apiVersion": at.api_version}

    def _reader(self, kind: Kind) -> Callable[[Json], Json] | None:
        """Return the conversion of the server's objects to the form of v1; None if they have it."""
        return reader(kind.kind, self.at(kind).version) if self.device_version else None

    def _read(self, kind: Kind, obj: Json) -> Json:
        convert = self._reader(kind)
        return obj if convert is None or "metadata" not in obj else convert(obj)

    async def close(self) -> None:
        await self.transport.close()

    async def request(
        self,
        method: str,
        path: str,
        query: str = "",
        body: Any = None,
        media_type: str = "application/json",
        *,
        accept: str = "",
        parse: bool = True,
    ) -> Json:
        """Send any request and return the parsed answer; `{}` if it has no body, or without `parse`.

        `accept` has the media types for the answer, by default JSON.
        """
        answer = await self.request_bytes(method, path, query, body, media_type, accept=accept)
        return orjson.loads(answer) if parse and answer else {}

    async def request_bytes(
        self,
        method: str,
        path: str,
        query: str = "",
        body: Any = None,
        media_type: str = "application/json",
        *,
        accept: str = "",
    ) -> bytes:
        """Send any request and return the body of the answer; see `request`."""
        data = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        headers = self._typed[media_type] if body is not None else self._headers
        if accept:
            headers = {**headers, "accept": accept}
        for attempt in range(_RETRIES + 1):
            status, answered, answer = await self.transport.request(method, path, query, headers, data)
            if status < 400:
                return answer
            delay = _retry_after(status, answered) if attempt < _RETRIES else None
            if delay is None:
                raise _as_error(status, answered, answer, method, path)
            await asyncio.sleep(delay.total_seconds())
        raise AssertionError("unreachable")

    async def get(self, kind: Kind, name: str, namespace: str = "", *, resource_version: str = "") -> Json:
        query = f"resourceVersion={resource_version}" if resource_version else ""
        return self._read(kind, await self.request("GET", self._path(kind, namespace, name), query))

    async def list(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> Json:
        """Return the list object: `items`, `metadata.resourceVersion`, `metadata.continue`."""
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit or ""),
            resourceVersion=resource_version,
            **{"continue": continue_token},
        )
        found = await self.request("GET", self._path(kind, namespace), query)
        convert = self._reader(kind)
        return found if convert is None else {**found, "items": [convert(item) for item in found.get("items") or ()]}

    async def create(self, kind: Kind, obj: Json, *, field_manager: str = "", parse: bool = True) -> Json:
        """Create the object in its own namespace. `parse` as for `request`."""
        path = self._path(kind, obj["metadata"].get("namespace", ""))
        query = _query(fieldManager=field_manager) if field_manager else ""
        return self._read(kind, await self.request("POST", path, query, self._body(kind, obj), parse=parse))

    async def update(self, kind: Kind, obj: Json, subresource: str = "") -> Json:
        """Replace the object (PUT). Raise Conflict if its metadata.resourceVersion is set and outdated."""
        metadata = obj["metadata"]
        path = self._path(kind, metadata.get("namespace", ""), metadata["name"], subresource)
        return self._read(kind, await self.request("PUT", path, "", self._body(kind, obj)))

    async def update_status(self, kind: Kind, obj: Json) -> Json:
        return await self.update(kind, obj, "status")

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Any,
        namespace: str = "",
        *,
        type: PatchType = "strategic",
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        parse: bool = True,
    ) -> Json:
        """Patch an object. `apply` needs a field manager; `force` overrides conflicts. `parse` as for `request`.

        The body is sent as it is, so patches of device kinds change only metadata and status.
        """
        query = _query(fieldManager=field_manager, force="true" if force else "") if field_manager or force else ""
        path = self._path(kind, namespace, name, subresource)
        return self._read(kind, await self.request("PATCH", path, query, body, _PATCH_TYPES[type], parse=parse))

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period: int | None = None,
        propagation: Literal["", "Background", "Foreground", "Orphan"] = "",
        parse: bool = True,
    ) -> Json:
        """Delete an object. Raise Conflict if its uid or version is not the given one. `parse` as for `request`."""
        options = _delete_options(uid, resource_version, grace_period, propagation)
        return await self.request("DELETE", self._path(kind, namespace, name), "", options, parse=parse)

    async def delete_collection(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        grace_period: int | None = None,
        propagation: Literal["", "Background", "Foreground", "Orphan"] = "",
    ) -> Json:
        query = _query(labelSelector=label_selector, fieldSelector=field_selector)
        return await self.request(
            "DELETE", self._path(kind, namespace), query, _delete_options("", "", grace_period, propagation)
        )

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind a pod to a node. The server refuses another pod of that name and a bound pod."""
        body = {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"kind": "Node", "name": node},
        }
        await self.request("POST", PODS.path(namespace, name, "binding"), "", body, parse=False)

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        initial_events: bool = False,
        duration: timedelta | None = None,
    ) -> AsyncGenerator[Batch, None]:
        """Yield events in batches as they arrive, until the server ends the watch. Use with `contextlib.aclosing`.

        With `initial_events` the present objects come first as ADDED, followed by a bookmark with the annotation
        `k8s.io/initial-events-end`. The server ends the watch after `duration`.

        Raises:
            StatusError: An ERROR event or a refused watch; 410 means that the version is gone.
            TransportError: The connection broke, or the server did not end the watch in time.
        """
        query = _query(
            allowWatchBookmarks="true" if bookmarks else "",
            fieldSelector=field_selector,
            labelSelector=label_selector,
            resourceVersion=resource_version,
            resourceVersionMatch="NotOlderThan" if initial_events else "",
            sendInitialEvents="true" if initial_events else "",
            timeoutSeconds=str(int(duration.total_seconds())) if duration else "",
            watch="true",
        )
        path, convert = self._path(kind, namespace), self._reader(kind)
        # A server in this process passes its own objects, so that nothing is encoded and parsed.
        near = getattr(self.transport, "watch", None)
        status, answered, chunks = await (
            near(path, query, self._headers)
            if near
            else self.transport.stream(
                "GET", path, query, self._headers, duration.total_seconds() + _GRACE if duration else None
            )
        )
        try:
            if status >= 400:
                raise _as_error(status, answered, b"".join([chunk async for chunk in chunks]))
            rest = b""
            async for chunk in chunks:
                if isinstance(chunk, list):
                    yield _converted(_events(chunk), convert)
                    continue
                lines = (rest + chunk if rest else chunk).split(b"\n")
                rest = lines.pop()
                for batch in _batches(lines):
                    yield _converted(batch, convert)
        finally:
            await _close(chunks)


_BATCH = 64


def _batches(lines: list[bytes]) -> Iterable[Batch]:
    """Yield parsed events in small batches, so that a reader may yield the loop between them."""
    for start in range(0, len(lines), _BATCH):
        if batch := [_event(line) for line in lines[start : start + _BATCH] if line]:
            yield batch


def _converted(batch: Batch, convert: Callable[[Json], Json] | None) -> Batch:
    """Return the events with converted objects. A bookmark has no spec, so it stays as it is."""
    return batch if convert is None else [WatchEvent(event.type, convert(event.object)) for event in batch]


def _event(line: bytes) -> WatchEvent:
    parsed = orjson.loads(line)
    return _as_event(parsed["type"], parsed["object"])


def _events(pairs: list[tuple[str, Json]]) -> Batch:
    return [_as_event(event_type, obj) for event_type, obj in pairs]


def _as_event(event_type: str, obj: Json) -> WatchEvent:
    if event_type == "ERROR":
        raise _from_status(obj, ())
    return WatchEvent(event_type, obj)


async def _close(chunks: AsyncIterator[bytes]) -> None:
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()


def _query(**params: str) -> str:
    return urlencode({name: value for name, value in params.items() if value})


def _delete_options(uid: str, resource_version: str, grace_period: int | None, propagation: str) -> Json | None:
    options: Json = {}
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    preconditions = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
    if preconditions:
        options["preconditions"] = preconditions
    if propagation:
        options["propagationPolicy"] = propagation
    return {"kind": "DeleteOptions", "apiVersion": "v1", **options} if options else None


def _retry_after(status: int, headers: Headers) -> timedelta | None:
    if status != 429 and status < 500:
        return None
    value = next((value for name, value in headers if name.lower() == "retry-after"), "")
    return timedelta(seconds=int(value)) if value.isdigit() else None


def _as_error(status: int, headers: Headers, body: bytes, method: str = "GET", path: str = "") -> StatusError:
    """Return the error of an answer: the Status in it, or client-go's text for an unknown path."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if isinstance(parsed, dict) and parsed.get("kind") == "Status":
        return _from_status(parsed, tuple(headers))
    text = body.decode(errors="replace").strip()
    reason = "NotFound" if status == 404 else ""
    if status == 404:
        text = f"the server could not find the requested resource{_requested(method, path)}"
    return StatusError(status, reason, text or f"the server answered with status {status}", None, tuple(headers))


def _requested(method: str, path: str) -> str:
    """Describe a request as client-go does: the verb, the resource with its group, and the name."""
    root, *parts = path.strip("/").split("/")
    group, parts = ("", parts[1:]) if root == "api" else ((parts[0], parts[2:]) if parts else ("", []))
    if root not in ("api", "apis") or not parts:
        return ""
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    resource = f"{parts[0]}.{group}" if group else parts[0]
    return f" ({method.lower()} {resource}{f' {parts[1]}' if len(parts) > 1 else ''})"


def _from_status(status: Json, headers: tuple[tuple[str, str], ...]) -> StatusError:
    return StatusError(
        status.get("code", 500), status.get("reason", ""), status.get("message", ""), status.get("details"), headers
    )
