"""Coordinated leader election: the leases that the server writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from apiserver.api.objects import Json
from apiserver.controlplane.lease_candidates import Elections
from tests.support.patience import wait_until
from tests.support.server import HeldTime, Running, serve

pytestmark = pytest.mark.integration

CANDIDATES = "/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
FLAGS = ("--feature-gates=CoordinatedLeaderElection=true", "--runtime-config=coordination.k8s.io/v1beta1=true")
OLDEST = "OldestEmulationVersion"


class Contest:
    """A server with a held clock, and its candidates."""

    def __init__(self, running: Running, time: HeldTime) -> None:
        self.time, self.wire, self._running = time, running.wire(), running
        self._elections = Elections(running.server.registry)

    def now(self, seconds: float = 0) -> str:
        moment = self.time.now() + timedelta(seconds=seconds)
        return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"

    def stand(self, name: str, emulated: str, binary: str, strategy: str = OLDEST, renewed: float = 0) -> None:
        """Create a candidate that renewed so many seconds from now."""
        spec = {"leaseName": "led", "strategy": strategy, "binaryVersion": binary, "renewTime": self.now(renewed)}
        spec |= {"emulationVersion": emulated} if emulated else {}
        self.wire.create(CANDIDATES, {"metadata": {"name": name}, "spec": spec})

    def renew(self, *names: str) -> None:
        for name in names:
            found = self.wire.get(f"{CANDIDATES}/{name}").json
            found["spec"]["renewTime"] = self.now()
            assert self.wire.put(f"{CANDIDATES}/{name}", found).status == 200

    def is_pinged(self, name: str) -> bool:
        """Return whether the server pings a candidate now."""
        return bool(self.wire.get(f"{CANDIDATES}/{name}").json["spec"].get("pingTime") == self.now())

    def lease(self) -> Json | None:
        """Run one step of the elections; return the spec of the lease."""
        self._running.call(self._elections.step)
        found = self.wire.get(f"{LEASES}/led")
        return dict(found.json["spec"]) if found.status == 200 else None


@contextmanager
def contest(*flags: str) -> Iterator[Contest]:
    time = HeldTime()
    time.advance((1_830_000 - time.now().microsecond) / 1e6)  # moments are more than whole seconds
    with serve(*(flags or FLAGS), time=time) as running:
        yield Contest(running, time)


def test_a_candidate_that_answers_leads() -> None:
    with contest() as held:
        held.stand("one", "1.35.0", "1.36.0", renewed=-10)
        assert (held.lease(), held.is_pinged("one")) == (None, True)
        held.renew("one")
        made = {"strategy": OLDEST, "holderIdentity": "one", "leaseDurationSeconds": 5, "renewTime": held.now()}
        assert held.lease() == made


def test_a_better_candidate_is_named_to_the_holder_and_takes_the_expired_lease() -> None:
    with contest() as held:
        held.stand("new", "1.36.0", "1.36.0")
        assert (held.lease() or {})["holderIdentity"] == "new"
        for name, emulated, binary in (
            ("old", "1.35.0", "1.36.0"),
            ("older", "1.35.0", "1.35.1"),
            ("no", "1.36.0", "1.36.0"),
        ):
            held.stand(name, emulated, binary)
        lease = held.lease() or {}
        assert (lease["holderIdentity"], lease["preferredHolder"]) == ("new", "older")
        held.time.advance(5.5)
        assert held.lease() == lease
        assert held.is_pinged("older")
        held.renew("new", "old", "older", "no")
        assert held.lease() == {
            "strategy": OLDEST, "holderIdentity": "older", "leaseDurationSeconds": 5, "renewTime": held.now(),
        }  # fmt: skip


def test_an_election_waits_five_seconds_for_silent_candidates() -> None:
    with contest() as held:
        held.stand("silent", "1.34.0", "1.36.0", renewed=-10)
        held.stand("there", "1.35.0", "1.36.0", renewed=-10)
        assert held.lease() is None
        held.time.advance(4.9)
        held.renew("there")
        assert held.lease() is None
        held.time.advance(0.2)
        assert (held.lease() or {})["holderIdentity"] == "there"
        assert not held.is_pinged("silent"), "once is enough"


@pytest.mark.parametrize(("second", "says"), [("1.36.0", None), ("1.36.1", {"strategy": "example.com/mine"})])
def test_the_newest_binary_sets_the_strategy_and_third_parties_may_elect(second: str, says: Json | None) -> None:
    with contest() as held:
        held.stand("b", "", second, "example.com/mine", renewed=-10)
        held.stand("a", "1.35.0", "1.36.0", renewed=-10)
        assert held.lease() is None
        held.renew("a", "b")
        found = held.lease()
        assert found if says else found is None
        assert says is None or found == {**says, "leaseDurationSeconds": 5, "renewTime": held.now()}


def test_candidates_are_none_half_an_hour_after_they_renewed_last() -> None:
    with contest() as held:
        held.stand("gone", "1.36.0", "1.36.0", renewed=-10)
        held.time.advance(1801)
        assert held.lease() is None
        assert held.wire.get(f"{CANDIDATES}/gone").status == 404


def test_elections_run_only_with_the_gate() -> None:
    with contest() as held:
        held.stand("one", "1.36.0", "1.36.0")
        wait_until(lambda: held.wire.get(f"{LEASES}/led").status == 200, "a candidate is elected")
    with contest(FLAGS[1]) as held:
        held.stand("one", "1.36.0", "1.36.0")
        assert held.wire.get(f"{LEASES}/led").status == 404
