"""The chain of handlers that every request passes, whether it came through a socket or from a client in this process:

    history → faults → errors → authenticate → authorize → dispatch

    history        a record of the request and its answer, for the sinks
    faults         failures that somebody asked for; only while there are some
    errors         exceptions as answers in upstream's words; warnings as headers
    authenticate   the user, with impersonation
    authorize      may the user do this? only where not everything is allowed
    dispatch       the resource's verb, or a document

A handler knows the next one. The chain is put together once at start; only the faults come and go.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Protocol

from apiserver.http.handlers.requestinfo import parse
from apiserver.messages import Request, Response, Stream

#: What can be answered without waiting.
_FAST_VERBS: Final = frozenset({"get", "list"})


class Handler(Protocol):
    """Answers a request, alone or with the help of the next handler.

    `try_fast` is for what takes no waiting. None means: ask `handle`; the request and the server are then as they
    were. Both may raise; the errors handler makes answers of it.
    """

    def try_fast(self, request: Request) -> Response | None: ...

    def handle(self, request: Request) -> Awaitable[Response | Stream]: ...


class Link(Handler, Protocol):
    """A handler with another one behind it."""

    next: Handler


class HandlerChain:
    """The handlers, from the first to the last."""

    def __init__(self, *links: Link, last: Handler) -> None:
        for link, following in zip(links, (*links[1:], last), strict=True):
            link.next = following
        self._first: Handler = links[0] if links else last

    def try_fast(self, request: Request) -> Response | None:
        """What `handle` would answer, where that takes no waiting: an object, or all of a collection, as this server
        holds it. None: ask `handle`. Never raises.
        """
        if request.method != "GET" or request.query or request.body:
            return None
        info = request.info = parse(request)
        if info.verb not in _FAST_VERBS or info.subresource or not info.resource:
            return None
        return self._first.try_fast(request)

    def handle(self, request: Request) -> Awaitable[Response | Stream]:
        """The answer to a request. Raises ConnectionClosed where the client is to find its connection closed, and
        nothing else.
        """
        if not request.info.verb:
            request.info = parse(request)
        return self._first.handle(request)


def insert(link: Link, behind: Link) -> None:
    """Put a link into a chain."""
    link.next, behind.next = behind.next, link


def remove(link: Link, behind: Link) -> None:
    """Take a link out again. Requests that it has begun go on in it."""
    assert behind.next is link, "it stands there"
    behind.next = link.next
