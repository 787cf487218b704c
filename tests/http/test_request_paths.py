"""The request info of a path does not depend on cached collections."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.request import info as requestinfo
from apiserver.request.info import RequestInfo, request_info

pytestmark = pytest.mark.integration

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


def told(info: RequestInfo) -> dict[str, Any]:
    return {name: getattr(info, name) for name in RequestInfo.__slots__} | {"rest": tuple(info.rest)}


def check(*request: str) -> None:
    """Compare the info of a path before and after it and its parents are cached."""
    parts = request[1].split("/")
    requestinfo._COLLECTIONS.clear()
    alone = told(request_info(*request))
    for end in range(len(parts) + 1):
        request_info("GET", "/".join(parts[:end]))
    assert told(request_info(*request)) == alone


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
