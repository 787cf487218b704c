"""API Priority and Fairness: schemas select levels, levels limit concurrency, and queues are fair."""

from __future__ import annotations

import asyncio
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from apiserver.api.errors.status import PlainError
from apiserver.http.fairness.handler import Fairness
from apiserver.request.info import request_info
from apiserver.request.messages import Request, Response, User
from apiserver.runtime.metrics import text
from tests.support.patience import wait_until
from tests.support.server import serve
from tests.support.tokens import token_flag

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
EVERYTHING: dict[str, Any] = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


def user(name: str) -> dict[str, Any]:
    return {"kind": "User", "user": {"name": name}}


def account(namespace: str, name: str) -> dict[str, Any]:
    return {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}}


def schema(name: str, level: str, *rules: dict[str, Any], precedence: int = 1000, by: str = "") -> dict[str, Any]:
    spec = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": list(rules)}
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}"},
        "spec": {**spec, **({"distinguisherMethod": {"type": by}} if by else {})},
    }


def level(name: str, shares: int, queuing: dict[str, int] | None = None, **limited: Any) -> dict[str, Any]:
    response = {"type": "Reject"} if queuing is None else {"type": "Queue", "queuing": queuing}
    spec = {"nominalConcurrencyShares": shares, "limitResponse": response, "borrowingLimitPercent": 0, **limited}
    return {"metadata": {"name": name, "uid": f"uid-of-{name}"}, "spec": {"type": "Limited", "limited": spec}}


ONE_QUEUE = {"queues": 1, "handSize": 1, "queueLengthLimit": 50}
#: A schema for every request of ann, on the level `some`.
MINE = schema("mine", "some", {**EVERYTHING, "subjects": [user("ann")]})


class Work:
    """The next handler: it answers immediately, or when `may_end` is set."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    def try_fast(self, request: Request) -> Response | None:
        if request.query == "fails":
            raise PlainError(403, "no")
        return Response(200, b"") if request.query == "fast" else None

    async def handle(self, request: Request) -> Response:
        assert request.user is not None
        self.began.append(request.user.name)
        await self.may_end.wait()
        return Response(200, b"")


def request(name: str, path: str = MAPS, query: str = "", method: str = "GET", groups: tuple[str, ...] = ()) -> Request:
    request = Request(method, path, query, {}, b"", User(name, "", groups))
    request.info = request_info(method, path, query)
    return request


def fairness(schemas: list[dict[str, Any]], levels: list[dict[str, Any]], seats: int = 2) -> tuple[Fairness, Work]:
    found, work = Fairness(seats), Work()
    found.next = work
    found.configure(schemas, levels)
    return found, work


async def run_callbacks(turns: int = 20) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


def sum_samples(found: Fairness, name: str, **labels: str) -> float:
    """Return the sum of the samples with these labels."""
    lines = [line for line in text(found.families()).splitlines() if line.startswith(f"apiserver_flowcontrol_{name}{{")]
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(each in line for each in wanted))


RULES: list[tuple[dict[str, Any], Request, bool]] = [
    ({"subjects": [user("ann")]}, request("ann"), True),
    ({"subjects": [user("ann")]}, request("bob"), False),
    ({"subjects": [user("*")]}, request("bob"), True),
    ({"subjects": [{"kind": "Group", "group": {"name": "dev"}}]}, request("bob", groups=("ops", "dev")), True),
    ({"subjects": [{"kind": "Group", "group": {"name": "dev"}}]}, request("bob", groups=("ops",)), False),
    ({"subjects": [{"kind": "Group", "group": {"name": "*"}}]}, request("bob"), True),
    ({"subjects": [account("a", "*")]}, request("system:serviceaccount:a:x"), True),
    ({"subjects": [account("a", "y")]}, request("system:serviceaccount:a:x"), False),
    ({"subjects": [account("a", "*")]}, request("system:serviceaccount:ab:x"), False),
]
PARTS: list[tuple[dict[str, Any], str, bool]] = [
    ({}, MAPS, True),
    ({"verbs": ["list"]}, MAPS, True),
    ({"verbs": ["get", "watch"]}, MAPS, False),
    ({"apiGroups": [""]}, MAPS, True),
    ({"apiGroups": ["apps"]}, MAPS, False),
    ({"resources": ["configmaps"]}, MAPS, True),
    ({"resources": ["pods"]}, "/api/v1/namespaces/default/pods/a/status", False),
    ({"resources": ["pods/status"]}, "/api/v1/namespaces/default/pods/a/status", True),
    ({"namespaces": ["default"]}, MAPS, True),
    ({"namespaces": ["other"]}, MAPS, False),
    ({"clusterScope": False}, MAPS, True),
    ({"clusterScope": False}, "/api/v1/nodes", False),
    ({"namespaces": ["other"]}, "/api/v1/nodes", True),
]
PATHS = [
    ("*", "/healthz", True), ("/healthz", "/healthz", True), ("/healthz", "/livez", False),
    ("/apis/*", "/apis/apps", True), ("/apis/*", "/apis", False), ("/apis", "/apis/apps", True),
    ("/apis", "/apisx", False),
]  # fmt: skip


async def is_covered(request: Request, *rules: dict[str, Any]) -> bool:
    """Return whether a schema with these rules covers a request."""
    found, _ = fairness([schema("mine", "some", *rules)], [level("some", 1)])
    await found.handle(request)
    return b"uid-of-mine" in request.marks


@pytest.mark.parametrize(("rule", "request_", "covered"), RULES)
async def test_a_schema_covers_its_subjects(rule: dict[str, Any], request_: Request, covered: bool) -> None:
    assert await is_covered(request_, {**EVERYTHING, **rule}) is covered


@pytest.mark.parametrize(("part", "path", "covered"), PARTS)
async def test_a_schema_covers_what_its_rules_name(part: dict[str, Any], path: str, covered: bool) -> None:
    rules = [{**EVERYTHING["resourceRules"][0], **part}]
    assert await is_covered(request("ann", path), {"subjects": [user("ann")], "resourceRules": rules}) is covered


@pytest.mark.parametrize(("url", "path", "covered"), PATHS)
async def test_a_schema_covers_the_paths_of_its_rules(url: str, path: str, covered: bool) -> None:
    rules = [{"verbs": ["get"], "nonResourceURLs": [url]}]
    assert await is_covered(request("ann", path), {"subjects": [user("ann")], "nonResourceRules": rules}) is covered


async def test_the_lowest_precedence_wins_then_the_name_and_the_rest_is_catch_all() -> None:
    everybody = {**EVERYTHING, "subjects": [user("ann")]}
    found, _ = fairness(
        [
            schema("catch-all", "some", precedence=10000),
            schema("b", "some", everybody, precedence=7),
            schema("a", "some", everybody, precedence=7),
            schema("late", "some", everybody, precedence=8),
            schema("first", "not-there", everybody, precedence=1),
        ],
        [level("some", 1)],
    )
    ann, bob = request("ann"), request("bob")
    await found.handle(ann)
    await found.handle(bob)
    assert b"uid-of-a\r\n" in ann.marks
    assert b"uid-of-catch-all" in bob.marks


def test_levels_share_the_seats_of_the_server_by_their_shares() -> None:
    lending, borrowing = level("a", 1, lendablePercent=50), level("b", 2, borrowingLimitPercent=50)
    found, _ = fairness([], [lending, borrowing, level("c", 4, borrowingLimitPercent=None)], seats=50)
    assert [sum_samples(found, "nominal_limit_seats", priority_level=name) for name in "abc"] == [8, 15, 29]
    assert [sum_samples(found, "lower_limit_seats", priority_level=name) for name in "abc"] == [4, 15, 29]
    assert [sum_samples(found, "upper_limit_seats", priority_level=name) for name in "abc"] == [8, 23, 81]


async def test_requests_beyond_the_seats_wait_or_are_refused_without_a_queue() -> None:
    for queuing, waits in ((ONE_QUEUE, True), (None, False)):
        found, work = fairness([MINE], [level("some", 1, queuing)])
        work.may_end.clear()
        three = [asyncio.ensure_future(found.handle(request("ann"))) for _ in range(3)]
        await run_callbacks()
        assert len(work.began) == 2
        assert sum_samples(found, "current_executing_requests") == 2
        assert sum_samples(found, "current_inqueue_requests") == waits
        work.may_end.set()
        answers = await asyncio.gather(*three, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, PlainError)]
        assert len(refused) == (not waits)
        for each in refused:
            assert (each.code, each.text) == (429, "Too many requests, please try again later.")
            assert each.headers == (("Retry-After", "1"),)
        assert sum_samples(found, "rejected_requests_total", reason="concurrency-limit") == (not waits)
        await run_callbacks()
        assert sum_samples(found, "current_executing_requests") == 0
        assert sum_samples(found, "dispatched_requests_total", flow_schema="mine") == 2 + waits


async def test_no_request_is_refused_for_a_seat_whose_request_is_answered() -> None:
    """A seat is kept a moment longer than its answer takes; the next request waits for that moment."""
    for queuing in (None, {"queues": 1, "handSize": 1, "queueLengthLimit": 1}):
        found, work = fairness([MINE], [level("some", 1, queuing)], seats=1)
        for _ in range(3):
            await found.handle(request("ann"))
        assert len(work.began) == 3
        held = [asyncio.ensure_future(found.handle(request("ann"))) for _ in range(2 + (queuing is not None))]
        answers = await asyncio.gather(*held, return_exceptions=True)
        assert sum(isinstance(answer, PlainError) for answer in answers) == 1  # one more than there is room for


async def test_a_full_queue_refuses_and_a_wait_ends_after_a_fourth_of_the_requests_time() -> None:
    short = {"queues": 1, "handSize": 1, "queueLengthLimit": 1}
    found, work = fairness([MINE], [level("some", 1, short)], seats=1)
    work.may_end.clear()
    first = asyncio.ensure_future(found.handle(request("ann")))
    await run_callbacks()
    second = asyncio.ensure_future(found.handle(request("ann", query="timeout=40ms")))
    await run_callbacks()
    with pytest.raises(PlainError):
        await found.handle(request("ann"))
    assert sum_samples(found, "rejected_requests_total", reason="queue-full") == 1
    with pytest.raises(PlainError):
        await second
    assert sum_samples(found, "rejected_requests_total", reason="time-out") == 1
    work.may_end.set()
    await first
    assert len(work.began) == 1


async def test_a_user_with_many_requests_does_not_starve_others() -> None:
    """One user sends forty requests and another three on one level; a second level waits for neither."""
    subjects = [user("elephant"), user("mouse")]
    found, work = fairness(
        [
            schema("mine", "some", {**EVERYTHING, "subjects": subjects}, by="ByUser"),
            schema("other", "other", {**EVERYTHING, "subjects": [user("bird")]}),
        ],
        [level("some", 1, {"queues": 64, "handSize": 4, "queueLengthLimit": 50}), level("other", 1, ONE_QUEUE)],
    )
    names = ["elephant"] * 40 + ["mouse"] * 3 + ["bird"] * 3
    await asyncio.gather(*(found.handle(request(name)) for name in names))
    last = len(work.began) - work.began[::-1].index("mouse")
    assert work.began[:last].count("elephant") <= 12  # of 40; its hand has four queues
    assert work.began[:8].count("bird") == 3


async def test_a_fast_answer_takes_a_seat_briefly() -> None:
    found, work = fairness([MINE], [level("some", 1, ONE_QUEUE)], seats=1)
    assert found.try_fast(request("ann", query="fast")) is not None
    assert found.try_fast(request("ann", query="fast")) is None
    await found.handle(request("ann"))  # waits for the seat
    assert work.began == ["ann"]
    while found.try_fast(request("ann", query="fast")) is None:
        assert found.try_fast(request("ann", query="slow")) is None  # takes none
        await asyncio.sleep(0.001)
    assert sum_samples(found, "dispatched_requests_total") == 3


async def test_unused_seats_of_a_lending_level_are_borrowed() -> None:
    found, work = fairness(
        [MINE, schema("other", "other", {**EVERYTHING, "subjects": [user("bob")]})],
        [level("some", 1, ONE_QUEUE, borrowingLimitPercent=100), level("other", 1, ONE_QUEUE, lendablePercent=50)],
        seats=8,
    )
    work.may_end.clear()
    bobs = [asyncio.ensure_future(found.handle(request("bob"))) for _ in range(3)]
    anns = [asyncio.ensure_future(found.handle(request("ann"))) for _ in range(8)]
    await run_callbacks()
    assert work.began.count("ann") == 5  # four of its own, one of the four of the other, three of which are in use
    work.may_end.set()
    await asyncio.gather(*bobs, *anns)


async def test_queued_requests_come_before_later_ones() -> None:
    both = schema("mine", "some", {**EVERYTHING, "subjects": [user("ann"), user("bob")]})
    found, work = fairness([both], [level("some", 1, ONE_QUEUE)], seats=1)
    work.may_end.clear()
    first, second = (asyncio.ensure_future(found.handle(request("ann"))) for _ in range(2))
    await run_callbacks()
    found.configure([both], [level("some", 2, ONE_QUEUE)])
    found._levels["some"].seats = 2  # one more seat, unknown to the queue
    late = asyncio.ensure_future(found.handle(request("bob")))
    await run_callbacks()
    assert work.began == ["ann"]
    work.may_end.set()
    await asyncio.gather(first, second, late)
    assert work.began == ["ann", "ann", "bob"]


async def test_a_level_borrows_no_more_than_its_limit() -> None:
    found, work = fairness(
        [MINE],
        [level("some", 1, ONE_QUEUE, borrowingLimitPercent=25), level("other", 1, ONE_QUEUE, lendablePercent=100)],
        seats=8,
    )
    work.may_end.clear()
    anns = [asyncio.ensure_future(found.handle(request("ann"))) for _ in range(8)]
    await run_callbacks()
    assert len(work.began) == 5  # four of its own, and a fourth of that
    work.may_end.set()
    await asyncio.gather(*anns)


async def test_a_request_that_fails_gives_its_seat_back() -> None:
    found, work = fairness([MINE], [level("some", 1, ONE_QUEUE)], seats=1)
    with pytest.raises(PlainError, match="no"):
        found.try_fast(request("ann", query="fails"))
    async with asyncio.timeout(30):
        await found.handle(request("ann"))
    assert work.began == ["ann"]


async def test_a_cancelled_request_leaves_the_queue_and_a_long_running_one_takes_no_seat() -> None:
    found, work = fairness([MINE], [level("some", 1, ONE_QUEUE)], seats=1)
    work.may_end.clear()
    first = asyncio.ensure_future(found.handle(request("ann")))
    await run_callbacks()
    second, third = (asyncio.ensure_future(found.handle(request("ann"))) for _ in range(2))
    await run_callbacks()
    second.cancel()
    await run_callbacks()
    assert sum_samples(found, "current_inqueue_requests") == 1
    long = asyncio.ensure_future(found.handle(request("ann", "/api/v1/namespaces/default/pods/a/log")))
    await run_callbacks()
    assert len(work.began) == 2
    work.may_end.set()
    await asyncio.gather(first, third, long)


def test_every_answer_has_its_audit_id_and_its_flow_schema(tmp_path: Path) -> None:
    tokens = token_flag(tmp_path, "admin,admin,1,system:masters\nann,ann,2,\n")
    with serve(tokens, "--max-requests-inflight=1", "--max-mutating-requests-inflight=1") as running:
        wire = running.wire("admin")

        def uids(token: str, path: str = MAPS) -> tuple[str, str]:
            headers = running.wire(token).get(path).headers
            UUID(headers["audit-id"])
            return headers["x-kubernetes-pf-flowschema-uid"], headers["x-kubernetes-pf-prioritylevel-uid"]

        def uid(kind: str, name: str) -> str:
            found: str = wire.get(f"{FLOWS}/{kind}/{name}").json["metadata"]["uid"]
            return found

        def both(flow: str, name: str) -> tuple[str, str]:
            return uid("flowschemas", flow), uid("prioritylevelconfigurations", name)

        assert uids("admin") == both("exempt", "exempt")
        assert uids("ann") == both("global-default", "global-default")
        assert uids("ann", "/healthz") == both("probes", "exempt")
        stranger = running.wire("nobody").get(MAPS)
        assert stranger.status == 401
        assert "x-kubernetes-pf-flowschema-uid" not in stranger.headers
        assert len({stranger.headers["audit-id"], wire.get(MAPS).headers["audit-id"]}) == 2
        assert wire.get(MAPS, audit_id="mine").headers["audit-id"] == "mine"
        wire.create(f"{FLOWS}/prioritylevelconfigurations", level("one", 1))
        made = schema("one", "one", {**EVERYTHING, "subjects": [user("ann")]}, precedence=5)
        wire.create(f"{FLOWS}/flowschemas", made)
        wait_until(lambda: uids("ann") == both("one", "one"), "the new schema counts")
        assert 'apiserver_flowcontrol_nominal_limit_seats{priority_level="one"} 1' in wire.get("/metrics").text
        with running.wire("ann").watch(f"{MAPS}?watch=true") as watch:
            assert watch.headers["x-kubernetes-pf-flowschema-uid"] == uid("flowschemas", "one")


def test_without_priority_and_fairness_answers_have_no_headers_of_it() -> None:
    with serve("--enable-priority-and-fairness=false") as running:
        headers = running.wire().get(MAPS).headers
        assert parsedate_to_datetime(headers["date"]).tzinfo is not None
        assert "x-kubernetes-pf-flowschema-uid" not in headers
        assert "audit-id" in headers
