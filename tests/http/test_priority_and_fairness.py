"""Requests are let in by the schemas and levels that there are: each level answers so many at once, the others wait, and
who sends most is not answered most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
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

pytestmark = pytest.mark.integration

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


class Work:
    """What stands behind: answers at once, or when it is told."""

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


def asked(name: str, path: str = MAPS, query: str = "", method: str = "GET", groups: tuple[str, ...] = ()) -> Request:
    request = Request(method, path, query, {}, b"", User(name, "", groups))
    request.info = request_info(method, path, query)
    return request


def fairness(schemas: list[dict[str, Any]], levels: list[dict[str, Any]], seats: int = 2) -> tuple[Fairness, Work]:
    found, work = Fairness(seats), Work()
    found.next = work
    found.configure(schemas, levels)
    return found, work


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def rest(turns: int = 20) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


def seen(found: Fairness, name: str, **labels: str) -> float:
    """The sum of the samples with these labels."""
    lines = [line for line in text(found.families()).splitlines() if line.startswith(f"apiserver_flowcontrol_{name}{{")]
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(each in line for each in wanted))


RULES: list[tuple[dict[str, Any], Request, bool]] = [
    ({"subjects": [user("ann")]}, asked("ann"), True),
    ({"subjects": [user("ann")]}, asked("bob"), False),
    ({"subjects": [user("*")]}, asked("bob"), True),
    ({"subjects": [{"kind": "Group", "group": {"name": "dev"}}]}, asked("bob", groups=("ops", "dev")), True),
    ({"subjects": [{"kind": "Group", "group": {"name": "dev"}}]}, asked("bob", groups=("ops",)), False),
    ({"subjects": [{"kind": "Group", "group": {"name": "*"}}]}, asked("bob"), True),
    (
        {"subjects": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "*"}}]},
        asked("system:serviceaccount:a:x"),
        True,
    ),
    (
        {"subjects": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "y"}}]},
        asked("system:serviceaccount:a:x"),
        False,
    ),
    (
        {"subjects": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "*"}}]},
        asked("system:serviceaccount:ab:x"),
        False,
    ),
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


def mark(request: Request, *rules: dict[str, Any]) -> bool:
    """Whether a schema with these rules covers a request."""
    found, _ = fairness([schema("mine", "some", *rules)], [level("some", 1)])

    async def ask() -> None:
        await found.handle(request)

    run(ask())
    return b"uid-of-mine" in request.marks


@pytest.mark.parametrize(("rule", "request_", "covered"), RULES)
def test_a_schema_covers_its_subjects(rule: dict[str, Any], request_: Request, covered: bool) -> None:
    assert mark(request_, {**EVERYTHING, **rule}) is covered


@pytest.mark.parametrize(("part", "path", "covered"), PARTS)
def test_a_schema_covers_what_its_rules_name(part: dict[str, Any], path: str, covered: bool) -> None:
    rules = [{**EVERYTHING["resourceRules"][0], **part}]
    assert mark(asked("ann", path), {"subjects": [user("ann")], "resourceRules": rules}) is covered


@pytest.mark.parametrize(("url", "path", "covered"), PATHS)
def test_a_schema_covers_the_paths_of_its_rules(url: str, path: str, covered: bool) -> None:
    rules = [{"verbs": ["get"], "nonResourceURLs": [url]}]
    assert mark(asked("ann", path), {"subjects": [user("ann")], "nonResourceRules": rules}) is covered


def test_the_lowest_precedence_counts_then_the_name_and_what_nobody_covers_is_of_the_catch_all() -> None:
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

    async def ask() -> None:
        ann, bob = asked("ann"), asked("bob")
        await found.handle(ann)
        await found.handle(bob)
        assert b"uid-of-a\r\n" in ann.marks
        assert b"uid-of-catch-all" in bob.marks

    run(ask())


def test_levels_share_the_seats_of_the_server_by_their_shares() -> None:
    found, _ = fairness(
        [],
        [
            level("a", 1, lendablePercent=50),
            level("b", 2, borrowingLimitPercent=50),
            level("c", 4, borrowingLimitPercent=None),
        ],
        seats=50,
    )
    assert [seen(found, "nominal_limit_seats", priority_level=name) for name in "abc"] == [8, 15, 29]
    assert [seen(found, "lower_limit_seats", priority_level=name) for name in "abc"] == [4, 15, 29]
    assert [seen(found, "upper_limit_seats", priority_level=name) for name in "abc"] == [8, 23, 81]


def test_so_many_are_answered_at_once_the_next_one_waits_and_where_nobody_may_wait_it_is_refused() -> None:
    async def ask() -> None:
        all_of = {**EVERYTHING, "subjects": [user("ann")]}
        for queuing, waits in ((ONE_QUEUE, True), (None, False)):
            found, work = fairness([schema("mine", "some", all_of)], [level("some", 1, queuing)])
            work.may_end.clear()
            three = [asyncio.ensure_future(found.handle(asked("ann"))) for _ in range(3)]
            await rest()
            assert len(work.began) == 2
            assert seen(found, "current_executing_requests") == 2
            assert seen(found, "current_inqueue_requests") == waits
            work.may_end.set()
            answers = await asyncio.gather(*three, return_exceptions=True)
            refused = [answer for answer in answers if isinstance(answer, PlainError)]
            assert len(refused) == (not waits)
            for each in refused:
                assert (each.code, each.text) == (429, "Too many requests, please try again later.")
                assert each.headers == (("Retry-After", "1"),)
            assert seen(found, "rejected_requests_total", reason="concurrency-limit") == (not waits)
            await rest()
            assert seen(found, "current_executing_requests") == 0
            assert seen(found, "dispatched_requests_total", flow_schema="mine") == 2 + waits

    run(ask())


def test_nobody_is_refused_for_a_seat_whose_request_is_answered() -> None:
    """Seats are taken for a moment longer than the answer takes; who comes meanwhile waits for that moment."""

    async def ask() -> None:
        all_of = {**EVERYTHING, "subjects": [user("ann")]}
        for queuing in (None, {"queues": 1, "handSize": 1, "queueLengthLimit": 1}):
            found, work = fairness([schema("mine", "some", all_of)], [level("some", 1, queuing)], seats=1)
            for _ in range(3):
                await found.handle(asked("ann"))
            assert len(work.began) == 3
            held = [asyncio.ensure_future(found.handle(asked("ann"))) for _ in range(2 + (queuing is not None))]
            answers = await asyncio.gather(*held, return_exceptions=True)
            assert sum(isinstance(answer, PlainError) for answer in answers) == 1  # one more than there is room for

    run(ask())


def test_a_full_queue_refuses_and_a_wait_ends_after_a_fourth_of_the_requests_time() -> None:
    async def ask() -> None:
        all_of = {**EVERYTHING, "subjects": [user("ann")]}
        short = {"queues": 1, "handSize": 1, "queueLengthLimit": 1}
        found, work = fairness([schema("mine", "some", all_of)], [level("some", 1, short)], seats=1)
        work.may_end.clear()
        first = asyncio.ensure_future(found.handle(asked("ann")))
        await rest()
        second = asyncio.ensure_future(found.handle(asked("ann", query="timeout=40ms")))
        await rest()
        with pytest.raises(PlainError):
            await found.handle(asked("ann"))
        assert seen(found, "rejected_requests_total", reason="queue-full") == 1
        with pytest.raises(PlainError):
            await second
        assert seen(found, "rejected_requests_total", reason="time-out") == 1
        work.may_end.set()
        await first
        assert len(work.began) == 1

    run(ask())


def test_who_sends_most_is_not_answered_most() -> None:
    """Forty of one user and three of another who share a level: when the three are done, about as many of the forty are;
    and another level does not wait for either."""

    async def ask() -> None:
        subjects = [user("elephant"), user("mouse")]
        found, work = fairness(
            [
                schema("mine", "some", {**EVERYTHING, "subjects": subjects}, by="ByUser"),
                schema("other", "other", {**EVERYTHING, "subjects": [user("bird")]}),
            ],
            [level("some", 1, {"queues": 64, "handSize": 4, "queueLengthLimit": 50}), level("other", 1, ONE_QUEUE)],
        )
        names = ["elephant"] * 40 + ["mouse"] * 3 + ["bird"] * 3
        await asyncio.gather(*(found.handle(asked(name)) for name in names))
        last = len(work.began) - work.began[::-1].index("mouse")
        assert work.began[:last].count("elephant") <= 12  # of 40; its hand has four queues
        assert work.began[:8].count("bird") == 3

    run(ask())


def test_what_is_answered_at_once_takes_a_seat_for_a_moment() -> None:
    async def ask() -> None:
        all_of = {**EVERYTHING, "subjects": [user("ann")]}
        found, work = fairness([schema("mine", "some", all_of)], [level("some", 1, ONE_QUEUE)], seats=1)
        assert found.try_fast(asked("ann", query="fast")) is not None
        assert found.try_fast(asked("ann", query="fast")) is None
        await found.handle(asked("ann"))  # waits for the seat
        assert work.began == ["ann"]
        while found.try_fast(asked("ann", query="fast")) is None:
            assert found.try_fast(asked("ann", query="slow")) is None  # takes none
            await asyncio.sleep(0.001)
        assert seen(found, "dispatched_requests_total") == 3

    run(ask())


def test_seats_that_a_level_lends_are_borrowed_while_nobody_uses_them() -> None:
    async def ask() -> None:
        found, work = fairness(
            [
                schema("mine", "some", {**EVERYTHING, "subjects": [user("ann")]}),
                schema("other", "other", {**EVERYTHING, "subjects": [user("bob")]}),
            ],
            [level("some", 1, ONE_QUEUE, borrowingLimitPercent=100), level("other", 1, ONE_QUEUE, lendablePercent=50)],
            seats=8,
        )
        work.may_end.clear()
        bobs = [asyncio.ensure_future(found.handle(asked("bob"))) for _ in range(3)]
        anns = [asyncio.ensure_future(found.handle(asked("ann"))) for _ in range(8)]
        await rest()
        assert work.began.count("ann") == 5  # four of its own, one of the four of the other, three of which are in use
        work.may_end.set()
        await asyncio.gather(*bobs, *anns)

    run(ask())


def test_who_waits_comes_before_who_comes_later() -> None:
    async def ask() -> None:
        all_of = {**EVERYTHING, "subjects": [user("ann"), user("bob")]}
        found, work = fairness([schema("mine", "some", all_of)], [level("some", 1, ONE_QUEUE)], seats=1)
        work.may_end.clear()
        first, second = (asyncio.ensure_future(found.handle(asked("ann"))) for _ in range(2))
        await rest()
        found.configure([schema("mine", "some", all_of)], [level("some", 2, ONE_QUEUE)])
        found._levels["some"].seats = 2  # a seat more, of which nobody who waits knows yet
        late = asyncio.ensure_future(found.handle(asked("bob")))
        await rest()
        assert work.began == ["ann"]
        work.may_end.set()
        await asyncio.gather(first, second, late)
        assert work.began == ["ann", "ann", "bob"]

    run(ask())


def test_a_level_borrows_no_more_than_its_limit() -> None:
    async def ask() -> None:
        found, work = fairness(
            [schema("mine", "some", {**EVERYTHING, "subjects": [user("ann")]})],
            [level("some", 1, ONE_QUEUE, borrowingLimitPercent=25), level("other", 1, ONE_QUEUE, lendablePercent=100)],
            seats=8,
        )
        work.may_end.clear()
        anns = [asyncio.ensure_future(found.handle(asked("ann"))) for _ in range(8)]
        await rest()
        assert len(work.began) == 5  # four of its own, and a fourth of that
        work.may_end.set()
        await asyncio.gather(*anns)

    run(ask())


def test_a_request_that_fails_gives_its_seat_back() -> None:
    async def ask() -> None:
        all_of = {**EVERYTHING, "subjects": [user("ann")]}
        found, work = fairness([schema("mine", "some", all_of)], [level("some", 1, ONE_QUEUE)], seats=1)
        with pytest.raises(PlainError, match="no"):
            found.try_fast(asked("ann", query="fails"))
        await found.handle(asked("ann"))
        assert work.began == ["ann"]

    run(asyncio.wait_for(ask(), 30))


def test_a_request_that_is_given_up_leaves_its_place_and_one_that_goes_on_for_long_takes_none() -> None:
    async def ask() -> None:
        all_of = {**EVERYTHING, "subjects": [user("ann")]}
        found, work = fairness([schema("mine", "some", all_of)], [level("some", 1, ONE_QUEUE)], seats=1)
        work.may_end.clear()
        first = asyncio.ensure_future(found.handle(asked("ann")))
        await rest()
        second, third = (asyncio.ensure_future(found.handle(asked("ann"))) for _ in range(2))
        await rest()
        second.cancel()
        await rest()
        assert seen(found, "current_inqueue_requests") == 1
        long = asyncio.ensure_future(found.handle(asked("ann", "/api/v1/namespaces/default/pods/a/log")))
        await rest()
        assert len(work.began) == 2
        work.may_end.set()
        await asyncio.gather(first, third, long)

    run(ask())


def test_every_answer_says_which_request_it_is_of_and_how_it_was_let_in(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("admin,admin,1,system:masters\nann,ann,2,\n")
    with serve(
        f"--token-auth-file={tokens}", "--max-requests-inflight=1", "--max-mutating-requests-inflight=1"
    ) as running:
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
        assert wire.post(f"{FLOWS}/prioritylevelconfigurations", level("one", 1)).status == 201
        made = schema("one", "one", {**EVERYTHING, "subjects": [user("ann")]}, precedence=5)
        assert wire.post(f"{FLOWS}/flowschemas", made).status == 201
        wait_until(lambda: uids("ann") == both("one", "one"), "the new schema counts")
        assert 'apiserver_flowcontrol_nominal_limit_seats{priority_level="one"} 1' in wire.get("/metrics").text
        with running.wire("ann").watch(f"{MAPS}?watch=true") as watch:
            assert watch.headers["x-kubernetes-pf-flowschema-uid"] == uid("flowschemas", "one")


def test_without_priority_and_fairness_answers_say_nothing_of_it() -> None:
    with serve("--enable-priority-and-fairness=false") as running:
        headers = running.wire().get(MAPS).headers
        assert parsedate_to_datetime(headers["date"]).tzinfo is not None
        assert "x-kubernetes-pf-flowschema-uid" not in headers
        assert "audit-id" in headers
