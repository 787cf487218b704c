"""The kubelet of one node: its pods from bind to Running to their end.

Containers are not run: they are said to run until the pod is deleted, or for as long as the annotation
`kubedra.dev/exit-after` says. Claims are prepared before they start, and released after they ended, before the pod is
reported as ended and goes.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from apiserver import clock
from controllers.node import podstatus
from controllers.node.addresses import PodAddresses
from controllers.node.annotations import exit_after, exit_code
from controllers.node.dra.manager import DraError, DraManager
from controllers.runtime.client import Client, is_reason
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.kinds import PODS, Json
from controllers.runtime.times import go_time, parse_time

log = logging.getLogger(__name__)
#: A pod and its container statuses → these with the health of their devices.
WithHealth = Callable[[Json, Sequence[Json]], list[Json]]
TERMINAL = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Timings:
    """How long a kubelet waits. `resync`: before it looks again at a pod that cannot start; `backoff`: after an error
    when a pod ends; both up to half as long again.
    """

    resync: timedelta = timedelta(seconds=60)
    backoff: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Host:
    """What the kubelets of one process share."""

    client: Client
    addresses: PodAddresses
    timings: Timings = Timings()
    jitter: Callable[[], float] = random.random


class Kubelet:
    """Everything that one node does for its pods."""

    def __init__(
        self, host: Host, claims: DraManager, recorder: CoreEventRecorder, with_health: WithHealth | None = None
    ) -> None:
        """`with_health` adds the health of devices to container statuses; None where nobody reports it."""
        self._host, self._recorder, self._with_health = host, recorder, with_health
        self.claims = claims

    async def sync(self, pod: Json, node: Json) -> timedelta | None:
        """One step for a pod; when to come again, should no event come first."""
        phase = pod.get("status", {}).get("phase", "Pending")
        if pod["metadata"].get("deletionTimestamp"):
            return await self._terminate(pod, phase)
        if phase in TERMINAL:
            self._host.addresses.forget(pod)
            return None
        if phase == "Pending":
            return await self._start(pod, node)
        return await self._keep_running(pod)

    async def release(self, pod: Json) -> timedelta | None:
        """The claims of a pod that is gone from the API."""
        self._host.addresses.forget(pod)
        return None if await self._unprepare(pod) else self._later(self._host.timings.backoff)

    async def _start(self, pod: Json, node: Json) -> timedelta | None:
        if not pod.get("status", {}).get("startTime"):
            pod = await self._report(pod, podstatus.starting(pod, self._now(), node_address(node)))
        try:
            await self.claims.prepare(pod)
        except DraError as error:
            message = f"Failed to prepare dynamic resources: {error}"
            self._recorder.record(pod, "Warning", "FailedPrepareDynamicResources", message)
            return self._later(self._host.timings.resync)
        for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
            self._events_of_start(pod, container)
        address = node_address(node) if pod["spec"].get("hostNetwork") else self._host.addresses.assign(pod)
        status = podstatus.running(pod, self._now(), address)
        if self._with_health is not None:
            status["containerStatuses"] = self._with_health(pod, status["containerStatuses"])
        pod = await self._report(pod, status)
        return exit_after(pod)

    def _events_of_start(self, pod: Json, container: Json) -> None:
        image = container.get("image", "")
        present = f'Container image "{image}" already present on machine and can be accessed by the pod'
        self._recorder.record(pod, "Normal", "Pulled", present)
        self._recorder.record(pod, "Normal", "Created", "Container created")
        self._recorder.record(pod, "Normal", "Started", "Container started")

    async def _keep_running(self, pod: Json) -> timedelta | None:
        """Ends a pod whose time has come; pods without `exit-after` run on."""
        if not _running(pod):
            return await self._end(pod, podstatus.exit_code_of(pod))
        await self._report_health(pod)
        after = exit_after(pod)
        if after is None:
            return None
        started = (status["state"]["running"]["startedAt"] for status in _running(pod))
        left = after - (clock.now() - parse_time(max(started)))
        return left if left > timedelta() else await self._end(pod, exit_code(pod))

    async def _report_health(self, pod: Json) -> None:
        present = pod["status"].get("containerStatuses") or ()
        if self._with_health is not None:
            statuses = self._with_health(pod, present)
            if statuses != list(present):
                await self._report(pod, {"containerStatuses": statuses})

    async def _terminate(self, pod: Json, phase: str) -> timedelta | None:
        for status in _running(pod):
            self._recorder.record(pod, "Normal", "Killing", f"Stopping container {status['name']}")
        if again := await self._end(pod, 0 if _running(pod) else podstatus.exit_code_of(pod)):
            return again
        meta = pod["metadata"]
        try:
            await self._host.client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"], grace_period=0)
        except Exception as error:
            if not is_reason(error, "NotFound", "Conflict"):
                raise
        return None

    async def _end(self, pod: Json, code: int) -> timedelta | None:
        """Stops the containers, releases the claims and says so, in this order: while a claim is held the pod is not
        reported as ended.
        """
        phase = pod.get("status", {}).get("phase", "Pending")
        released = await self._unprepare(pod)
        if phase in TERMINAL:
            return None if released else self._later(self._host.timings.backoff)
        ended = podstatus.ended(pod, self._now(), code)
        if released:
            await self._report(pod, ended)
            return None
        if _running(pod):
            await self._report(pod, {**ended, "phase": phase})
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

    async def _report(self, pod: Json, status: Json) -> Json:
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        return await self._host.client.patch(PODS, meta["name"], body, meta["namespace"], subresource="status")

    def _later(self, least: timedelta) -> timedelta:
        return least * (1 + self._host.jitter() / 2)

    def _now(self) -> str:
        return go_time(clock.now())


def node_address(node: Json) -> str:
    """The address that a node reports for itself."""
    addresses = node.get("status", {}).get("addresses") or ()
    return next((a["address"] for a in addresses if a["type"] == "InternalIP"), "127.0.0.1")


def _running(pod: Json) -> list[Json]:
    """The statuses of containers that run."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return [status for status in statuses if "running" in status.get("state", {})]
