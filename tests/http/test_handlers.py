"""The chain of handlers: its order, its links, and an answer in every case."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import apiserver.http.handlers.chain as handlers
from apiserver.api.errors.status import StatusError
from apiserver.authentication.authenticator import ADMIN
from apiserver.http.handlers.chain import Handler, HandlerChain, Link
from apiserver.request import info as requestinfo
from apiserver.request.info import RequestInfo, request_info
from apiserver.request.messages import Request, Response
from tests.support.server import Running, serve

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"


def link_names(chain: HandlerChain) -> list[str]:
    """Return the names of the handlers, from first to last."""
    handler, found = chain._first, []
    while handler is not None:
        found.append(type(handler).__name__)
        handler = getattr(handler, "next", None)  # type: ignore[assignment]
    return found


def test_without_authorizers_the_chain_has_no_authorization() -> None:
    with serve() as server:
        assert link_names(server.server.chain) == ["Errors", "Authentication", "Fairness", "Dispatch"]


def test_with_authorizers_authorization_follows_authentication() -> None:
    with serve("--authorization-mode=RBAC") as server:
        assert link_names(server.server.chain) == ["Errors", "Authentication", "Fairness", "Authorization", "Dispatch"]


def test_with_everything_on_the_chain_is_the_list_of_its_docstring(tmp_path: Path) -> None:
    (tmp_path / "policy").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    (tmp_path / "tracing").write_text("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n")
    flags = (
        "--authorization-mode=RBAC", "--feature-gates=CBORServingAndStorage=true",
        "--strict-transport-security-directives=max-age=1", f"--tracing-config-file={tmp_path / 'tracing'}",
        f"--audit-policy-file={tmp_path / 'policy'}", "--coverage",
    )  # fmt: skip
    listed = re.findall(r"^ {6}(\w+)  ", handlers.__doc__ or "", re.MULTILINE)
    with serve(*flags) as server:
        assert link_names(server.server.chain) == [
            name for name in listed if name not in ("Faults", "AggregationHandler")
        ]


class Named:
    """A link that records its name."""

    next: Handler

    def __init__(self, name: str, seen: list[str]) -> None:
        self._name, self._seen = name, seen

    def try_fast(self, request: Request) -> Response | None:
        self._seen.append(self._name)
        return self.next.try_fast(request)

    async def handle(self, request: Request) -> Response:
        self._seen.append(self._name)
        return await self.next.handle(request)  # type: ignore[return-value]


def chain_of(*links: Link) -> HandlerChain:
    return HandlerChain(*links, last=Last(), count=lambda *_: None)


class Last:
    def try_fast(self, request: Request) -> Response | None:
        return Response(200, b"") if request.info.verb == "get" else None

    async def handle(self, request: Request) -> Response:
        return Response(200, b"")


def test_a_link_that_is_put_first_is_passed_until_it_is_taken_out() -> None:
    seen: list[str] = []
    first, second, before = (Named(name, seen) for name in ("first", "second", "before"))
    chain = chain_of(first, second)
    chain.insert_first(before)
    assert chain.try_fast(Request("GET", f"{MAPS}/a", "", {}, b"")) is not None
    assert seen == ["before", "first", "second"]
    seen.clear()
    chain.remove_link(before)
    chain.try_fast(Request("GET", f"{MAPS}/a", "", {}, b""))
    assert seen == ["first", "second"]


@pytest.mark.parametrize(
    ("method", "path", "query", "body"),
    [
        ("POST", MAPS, "", b"{}"),
        ("GET", MAPS, "limit=1", b""),
        ("GET", MAPS, "", b"x"),
        ("GET", "/readyz", "", b""),
        ("GET", "/api/v1/namespaces/default/pods/p/log", "", b""),
        ("GET", "/api/v1/watch/pods", "", b""),
        ("DELETE", MAPS, "", b""),
    ],
)
def test_requests_that_may_wait_are_not_tried_fast(method: str, path: str, query: str, body: bytes) -> None:
    seen: list[str] = []
    chain = chain_of(Named("first", seen))
    assert chain.try_fast(Request(method, path, query, {}, body)) is None
    assert seen == []


def test_a_request_without_a_fast_answer_is_answered_once(running: Running) -> None:
    """A Table is tried fast, given up, and handled; this is one record."""

    async def ask() -> tuple[int, int]:
        server = running.server
        request = Request("GET", MAPS, "", {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}, b"", ADMIN)
        before = len(list(server.requests.latest()))
        assert server.chain.try_fast(request) is None
        answer = await server.chain.handle(request)
        return answer.status, len(list(server.requests.latest())) - before

    assert running.call(ask) == (200, 1)


class Failing(Last):
    def __init__(self, error: Exception) -> None:
        self._error = error

    def try_fast(self, request: Request) -> Response | None:
        raise self._error

    async def handle(self, request: Request) -> Response:
        raise self._error


@pytest.mark.parametrize(
    ("error", "status"), [(StatusError(418, "Teapot", "short and stout"), 418), (RuntimeError("a bug"), 500)]
)
def test_an_error_of_a_handler_becomes_an_answer_and_a_record(running: Running, error: Exception, status: int, caplog: pytest.LogCaptureFixture) -> None:  # fmt: skip
    async def ask() -> list[int]:
        server = running.server
        last = server._authentication.next
        server._authentication.next = Failing(error)
        try:
            fast = server.chain.try_fast(Request("GET", f"{MAPS}/a", "", {}, b""))
            slow = await server.chain.handle(Request("POST", MAPS, "", {}, b"{}"))
        finally:
            server._authentication.next = last
        assert fast is not None
        codes = [record.code for record, _ in zip(server.requests.latest(), range(2), strict=False)]
        return [fast.status, slow.status, *codes]

    assert running.call(ask) == [status] * 4


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/pods", ("list", "", "v1", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/n/pods/p", ("get", "", "v1", "pods", "", "n", "p")),
        ("HEAD", "/api/v1/namespaces/n/pods/p", ("get", "", "v1", "pods", "", "n", "p")),
        ("PATCH", "/apis/g.io/v2/namespaces/n/things/t/status", ("patch", "g.io", "v2", "things", "status", "n", "t")),
        ("DELETE", "/apis/g.io/v2/things", ("deletecollection", "g.io", "v2", "things", "", "", "")),
        ("GET", "/api/v1/namespaces/n", ("get", "", "v1", "namespaces", "", "n", "n")),
        ("PUT", "/api/v1/namespaces/n/finalize", ("update", "", "v1", "namespaces", "finalize", "n", "n")),
        ("GET", "/api/v1/watch/namespaces/n/pods", ("watch", "", "v1", "pods", "", "n", "")),
        ("GET", "/api/v1/namespaces/n/pods/a%2Fb", ("get", "", "v1", "pods", "b", "n", "a")),
        ("GET", "/%61pi/v1%2Fpods/a%252Fb", ("get", "", "v1", "pods", "", "", "a%2Fb")),
        ("GET", "/api/v1/pods/", ("list", "", "v1", "pods", "", "", "")),
        ("POST", "/apis", ("post", "", "", "", "", "", "")),
        ("GET", "/apis/g.io/v2", ("get", "", "", "", "", "", "")),
        ("GET", "/apis/g.io/v2/", ("get", "", "", "", "", "", "")),
        ("GET", "/readyz", ("get", "", "", "", "", "", "")),
    ],
)
def test_the_request_info_of_a_path(method: str, path: str, expected: tuple[str, ...]) -> None:
    info = request_info(method, path)
    found = (info.verb, info.group, info.version, info.resource, info.subresource, info.namespace, info.name)
    assert found == expected


@pytest.mark.parametrize(("query", "verb"), [("watch=true", "watch"), ("watch=0", "list"), ("watch", "watch"), ("limit=1", "list"), ("%77atch=1", "watch"), ("watch=false&watch=1", "list")])  # fmt: skip
def test_a_list_with_watch_is_a_watch(query: str, verb: str) -> None:
    assert request_info("GET", "/api/v1/pods", query).verb == verb


#: Parts of paths: those that mean something, names, and what stands in places that may mislead.
PARTS = "api apis v1 g.io namespaces ns pods nodes watch status finalize proxy log a b %2F a%20b"
REQUESTS = st.tuples(
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    st.lists(st.sampled_from(["", *PARTS.split()]), max_size=9).map(lambda parts: "/" + "/".join(parts)),
    st.sampled_from(["", "watch=true", "watch=0", "watch", "wat%63h=1", "limit=5", "limit=5&watch=1"]),
)
#: All paths of these parts, which are those in which something may be taken for what it is not.
ABOVE = ("/api/v1", "/apis/g.io/v1", "/api/v1/namespaces/ns", "/apis/g%2Eio/v1/%6Eamespaces/ns")
RESOURCES = ("pods", "nodes", "namespaces", "watch", "%2F")
BELOW = ("a", "status", "watch", "", "%2F")


def info_fields(info: RequestInfo) -> dict[str, Any]:
    return {name: getattr(info, name) for name in RequestInfo.__slots__} | {"rest": tuple(info.rest)}


def check(*request: str) -> None:
    """Compare the info of a path before and after it and its parents are cached."""
    parts = request[1].split("/")
    requestinfo._COLLECTIONS.clear()
    alone = info_fields(request_info(*request))
    for end in range(len(parts) + 1):
        request_info("GET", "/".join(parts[:end]))
    assert info_fields(request_info(*request)) == alone


@given(REQUESTS)
def test_a_request_is_about_the_same_whichever_paths_came_before(request: tuple[str, str, str]) -> None:
    check(*request)


def test_a_path_that_only_looks_like_an_object_is_not_one() -> None:
    for above, resource, count in product(ABOVE, RESOURCES, range(4)):
        for below in product(BELOW, repeat=count):
            for method, query in (("GET", ""), ("GET", "watch=1"), ("POST", "watch=1"), ("DELETE", "watch=1")):
                check(method, "/".join((above, resource, *below)), query)


def test_few_short_paths_are_remembered() -> None:
    requestinfo._COLLECTIONS.clear()
    request_info("GET", f"/api/v1/namespaces/{'n' * 400}/pods")
    assert not requestinfo._COLLECTIONS
    for number in range(5000):
        request_info("GET", f"/api/v1/namespaces/n{number}/pods")
    assert 0 < len(requestinfo._COLLECTIONS) <= 2000
