"""The cost of a request grows with its size, not with its square: a part of `python -m benchmarks.growth`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apiserver.app import Server
from apiserver.request.messages import Request
from benchmarks.growth import cases, fields
from benchmarks.growth.measure import Case, build_request, measure_all, no_requests

pytestmark = pytest.mark.integration

#: Seconds at the smaller size: little, and enough to tell four times from sixteen.
ENOUGH = 0.002
NAMES = (
    "one header repeated",
    "clauses of Accept",
    "requirements of a label selector",
    "requirements that exclude",
    "bounds of one label",
    "create owners",
    "create equal owners",
    "update managers",
    "strategic environment into the same",
    "strategic finalizers into the same",
    "strategic: order of items",
    "strategic: delete items",
    "merge data into none",
    "apply data into the same",
    "JSON patch: add keys",
    "repeated fields of a patch",
    "unknown fields",
    "resourcequotas spec.scopeSelector.matchExpressions list",
    "resourcequotas spec.scopes list",
)


def chosen() -> Iterator[Case]:
    named = {case.name: case for case in (*cases.cases(), *fields.cases())}
    for name in NAMES:
        yield named[name]


def test_requests_cost_as_much_as_they_are_long() -> None:
    """Each was quadratic or could easily become so: sixteen times the cost for four times the size."""
    assert not [str(growth) for growth in measure_all(list(chosen()), ENOUGH) if growth.too_fast]


def test_what_grows_as_a_square_is_found() -> None:
    """The harness distinguishes quadratic work from linear work."""

    async def square(_: Server, request: Request) -> None:
        size = len(request.body)
        sum(1 for _ in range(size) for _ in range(size // 100))

    async def line(_: Server, request: Request) -> None:
        sum(1 for _ in range(100 * len(request.body)))

    made = [
        Case(send.__name__, no_requests, lambda size: build_request("GET", "/", b"x" * size), send)
        for send in (square, line)
    ]
    assert [growth.too_fast for growth in measure_all(made, ENOUGH)] == [True, False]
