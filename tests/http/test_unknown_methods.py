"""Methods that no HTTP library knows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.server import serve
from tests.support.wire import Wire


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with serve() as running:
        yield running.wire()


@pytest.mark.parametrize("path", ["/api/v1/pods", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a"])
def test_a_method_that_nobody_knows_is_not_allowed_on_kubernetes_paths(wire: Wire, path: str) -> None:
    answer = wire.request("FOO", path)
    assert (answer.status, answer.json["reason"], answer.json["details"]) == (405, "MethodNotAllowed", {})


def test_elsewhere_it_is_a_bad_request(wire: Wire) -> None:
    assert wire.request("FOO", "/version").status == 400


def test_the_server_goes_on(wire: Wire) -> None:
    assert wire.request("FOO", "/api/v1/pods").status == 405
    assert wire.get("/api/v1/pods").status == 200
