"""The server survives 20 000 mutated requests, and the checks notice a server that does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from apiserver.api.features.gates import RELEASES
from apiserver.resources import CATALOG
from tests.support.server import serve
from tools.fuzz import rules
from tools.fuzz.connection import Connection
from tools.fuzz.requests import Requests
from tools.fuzz.runner import Run, server
from tools.fuzz.whole import check_whole
from tools.fuzz.wire import Conversations

pytestmark = pytest.mark.integration

REQUESTS = 20_000
#: Seconds. On a machine with other work to do the same work takes more of a processor's time.
STALL = 3 * rules.STALL
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads a process's times from /proc")


@linux
def test_twenty_thousand_mutated_requests_break_no_rule(tmp_path: Path) -> None:
    with server(tmp_path / "server") as child:
        report = Run(child, seed=1, stall=STALL).run_requests(range(REQUESTS))
        assert [(finding.rule, finding.detail, finding.case) for finding in report.findings] == []
        assert report.requests == REQUESTS
        assert {200, 201, 404, 409, 422} <= report.statuses.keys(), "they reach the rules of the kinds"
        assert check_whole(child) == []


def test_a_request_is_made_again_by_its_seed_and_number() -> None:
    def sent(seed: int) -> list[bytes]:
        requests, conversations = Requests(seed), Conversations(seed)
        return [requests.case(n).data + b"".join(conversations.case(n).pieces) for n in (5, 3, 4)]

    assert sent(1) == sent(1)
    assert sent(1) != sent(2)
    assert Requests(1).case(3) == [Requests(1).case(n) for n in range(4)][3]


def test_every_resource_and_version_is_asked_for() -> None:
    requests = Requests(1)
    targets = " ".join(requests.case(number).target for number in range(3000))
    for resource in CATALOG:
        for version in resource.versions:
            root = f"/apis/{resource.group}/{version.name}" if resource.group else f"/api/{version.name}"
            assert root in targets
            assert f"/{resource.plural}" in targets


def test_the_seeds_are_objects_that_a_server_takes() -> None:
    """With invalid seeds the fuzzer would reach only the first checks."""
    gates = "--feature-gates=AllAlpha=true,AllBeta=true"
    # versions that this release does not serve any more, and a kind whose objects are called by what they hold
    passed_over = tuple(
        f"/apis/{resource.group}/{version.name}/{resource.plural}"
        for resource in CATALOG
        for version in resource.versions
        if (version.removed is not None and version.removed <= RELEASES[-1]) or resource.plural == "apiservices"
    )
    made = 0
    with serve("--runtime-config=api/all=true", gates) as running:
        connection = Connection(int(running.url.rpartition(":")[2]))
        for case in Requests(1).seeds():
            answer = connection.ask(case.data)
            assert answer is not None
            assert answer.body is not None
            # 409: another version of the same object; 422: a review has no name
            taken = answer.status in (201, 409) or "accessreviews" in case.target or case.target.startswith(passed_over)
            assert taken, f"{case.target}: {answer.body.decode()}"
            made += answer.status == 201
        connection.close()
    assert made > 40


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (rules.Answer(200, "application/json", b"{}", 0), ""),
        (rules.Answer(200, "application/json", b"{", 0), "no JSON"),
        (rules.Answer(200, "application/json", b'{"kind":"Status","status":"Failure","code":404}', 0), "came with 200"),
        (rules.Answer(500, "text/plain", b"oops", 0), "500: oops"),
        (rules.Answer(500, "application/json", b'{"message":"unknown patch type: x"}', 0), ""),
        (rules.Answer(503, "application/json", b'{"message":"unknown patch type: x"}', 0), "503"),
        (rules.Answer(500, "", None, 0), "500"),
    ],
)
def test_an_answer_that_breaks_a_rule_is_noticed(answer: rules.Answer, wrong: str) -> None:
    found = rules.find_violation(answer)
    assert wrong in found
    assert bool(wrong) is bool(found)


def test_what_is_no_answer_is_noticed() -> None:
    assert rules.read(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab").body == b"ab"  # type: ignore[union-attr]
    assert rules.read(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab") is None
    with pytest.raises(ValueError, match="this is no answer"):
        rules.read(b"ab\r\n\r\n")
