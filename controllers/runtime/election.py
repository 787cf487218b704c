"""Leader election by a Lease: of several candidate processes, one leads.

    elector = LeaderElector(client, Election(name="kubedra-controllers", namespace="kube-system", identity="here_1"))
    await elector.acquire()        returns once this process leads
    await elector.hold()           renews; raises LeaseLostError after the renew deadline without a renewal
    await elector.release()        after all work has ended: the next leader need not wait for the lease to expire

The record and its rules are client-go's (tools/leaderelection), so that a Lease may be shared with its clients. A lease
is the holder's for `leaseDurationSeconds` after the record was last *observed* to change. Clocks of different machines
are never compared. Timers measure time, and do not jump when the system's time is set. A request is cancelled after
half the renew deadline, or after the difference between lease duration and renew deadline if that is shorter.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.runtime.client import Client, is_reason
from controllers.runtime.kinds import LEASES
from controllers.runtime.times import micro_time
from controllers.runtime.transport import TransportError

__all__ = ["Election", "ElectionError", "LeaderElector", "LeaseLostError"]

log = logging.getLogger(__name__)
#: Candidates wait for the retry period plus up to this many times as much.
JITTER = 1.2
_FAILURES = (StatusError, TransportError, TimeoutError)


class ElectionError(ValueError):
    """Invalid settings, in one line."""


class LeaseLostError(Exception):
    """This process must stop leading: another one may lead by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The lease and its times. `identity` must differ between processes."""

    name: str
    namespace: str
    identity: str
    lease_duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)

    def __post_init__(self) -> None:
        if self.lease_duration < timedelta(seconds=1):
            raise ElectionError("--leader-elect-lease-duration: must be at least 1s")
        if self.retry_period <= timedelta():
            raise ElectionError("--leader-elect-retry-period: must be more than 0s")
        if self.lease_duration <= self.renew_deadline:
            raise ElectionError("--leader-elect-renew-deadline: must be less than the lease duration")
        if self.renew_deadline <= self.retry_period * JITTER:
            raise ElectionError(f"--leader-elect-renew-deadline: must be more than {JITTER} times the retry period")

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class LeaderElector:
    """One candidate for one lease. `spread` returns a random number between 0 and 1."""

    def __init__(
        self,
        client: Client,
        election: Election,
        *,
        observed: Callable[[str], None] = lambda _: None,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._client, self._election = client.with_user_agent("leader-election"), election
        self._notify, self._spread = observed, spread
        # The last record sent then expires before the deadline of the next renewal.
        self._patience = min(election.renew_deadline / 2, election.lease_duration - election.renew_deadline)
        self._lease: Json | None = None
        self._reported_holder: str | None = None
        self._expires: asyncio.TimerHandle | None = None
        self._pause: asyncio.Future[None] | None = None
        self._tried = False
        self.expired = True

    @property
    def holder(self) -> str:
        """Return the last observed holder of the lease; "" without one."""
        return str(self._lease["spec"].get("holderIdentity") or "") if self._lease else ""

    @property
    def leading(self) -> bool:
        return self.holder == self._election.identity and not self.expired

    async def acquire(self) -> None:
        """Return once this process leads. Failures are logged and retried."""
        while not await self._try():
            await self._wait(self._election.retry_period * (1 + JITTER * self._spread()))

    async def hold(self) -> None:
        """Renew the lease forever. Raise LeaseLostError."""
        deadline = self._election.renew_deadline
        pause = asyncio.ensure_future(self._rest())
        try:
            while True:
                await pause
                pause = asyncio.ensure_future(self._rest())
                try:
                    async with asyncio.timeout(deadline.total_seconds()):
                        await self._renew()
                except TimeoutError:
                    raise LeaseLostError(
                        f"the lease {self._election} could not be renewed within {deadline.total_seconds():g}s"
                    ) from None
        finally:
            pause.cancel()

    async def release(self) -> None:
        """Release the lease if this process holds it. Failures are only logged: the lease expires anyway."""
        if self._tried:
            try:
                async with asyncio.timeout(self._patience.total_seconds()):
                    await self._give_up()
            except _FAILURES as error:
                log.warning("the lease %s could not be released: %s", self._election, _text(error))
        self._lease, self.expired = None, True
        if self._expires is not None:
            self._expires.cancel()

    async def _give_up(self) -> None:
        lease = await self._client.get(LEASES, self._election.name, self._election.namespace)
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") == self._election.identity:
            now = micro_time(clock.now())
            free = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
            await self._client.update(LEASES, {**lease, "spec": free})

    async def _wait(self, delay: timedelta) -> None:
        """Wait for the delay or until another holder's lease has expired."""
        self._pause = asyncio.get_running_loop().create_future()
        timer = asyncio.get_running_loop().call_later(delay.total_seconds(), self._wake)
        try:
            await self._pause
        finally:
            timer.cancel()
            self._pause = None

    @clock.purpose(clock.Timer.UPKEEP)
    def _wake(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    async def _renew(self) -> None:
        while not await self._try():
            if self.holder != self._election.identity:
                raise LeaseLostError(
                    f"the lease {self._election} was taken by {self.holder}"
                    if self.holder
                    else f"the lease {self._election} was released"
                )
            await self._rest()

    @clock.purpose(clock.Timer.UPKEEP)
    def _expire(self) -> None:
        self.expired = True
        self._wake()

    async def _rest(self) -> None:
        with clock.timers(clock.Timer.UPKEEP):
            await asyncio.sleep(self._election.retry_period.total_seconds())

    async def _try(self) -> bool:
        """Try once to acquire or renew the lease; return whether this process holds it."""
        self._tried = True
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                return await self._attempt()
        except _FAILURES as error:
            log.log(
                logging.DEBUG if is_reason(error, "Conflict", "AlreadyExists") else logging.WARNING,
                "lease %s: %s",
                self._election,
                _text(error),
            )
            return False
        finally:
            self._report()

    async def _attempt(self) -> bool:
        election = self._election
        if self.leading and self._lease is not None:
            try:
                self._observe(
                    await self._client.update(LEASES, {**self._lease, "spec": self._spec(self._lease["spec"])}),
                    ours=True,
                )
            except StatusError as error:
                # Another client has changed the object (its labels, or the lease itself): read it and decide by that.
                log.debug("lease %s: %s", election, error)
            else:
                return True
        try:
            lease = await self._client.get(LEASES, election.name, election.namespace)
        except StatusError as error:
            if not is_reason(error, "NotFound"):
                raise
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": election.name, "namespace": election.namespace},
            }
            self._observe(await self._client.create(LEASES, {**body, "spec": self._spec(None)}), ours=True)
            return True
        self._observe(lease)
        if self.holder not in ("", election.identity) and not self.expired:
            return False
        self._observe(
            await self._client.update(LEASES, {**lease, "spec": self._spec(lease.get("spec") or {})}), ours=True
        )
        return True

    def _spec(self, before: Json | None) -> Json:
        """Build the record with this process as the holder. `before` is the previous record."""
        election, now = self._election, micro_time(clock.now())
        ours = before is not None and before.get("holderIdentity") == election.identity
        earlier = before or {}
        transitions = earlier.get("leaseTransitions") or 0
        return {
            **earlier,
            "holderIdentity": election.identity,
            "leaseDurationSeconds": int(election.lease_duration.total_seconds()),
            "acquireTime": earlier.get("acquireTime", now) if ours else now,
            "renewTime": now,
            "leaseTransitions": transitions if ours or before is None else transitions + 1,
        }

    def _observe(self, lease: Json, *, ours: bool = False) -> None:
        """Record the observed lease; its time restarts if it is new or just written by this process."""
        lease = {**lease, "spec": lease.get("spec") or {}}
        if not ours and self._lease is not None and self._lease["spec"] == lease["spec"]:
            self._lease = lease
            return
        self._lease, self.expired = lease, False
        if self._expires is not None:
            self._expires.cancel()
        lasting = lease["spec"].get("leaseDurationSeconds") or 0
        self._expires = asyncio.get_running_loop().call_later(lasting, self._expire)

    def _report(self) -> None:
        if self._lease is not None and self.holder != self._reported_holder:
            self._reported_holder = self.holder
            self._notify(self.holder)


def _text(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
