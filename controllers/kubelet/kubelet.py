"""The kubelet of one node: its pods from binding to Running to their end.

The state of containers comes from `containers` and `lifecycle`. Claims are prepared before the containers start. They
are released after the containers have ended, before the pod is reported as ended.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from apiserver.api.objects import Json
from apiserver.api.values.durations import go_seconds
from apiserver.runtime import clock
from controllers.kubelet.dra.manager import DraError, DraManager
from controllers.kubelet.emulation.addresses import PodAddresses
from controllers.kubelet.emulation.annotations import missing_images
from controllers.kubelet.pods import lifecycle
from controllers.kubelet.pods import status as podstatus
from controllers.kubelet.pods.admission import NodeAdmission, Refusal
from controllers.kubelet.pods.certificates import PodCertificates, sources
from controllers.kubelet.pods.containers import EMULATED, Containers
from controllers.runtime.client import Client, is_reason
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.kinds import NODES, PODS
from controllers.runtime.times import go_time, parse_time
from controllers.runtime.workqueue import Resync

log = logging.getLogger(__name__)
#: Adds the health of devices to a pod's container statuses.
WithHealth = Callable[[Json, Sequence[Json]], list[Json]]
TERMINAL = frozenset({"Succeeded", "Failed"})
#: Metadata fields that a status report changes.
_OURS: Json = {"resourceVersion": "", "managedFields": None}
#: Seconds by which a timer may fire early.
_EARLY = 0.01


@dataclass(frozen=True, slots=True)
class Timings:
    """Delays of a kubelet, each extended at random by up to half.

    `resync` precedes the next attempt to start a pod. `backoff` follows an error while a pod ends.
    """

    resync: timedelta = timedelta(seconds=60)
    backoff: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Host:
    """The environment shared by all kubelets of one process.

    `wrote` receives each pod returned by a status report. The next sync starts from that version even if the informer
    still has an older one.
    """

    client: Client
    addresses: PodAddresses
    timings: Timings = Timings()
    jitter: Callable[[], float] = random.random
    wrote: Callable[[Json], Json] = lambda pod: pod
    comparing: bool = False
    """Enables numeric comparison in tolerations."""


@dataclass(frozen=True, slots=True)
class _FinalReport:
    """The resourceVersion of a report that needs no follow-up until the pod or node changes or `due` passes.

    It skips the sync caused by the report's own watch event. Most syncs would be of that kind.
    """

    version: str
    node: Json | None = None
    due: float | None = None

    def until(self, node: Json, requeue_after: timedelta | None) -> _FinalReport:
        due = None if requeue_after is None else asyncio.get_running_loop().time() + requeue_after.total_seconds()
        return _FinalReport(self.version, node, due)

    def is_current(self, pod: Json, node: Json) -> bool:
        if self.version != pod["metadata"].get("resourceVersion") or self.node is not node:
            return False
        return self.due is None or asyncio.get_running_loop().time() < self.due - _EARLY


class Kubelet:
    """The work of one node for its pods."""

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
        """Create a kubelet.

        `with_health` adds the health of devices to container statuses, `pods` returns the pods bound to the node.
        Without `certificates` pods have none.
        """
        self._admission = NodeAdmission(pods, host.comparing)
        self._host, self._recorder, self._with_health = host, recorder, with_health
        self.claims, self._containers, self._certificates = claims, containers, certificates
        #: Uids of pods whose containers received a stop signal.
        self._stopping: set[str] = set()
        #: The last report by pod uid, if it needs no follow-up.
        self._final_reports: dict[str, _FinalReport] = {}
        #: Uids of pods with a changed dependency since their running sync began.
        self._invalidated: set[str] = set()

    async def sync(self, pod: Json, node: Json) -> timedelta | None:
        """Advance one pod. Return the delay until the next sync if no event comes first."""
        uid = pod["metadata"]["uid"]
        final = self._final_reports.pop(uid, None)
        if final is not None and final.is_current(pod, node):
            self._final_reports[uid] = final
            return None
        self._invalidated.discard(uid)
        requeue_after = await self._sync(pod, node)
        reported = self._final_reports.pop(uid, None)
        if reported is not None and uid not in self._invalidated:
            self._final_reports[uid] = reported.until(node, requeue_after)
        return requeue_after

    def invalidate(self, pod: Json) -> None:
        """Discard the pod's final report because a dependency other than the pod or its node has changed."""
        self._final_reports.pop(pod["metadata"]["uid"], None)
        self._invalidated.add(pod["metadata"]["uid"])

    async def _sync(self, pod: Json, node: Json) -> timedelta | None:
        phase = pod.get("status", {}).get("phase", "Pending")
        if pod["metadata"].get("deletionTimestamp"):
            return await self._terminate(pod, phase)
        if phase in TERMINAL:
            self._host.addresses.remove(pod)
            self._admission.remove(pod)
            return None
        new = phase == "Pending" and not pod.get("status", {}).get("podIP")
        if new and (refusal := await self._check_admission(pod, node)):
            self._recorder.record(pod, "Warning", *refusal)
            await self._report(pod, podstatus.build_rejected(pod, *refusal))
            return None
        left = _time_left(pod)
        if left is not None and left <= timedelta():
            self._recorder.record(pod, "Normal", "DeadlineExceeded", podstatus.DEADLINE_EXCEEDED)
            self._containers.kill(pod, [status["name"] for status in _running_statuses(pod)])
            return await self._end(pod, podstatus.build_overdue(pod, self._now()), phase)
        if new:
            return _earliest(await self._start(pod, node), left)
        renewal = await self._certificates.step(pod, node) if self._certificates is not None else None
        return _earliest(await self._advance(pod, node, {}), left, renewal)

    def remove(self, pod: Json) -> None:
        """Kill the containers of a deleted pod and drop its state."""
        self._host.addresses.remove(pod)
        self._admission.remove(pod)
        self._containers.remove(pod)
        if self._certificates is not None:
            self._certificates.remove(pod)
        self._stopping.discard(pod["metadata"]["uid"])
        self._final_reports.pop(pod["metadata"]["uid"], None)
        self._invalidated.discard(pod["metadata"]["uid"])

    async def release(self, pod: Json) -> timedelta | None:
        """Release the claims of a deleted pod."""
        self.remove(pod)
        return None if await self._unprepare(pod) else self._add_jitter(self._host.timings.backoff)

    async def _check_admission(self, pod: Json, node: Json) -> Refusal | None:
        """Return the node's reason to reject the pod, checked against a fresh read of the node."""
        refusal = self._admission.admit(pod, node)
        if refusal is None:
            return None
        try:
            node = await self._host.client.get(NODES, node["metadata"]["name"])
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
        return self._admission.admit(pod, node)

    async def _start(self, pod: Json, node: Json) -> timedelta | None:
        more: Json = {}
        if not pod.get("status", {}).get("startTime"):
            if self._needs_several_syncs(pod):
                pod = await self._report(pod, podstatus.build_starting(pod, self._now(), node_address(node)))
            else:
                more = podstatus.build_admitted(self._now(), node_address(node))
        renewal = None
        if self._certificates is not None:
            renewal = await self._certificates.step(pod, node)
            if missing := self._certificates.missing(pod):
                for volume, why in missing.items():
                    text = f'MountVolume.SetUp failed for volume "{volume}" : {why}'
                    self._recorder.record(pod, "Warning", "FailedMount", text)
                return _earliest(renewal, self._add_jitter(self._host.timings.resync))
        try:
            await self.claims.prepare(pod)
        except DraError as error:
            message = f"Failed to prepare dynamic resources: {error}"
            self._recorder.record(pod, "Warning", "FailedPrepareDynamicResources", message)
            return self._add_jitter(self._host.timings.resync)
        address = node_address(node) if pod["spec"].get("hostNetwork") else self._host.addresses.assign(pod)
        requeue_after = await self._advance(pod, node, {**more, "podIP": address, "podIPs": [{"ip": address}]})
        return _earliest(requeue_after, renewal)

    def _needs_several_syncs(self, pod: Json) -> bool:
        """Return whether starting the containers takes several syncs.

        That is the case with certificates to issue, claims to prepare or processes to start. Otherwise the Pending
        status would be overwritten immediately, so it is not reported.
        """
        if self._certificates is not None and any(sources(pod)):
            return True
        shared = pod.get("status", {}).get("extendedResourceClaimStatus")
        return bool(pod["spec"].get("resourceClaims") or shared) or self._containers.runs_processes

    async def _advance(self, pod: Json, node: Json, more: Json) -> timedelta | None:
        """Advance the pod's containers. `more` is merged into the reported status."""
        await self._containers.prepare(pod)
        step = lifecycle.step(pod, clock.now(), self._containers, missing_images(node))
        for kind, reason, message in step.events:
            self._recorder.record(pod, kind, reason, message)
        if step.all_ended:
            return await self._end(pod, {**step.status, **more}, "Running")
        status = self._add_health(pod, step.status)
        present = pod.get("status", {})
        if (
            more
            or any(status[part] != present.get(part) for part in status if part != "conditions")
            or _has_changed_conditions(present, status)
        ):
            await self._report(pod, {**status, **more}, is_final=True)
        return step.requeue_after

    def _add_health(self, pod: Json, status: Json) -> Json:
        """Return the status with the health of devices."""
        if self._with_health is None:
            return status
        return {**status, "containerStatuses": self._with_health(pod, status["containerStatuses"])}

    async def _terminate(self, pod: Json, phase: str) -> timedelta | None:
        ends, requeue_after = self._stop(pod)
        if requeue_after is not None:
            return requeue_after
        if requeue_after := await self._end(pod, podstatus.build_killed(pod, self._now(), ends), phase):
            return requeue_after
        meta = pod["metadata"]
        try:
            await self._host.client.delete(
                PODS, meta["name"], meta["namespace"], uid=meta["uid"], grace_period=0, parse=False
            )
        except Exception as error:
            if not is_reason(error, "NotFound", "Conflict"):
                raise
        return None

    def _stop(self, pod: Json) -> tuple[dict[str, tuple[str, int]], timedelta | None]:
        """Stop the running containers; they have until the deletion timestamp.

        Return the end time (RFC 3339) and exit code of each ended container, and the delay until the next check.
        """
        meta, now = pod["metadata"], clock.now()
        deadline = parse_time(meta["deletionTimestamp"])
        requested_at = deadline - go_seconds(meta.get("deletionGracePeriodSeconds") or 0)
        ends: dict[str, tuple[str, int]] = {}
        waits: list[timedelta] = []
        for status in _running_statuses(pod):
            if meta["uid"] not in self._stopping:
                self._recorder.record(pod, "Normal", "Killing", f"Stopping container {status['name']}")
            end = self._containers.stop(pod, status, requested_at, deadline)
            if end is None:
                waits.append(max(deadline - now, timedelta(seconds=1)))
            elif end.at > now:
                waits.append(end.at - now)
            else:
                ends[status["name"]] = (go_time(end.at), end.code)
        self._stopping.add(meta["uid"])
        return ends, min(waits, default=None)

    async def _end(self, pod: Json, ended: Json, before: str) -> timedelta | None:
        """Release the claims of ended containers, then report the final status.

        While a claim is prepared the pod is reported in the phase `before`.
        """
        phase = pod.get("status", {}).get("phase", "Pending")
        released = await self._unprepare(pod)
        if phase in TERMINAL:
            return None if released else self._add_jitter(self._host.timings.backoff)
        if released:
            await self._report(pod, ended)
            return None
        if _running_statuses(pod) or phase != before:
            await self._report(pod, {**ended, "phase": before})
        return self._add_jitter(self._host.timings.backoff)

    async def _unprepare(self, pod: Json) -> bool:
        """Release the pod's claims. Return whether none is left; needs no driver if none was prepared."""
        if not self.claims.might_need_unprepare(pod["metadata"]["uid"]):
            return True
        try:
            await self.claims.unprepare(pod)
        except DraError as error:
            log.warning("pod %s/%s cannot end yet: %s", pod["metadata"]["namespace"], pod["metadata"]["name"], error)
            return False
        return True

    async def _report(self, pod: Json, status: Json, *, is_final: bool = False) -> Json:
        """Patch the pod's status. `is_final` marks a status that needs no follow-up."""
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        client = self._host.client
        answer = self._host.wrote(await client.patch(PODS, meta["name"], body, meta["namespace"], subresource="status"))
        version = answer["metadata"].get("resourceVersion")
        if is_final and version and not self._containers.runs_processes and _is_unchanged(pod, answer, status):
            self._final_reports[meta["uid"]] = _FinalReport(version)
        return answer

    def _add_jitter(self, least: timedelta) -> Resync:
        """Return a delay extended at random by up to half, so that pods do not retry all together."""
        return Resync(seconds=least.total_seconds() * (1 + self._host.jitter() / 2))

    def _now(self) -> str:
        return go_time(clock.now())


def _is_unchanged(before: Json, after: Json, status: Json) -> bool:
    """Return whether a pod has not changed except for the reported status."""
    if before["spec"] != after["spec"] or before["metadata"] | _OURS != after["metadata"] | _OURS:
        return False
    present, now = before.get("status", {}), after["status"]
    return all(present.get(name) == now.get(name) for name in present.keys() | now.keys() if name not in status)


def _earliest(*delays: timedelta | None) -> timedelta | None:
    return min((delay for delay in delays if delay is not None), default=None)


def _has_changed_conditions(present: Json, status: Json) -> bool:
    """Return whether the status or message of a condition differs from the pod's."""
    known = {c["type"]: (c["status"], c.get("message")) for c in present.get("conditions") or ()}
    return any(known.get(c["type"]) != (c["status"], c.get("message")) for c in status["conditions"])


def _time_left(pod: Json) -> timedelta | None:
    """Return the time until the pod's activeDeadlineSeconds expire; None without a deadline."""
    seconds, began = pod["spec"].get("activeDeadlineSeconds"), pod.get("status", {}).get("startTime")
    if seconds is None:
        return None
    if not began:
        return go_seconds(seconds)
    return parse_time(began) + go_seconds(seconds) - clock.now()


def node_address(node: Json) -> str:
    """Return the InternalIP of a node."""
    addresses = node.get("status", {}).get("addresses") or ()
    return next((a["address"] for a in addresses if a["type"] == "InternalIP"), "127.0.0.1")


def _running_statuses(pod: Json) -> list[Json]:
    """Return the statuses of running containers."""
    status = pod.get("status", {})
    fields = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    statuses = [each for field in fields for each in status.get(field) or ()]
    return [each for each in statuses if "running" in each.get("state", {})]
