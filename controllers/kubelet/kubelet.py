"""The kubelet of one node: its pods from bind to Running to their end.

What containers do is the business of `containers` and `lifecycle`. Claims are prepared before they start, and released
after they ended, before the pod is reported as ended and goes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from apiserver.api.values.durations import go_seconds
from apiserver.runtime import clock
from controllers.kubelet.dra.manager import DraError, DraManager
from controllers.kubelet.emulation.addresses import PodAddresses
from controllers.kubelet.emulation.annotations import missing_images
from controllers.kubelet.pods import lifecycle
from controllers.kubelet.pods import status as podstatus
from controllers.kubelet.pods.admission import Refusal, Room
from controllers.kubelet.pods.certificates import PodCertificates, sources
from controllers.kubelet.pods.containers import EMULATED, Containers
from controllers.runtime.client import Client, is_reason
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.kinds import NODES, PODS, Json
from controllers.runtime.times import go_time, parse_time
from controllers.runtime.workqueue import Resync

log = logging.getLogger(__name__)
#: A pod and its container statuses → these with the health of their devices.
WithHealth = Callable[[Json, Sequence[Json]], list[Json]]
TERMINAL = frozenset({"Succeeded", "Failed"})
#: What of a pod's metadata a report changes.
_OURS: Json = {"resourceVersion": "", "managedFields": None}
#: Seconds that a timer may fire before its time.
_EARLY = 0.01


@dataclass(frozen=True, slots=True)
class Timings:
    """How long a kubelet waits. `resync`: before it looks again at a pod that cannot start; `backoff`: after an error
    when a pod ends; both up to half as long again.
    """

    resync: timedelta = timedelta(seconds=60)
    backoff: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Host:
    """What the kubelets of one process share. `wrote` takes a pod as the server answered to a report: the next step
    begins there, also when the informer still shows an earlier one.
    """

    client: Client
    addresses: PodAddresses
    timings: Timings = Timings()
    jitter: Callable[[], float] = random.random
    wrote: Callable[[Json], Json] = lambda pod: pod
    comparing: bool = False
    """Whether tolerations compare numbers."""


@dataclass(frozen=True, slots=True)
class _Settled:
    """A report after which there is nothing to do for a pod until it or its node is another one, or until a time of the
    loop: the event of the report itself comes back, and most looks would be at it.
    """

    version: str
    node: Json | None = None
    due: float | None = None

    def until(self, node: Json, again: timedelta | None) -> _Settled:
        due = None if again is None else asyncio.get_running_loop().time() + again.total_seconds()
        return _Settled(self.version, node, due)

    def holds(self, pod: Json, node: Json) -> bool:
        if self.version != pod["metadata"].get("resourceVersion") or self.node is not node:
            return False
        return self.due is None or asyncio.get_running_loop().time() < self.due - _EARLY


class Kubelet:
    """Everything that one node does for its pods."""

    def __init__(
        self,
        host: Host,
        claims: DraManager,
        recorder: CoreEventRecorder,
        with_health: WithHealth | None = None,
        containers: Containers = EMULATED,
        pods: Callable[[], Iterable[Json]] = tuple,
        certificates: PodCertificates | None = None,
    ) -> None:
        """`with_health` adds the health of devices to container statuses; None where nobody reports it. `pods` gives
        those that name the node. `certificates`: None where pods have none.
        """
        self._room = Room(pods, host.comparing)
        self._host, self._recorder, self._with_health = host, recorder, with_health
        self.claims, self._containers, self._certificates = claims, containers, certificates
        #: Pods (uids) whose containers were told to end.
        self._told: set[str] = set()
        #: By uid: what was reported last, if nothing else has changed, and nothing will by itself but at a time.
        self._settled: dict[str, _Settled] = {}
        #: Those for which something else changed since the step began that is under way.
        self._unsettled: set[str] = set()

    async def sync(self, pod: Json, node: Json) -> timedelta | None:
        """One step for a pod; when to come again, should no event come first."""
        uid = pod["metadata"]["uid"]
        settled = self._settled.pop(uid, None)
        if settled is not None and settled.holds(pod, node):
            self._settled[uid] = settled
            return None
        self._unsettled.discard(uid)
        again = await self._sync(pod, node)
        reported = self._settled.pop(uid, None)
        if reported is not None and uid not in self._unsettled:
            self._settled[uid] = reported.until(node, again)
        return again

    def look_again(self, pod: Json) -> None:
        """Something beside the pod and its node has changed."""
        self._settled.pop(pod["metadata"]["uid"], None)
        self._unsettled.add(pod["metadata"]["uid"])

    async def _sync(self, pod: Json, node: Json) -> timedelta | None:
        phase = pod.get("status", {}).get("phase", "Pending")
        if pod["metadata"].get("deletionTimestamp"):
            return await self._terminate(pod, phase)
        if phase in TERMINAL:
            self._host.addresses.forget(pod)
            self._room.leave(pod)
            return None
        new = phase == "Pending" and not pod.get("status", {}).get("podIP")
        if new and (refusal := await self._refusal(pod, node)):
            self._recorder.record(pod, "Warning", *refusal)
            await self._report(pod, podstatus.rejected(pod, *refusal))
            return None
        left = _time_left(pod)
        if left is not None and left <= timedelta():
            self._recorder.record(pod, "Normal", "DeadlineExceeded", podstatus.DEADLINE_EXCEEDED)
            self._containers.kill(pod, [status["name"] for status in _running(pod)])
            return await self._end(pod, podstatus.overdue(pod, self._now()), phase)
        if new:
            return _earliest(await self._start(pod, node), left)
        renewal = await self._certificates.step(pod, node) if self._certificates is not None else None
        return _earliest(await self._advance(pod, node, {}), left, renewal)

    def forget(self, pod: Json) -> None:
        """The pod is gone from the API: its containers are killed."""
        self._host.addresses.forget(pod)
        self._room.leave(pod)
        self._containers.forget(pod)
        if self._certificates is not None:
            self._certificates.forget(pod)
        self._told.discard(pod["metadata"]["uid"])
        self._settled.pop(pod["metadata"]["uid"], None)
        self._unsettled.discard(pod["metadata"]["uid"])

    async def release(self, pod: Json) -> timedelta | None:
        """The claims of a pod that is gone from the API."""
        self.forget(pod)
        return None if await self._unprepare(pod) else self._later(self._host.timings.backoff)

    async def _refusal(self, pod: Json, node: Json) -> Refusal | None:
        """Why the node does not take the pod, also as the node is now."""
        refusal = self._room.take(pod, node)
        if refusal is None:
            return None
        try:
            node = await self._host.client.get(NODES, node["metadata"]["name"])
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
        return self._room.take(pod, node)

    async def _start(self, pod: Json, node: Json) -> timedelta | None:
        more: Json = {}
        if not pod.get("status", {}).get("startTime"):
            if self._waits(pod):
                pod = await self._report(pod, podstatus.starting(pod, self._now(), node_address(node)))
            else:
                more = podstatus.admitted(self._now(), node_address(node))
        renewal = None
        if self._certificates is not None:
            renewal = await self._certificates.step(pod, node)
            if missing := self._certificates.missing(pod):
                for volume, why in missing.items():
                    text = f'MountVolume.SetUp failed for volume "{volume}" : {why}'
                    self._recorder.record(pod, "Warning", "FailedMount", text)
                return _earliest(renewal, self._later(self._host.timings.resync))
        try:
            await self.claims.prepare(pod)
        except DraError as error:
            message = f"Failed to prepare dynamic resources: {error}"
            self._recorder.record(pod, "Warning", "FailedPrepareDynamicResources", message)
            return self._later(self._host.timings.resync)
        address = node_address(node) if pod["spec"].get("hostNetwork") else self._host.addresses.assign(pod)
        again = await self._advance(pod, node, {**more, "podIP": address, "podIPs": [{"ip": address}]})
        return _earliest(again, renewal)

    def _waits(self, pod: Json) -> bool:
        """Whether anything lies between the start of a pod and that of its containers: certificates that are issued,
        drivers that prepare its claims, or processes that begin. What would be overwritten at once is not reported.
        """
        if self._certificates is not None and any(sources(pod)):
            return True
        shared = pod.get("status", {}).get("extendedResourceClaimStatus")
        return bool(pod["spec"].get("resourceClaims") or shared) or self._containers is not EMULATED

    async def _advance(self, pod: Json, node: Json, more: Json) -> timedelta | None:
        """What is due of the pod's containers; `more` belongs to the status as well."""
        await self._containers.prepare(pod)
        step = lifecycle.step(pod, clock.now(), self._containers, missing_images(node))
        for kind, reason, message in step.events:
            self._recorder.record(pod, kind, reason, message)
        if step.over:
            return await self._end(pod, {**step.status, **more}, "Running")
        status = self._shown(pod, step.status)
        present = pod.get("status", {})
        if (
            more
            or any(status[part] != present.get(part) for part in status if part != "conditions")
            or _turned(present, status)
        ):
            await self._report(pod, {**status, **more}, settles=True)
        return step.again

    def _shown(self, pod: Json, status: Json) -> Json:
        """The status with the health of devices."""
        if self._with_health is None:
            return status
        return {**status, "containerStatuses": self._with_health(pod, status["containerStatuses"])}

    async def _terminate(self, pod: Json, phase: str) -> timedelta | None:
        ends, again = self._stop(pod)
        if again is not None:
            return again
        if again := await self._end(pod, podstatus.killed(pod, self._now(), ends), phase):
            return again
        meta = pod["metadata"]
        try:
            await self._host.client.delete(
                PODS, meta["name"], meta["namespace"], uid=meta["uid"], grace_period=0, wanted=False
            )
        except Exception as error:
            if not is_reason(error, "NotFound", "Conflict"):
                raise
        return None

    def _stop(self, pod: Json) -> tuple[dict[str, tuple[str, int]], timedelta | None]:
        """Tells the containers that run to end: when (as the API writes it) and with what code each did, or in how long
        to look again. They have until the deletion timestamp.
        """
        meta, now = pod["metadata"], clock.now()
        deadline = parse_time(meta["deletionTimestamp"])
        asked = deadline - go_seconds(meta.get("deletionGracePeriodSeconds") or 0)
        ends: dict[str, tuple[str, int]] = {}
        waits: list[timedelta] = []
        for status in _running(pod):
            if meta["uid"] not in self._told:
                self._recorder.record(pod, "Normal", "Killing", f"Stopping container {status['name']}")
            end = self._containers.stopped(pod, status, asked, deadline)
            if end is None:
                waits.append(max(deadline - now, timedelta(seconds=1)))
            elif end.at > now:
                waits.append(end.at - now)
            else:
                ends[status["name"]] = (go_time(end.at), end.code)
        self._told.add(meta["uid"])
        return ends, min(waits, default=None)

    async def _end(self, pod: Json, ended: Json, before: str) -> timedelta | None:
        """The containers have ended: releases the claims and says so, in this order. While a claim is held the pod is
        reported in the phase `before`.
        """
        phase = pod.get("status", {}).get("phase", "Pending")
        released = await self._unprepare(pod)
        if phase in TERMINAL:
            return None if released else self._later(self._host.timings.backoff)
        if released:
            await self._report(pod, ended)
            return None
        if _running(pod) or phase != before:
            await self._report(pod, {**ended, "phase": before})
        return self._later(self._host.timings.backoff)

    async def _unprepare(self, pod: Json) -> bool:
        """Whether no claim is held for the pod any more. A pod that never got as far as that needs no driver."""
        if not self.claims.might_need_unprepare(pod["metadata"]["uid"]):
            return True
        try:
            await self.claims.unprepare(pod)
        except DraError as error:
            log.warning("pod %s/%s cannot end yet: %s", pod["metadata"]["namespace"], pod["metadata"]["name"], error)
            return False
        return True

    async def _report(self, pod: Json, status: Json, *, settles: bool = False) -> Json:
        """`settles`: the status is all that follows from the pod and its node as they are."""
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        client = self._host.client
        answer = self._host.wrote(await client.patch(PODS, meta["name"], body, meta["namespace"], subresource="status"))
        version = answer["metadata"].get("resourceVersion")
        if settles and version and self._containers is EMULATED and _alike(pod, answer, status):
            self._settled[meta["uid"]] = _Settled(version)
        return answer

    def _later(self, least: timedelta) -> Resync:
        """Up to half as long again, so that not all pods come at once."""
        return Resync(seconds=least.total_seconds() * (1 + self._host.jitter() / 2))

    def _now(self) -> str:
        return go_time(clock.now())


def _alike(before: Json, after: Json, status: Json) -> bool:
    """Whether nothing of a pod has changed but the status that was reported."""
    if before["spec"] != after["spec"] or before["metadata"] | _OURS != after["metadata"] | _OURS:
        return False
    present, now = before.get("status", {}), after["status"]
    return all(present.get(name) == now.get(name) for name in present.keys() | now.keys() if name not in status)


def _earliest(*delays: timedelta | None) -> timedelta | None:
    return min((delay for delay in delays if delay is not None), default=None)


def _turned(present: Json, status: Json) -> bool:
    """Whether a condition says otherwise than the pod does."""
    known = {c["type"]: (c["status"], c.get("message")) for c in present.get("conditions") or ()}
    return any(known.get(c["type"]) != (c["status"], c.get("message")) for c in status["conditions"])


def _time_left(pod: Json) -> timedelta | None:
    """Until the pod's deadline, which counts from its beginning; None where it has none."""
    seconds, began = pod["spec"].get("activeDeadlineSeconds"), pod.get("status", {}).get("startTime")
    if seconds is None:
        return None
    if not began:
        return go_seconds(seconds)
    return parse_time(began) + go_seconds(seconds) - clock.now()


def node_address(node: Json) -> str:
    """The address that a node reports for itself."""
    addresses = node.get("status", {}).get("addresses") or ()
    return next((a["address"] for a in addresses if a["type"] == "InternalIP"), "127.0.0.1")


def _running(pod: Json) -> list[Json]:
    """The statuses of containers that run."""
    status = pod.get("status", {})
    fields = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    statuses = [each for field in fields for each in status.get(field) or ()]
    return [each for each in statuses if "running" in each.get("state", {})]
