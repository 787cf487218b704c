"""One of several leads: the Lease's record, hand-over, loss; on a real server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.api.objects import Json
from apiserver.app import Server
from apiserver.authentication.authenticator import ADMIN
from apiserver.components.in_process import InProcess
from apiserver.options.settings import read
from apiserver.runtime.clock import now
from controllers.runtime.client import Client
from controllers.runtime.election import Election, ElectionError, LeaderElector, LeaseLostError
from controllers.runtime.kinds import LEASES
from controllers.runtime.times import micro_time
from controllers.runtime.transport import TransportError
from tests.support.objects import make_manifest
from tests.support.virtual import passes

pytestmark = pytest.mark.integration

SECOND = timedelta(seconds=1)


class Line:
    """The way to the server. Its state may be "cut" (errors), "hang" (no answer) or "deaf" (lost answers)."""

    def __init__(self, inner: InProcess) -> None:
        self._inner, self.state = inner, ""

    async def request(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Any:
        if self.state == "cut":
            raise TransportError("cut")
        if self.state != "hang":
            answer = await self._inner.request(method, path, query, headers, body)
            if self.state != "deaf":
                return answer
        return await asyncio.get_running_loop().create_future()

    async def stream(self, *_: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None: ...


class Candidate:
    """An elector at work, and what it believes."""

    def __init__(self, town: Town, name: str) -> None:
        self.line = Line(town.transport)
        election = Election(name="lease", namespace="kube-system", identity=name)
        self.elector = LeaderElector(Client(self.line), election, spread=lambda: 0.5)
        self.leads, self.lost = False, ""
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        await self.elector.acquire()
        self.leads = True
        try:
            await self.elector.hold()
        except LeaseLostError as error:
            self.lost = str(error)
        finally:
            self.leads = False

    async def die(self) -> None:
        """Stop without releasing the lease."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def stop(self) -> None:
        await self.die()
        await self.elector.release()


class Town:
    """A server and candidates."""

    def __init__(self, server: Server) -> None:
        self.transport = InProcess(server.chain, ADMIN)
        self.client = Client(self.transport)
        self.candidates: list[Candidate] = []

    def candidate(self, name: str) -> Candidate:
        self.candidates.append(Candidate(self, name))
        return self.candidates[-1]

    async def passes(self, seconds: float = 0) -> None:
        await passes(seconds)

    async def spec(self) -> Json:
        return dict((await self.client.get(LEASES, "lease", "kube-system"))["spec"])


@asynccontextmanager
async def a_town() -> AsyncIterator[Town]:
    server = await Server.open(read(["--storage", "memory"]))
    town = Town(server)
    try:
        yield town
    finally:
        for candidate in town.candidates:
            await candidate.die()
        await server.close()


async def test_the_first_leads_and_writes_client_gos_record() -> None:
    async with a_town() as town:
        began = micro_time(now())
        first = town.candidate("first")
        await town.passes(3)
        assert first.leads
        renewed = micro_time(now() - SECOND)
        expected = {
            "holderIdentity": "first",
            "leaseDurationSeconds": 15,
            "acquireTime": began,
            "renewTime": renewed,
            "leaseTransitions": 0,
        }
        assert await town.spec() == expected


async def test_a_second_one_waits_as_long_as_the_first_renews() -> None:
    async with a_town() as town:
        first = town.candidate("first")
        await town.passes()
        second = town.candidate("second")
        await town.passes(600)
        assert (first.leads, second.leads) == (True, False)
        assert second.elector.holder == "first"


async def test_a_leader_that_vanishes_is_followed_when_its_lease_has_run_out_and_not_before() -> None:
    async with a_town() as town:
        first = town.candidate("first")
        await town.passes()
        await first.die()
        second = town.candidate("second")
        await town.passes(14.9)
        assert not second.leads
        await town.passes(0.1)
        assert second.leads
        spec = await town.spec()
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)


async def test_a_leader_that_stops_is_followed_at_the_next_retry() -> None:
    async with a_town() as town:
        first = town.candidate("first")
        await town.passes()
        second = town.candidate("second")
        await town.passes(5)
        await first.stop()
        assert (await town.spec())["holderIdentity"] == ""
        await town.passes(2 * (1 + 1.2 * 0.5))
        assert second.leads


async def test_one_that_stops_while_standing_by_leaves_the_lease_alone() -> None:
    async with a_town() as town:
        town.candidate("first")
        await town.passes()
        second = town.candidate("second")
        await town.passes()
        await second.stop()
        assert (await town.spec())["holderIdentity"] == "first"


@pytest.mark.parametrize("state", ["cut", "hang", "deaf"])
async def test_a_leader_that_cannot_renew_ends_before_another_may_lead(state: str) -> None:
    async with a_town() as town:
        first = town.candidate("first")
        await town.passes(4)
        first.line.state = state
        second = town.candidate("second")
        ended = None
        for tenth in range(400):
            await town.passes(0.1)
            if not first.leads and ended is None:
                ended = tenth
            if second.leads:
                break
        assert ended is not None
        assert ended <= 120
        assert second.leads
        assert first.lost == "the lease kube-system/lease could not be renewed within 10s"


async def test_a_short_interruption_does_not_end_the_leader() -> None:
    async with a_town() as town:
        first = town.candidate("first")
        await town.passes(4)
        for state in ("cut", "hang", "deaf"):
            first.line.state = state
            await town.passes(4)
            first.line.state = ""
            await town.passes(6)
            assert first.leads, state


async def test_a_leader_whose_lease_was_taken_ends_at_its_next_renewal() -> None:
    async with a_town() as town:
        first = town.candidate("first")
        await town.passes()
        lease = await town.client.get(LEASES, "lease", "kube-system")
        await town.client.update(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "usurper"}})
        await town.passes(2)
        assert first.lost == "the lease kube-system/lease was taken by usurper"


async def test_a_deleted_or_relabelled_lease_is_no_reason_to_end() -> None:
    async with a_town() as town:
        first = town.candidate("first")
        await town.passes()
        await town.client.delete(LEASES, "lease", "kube-system")
        await town.passes(2)
        await town.client.patch(LEASES, "lease", {"metadata": {"labels": {"a": "b"}}}, "kube-system", type="merge")
        await town.passes(20)
        assert first.leads
        assert (await town.spec())["leaseTransitions"] == 0


async def test_an_empty_lease_is_acquired() -> None:
    async with a_town() as town:
        body = make_manifest(LEASES, "lease", namespace="kube-system")
        await town.client.create(LEASES, body)
        first = town.candidate("first")
        await town.passes()
        assert first.leads


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["", "", "cut", "hang", "deaf"]), st.floats(0.1, 20)), max_size=25
    )
)
@settings(max_examples=30, deadline=None)
async def test_whatever_the_network_does_no_two_lead_at_a_time_and_in_the_end_one_does(
    steps: list[tuple[int, str, float]],
) -> None:
    async with a_town() as town:
        names = iter(range(1000))
        three = [town.candidate(str(next(names))) for _ in range(3)]

        async def passes(seconds: float) -> None:
            while seconds > 0:
                await town.passes(min(0.5, seconds))
                seconds -= 0.5
                assert sum(candidate.leads for candidate in town.candidates) <= 1
                for place, candidate in enumerate(three):
                    if candidate.lost:
                        state = candidate.line.state
                        three[place] = town.candidate(str(next(names)))  # it is restarted
                        three[place].line.state = state

        for place, state, seconds in steps:
            three[place].line.state = state
            await passes(seconds)
        for candidate in three:
            candidate.line.state = ""
        await passes(32)
        assert sum(candidate.leads for candidate in three) == 1


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"lease_duration": 0.5}, "lease-duration: must be at least 1s"),
        ({"lease_duration": 10}, "renew-deadline: must be less than the lease duration"),
        ({"retry_period": 9}, "renew-deadline: must be more than 1.2 times the retry period"),
        ({"retry_period": 0}, "retry-period: must be more than 0s"),
    ],
)
def test_times_that_cannot_work_are_refused(times: dict[str, float], said: str) -> None:
    with pytest.raises(ElectionError, match=said):
        Election(name="a", namespace="b", identity="c", **{name: SECOND * value for name, value in times.items()})
