"""The scheduler: one pod at a time finds its node, many at once are bound to theirs.

    watches → queue, cache, claims, devices (kept by events)
    loop    → pop a pod → evaluate → assume, reserve → a task that writes claims and binding
                                   ↘ rejected or failed → back to the queue, event, condition

Only the loop decides, so decisions never overlap; what a decision takes (node resources, devices) counts from then on.
Facts: Kubernetes 1.36, pkg/scheduler/schedule_one.go, eventhandlers.go.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apiserver.api.metrics import Family
from apiserver.api.selectors import LabelSelector, from_labels
from apiserver.api.status import StatusError
from controllers.allocator import Allocator, Features
from controllers.options import Options
from controllers.runtime.client import Client
from controllers.runtime.clock import Clock
from controllers.runtime.events import EventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NAMESPACES, PODS, RESOURCE_CLAIMS, SERVICES
from controllers.runtime.transport import TransportError
from controllers.scheduler import dynamic
from controllers.scheduler.changes import HINTS
from controllers.scheduler.claims import ClaimCache
from controllers.scheduler.claimwrites import BindError, ClaimWriter
from controllers.scheduler.dynamic import DynamicResources
from controllers.scheduler.evaluate import Cycle, Evaluator
from controllers.scheduler.groups import NO_GROUPS, PodGroups
from controllers.scheduler.nodes import Cache, NodeInfo
from controllers.scheduler.podinfo import PodInfo
from controllers.scheduler.podwrites import PodWriter
from controllers.scheduler.preemption import Preemption
from controllers.scheduler.queue import QueuedPod, SchedulingQueue
from controllers.scheduler.reach import DeviceReach
from controllers.scheduler.status import NO_NODES, Diagnosis, FitError, SchedulingError, shortened
from controllers.scheduler.watching import Watching

Json = dict[str, Any]
log = logging.getLogger(__name__)
SCHEDULER_NAME = "default-scheduler"


class Scheduler:
    """The component. Everything it needs is made here."""

    name = "scheduler"

    def __init__(self, client: Client, informers: Informers, clock: Clock, options: Options) -> None:
        self._clock = clock
        client = client.named("kube-scheduler")
        gates, release = options.features, options.emulated_version
        features = Features.from_gates(gates.enabled)
        self._expects = gates.enabled("NominatedNodeNameForExpectation")
        self.allocator = Allocator(features, release="{}.{}".format(*release))
        self.cache = Cache()
        self.reach = DeviceReach(self.allocator.allocated)
        with_groups = gates.enabled("DRAWorkloadResourceClaims")
        self.claims = ClaimCache(
            self.allocator.allocated, PodGroups(informers, self.cache.is_assumed) if with_groups else NO_GROUPS
        )
        self.devices = DynamicResources(self.allocator, self.claims, clock, features.binding_conditions)
        self.queue = SchedulingQueue(clock, self._keeps_out, {**HINTS, dynamic.NAME: self.devices.hints})
        self._pods, self._namespaces, self._services = (informers.of(kind) for kind in (PODS, NAMESPACES, SERVICES))
        self._services_of = self._services.index("namespace", lambda service: (service["metadata"]["namespace"],))
        choice = random.Random(options.seed)  # noqa: S311 - no secret
        self.evaluator = Evaluator(
            self.cache, self.devices, self.reach, self._namespace_labels, choice, self._spread_by
        )
        self.recorder = EventRecorder(client, clock, SCHEDULER_NAME, options.host)
        self._claim_writer = ClaimWriter(client, clock, self.claims, self.devices, RESOURCE_CLAIMS)
        self._pod_writer = PodWriter(client, clock)
        self._preemption = Preemption(client, clock, self.cache, self.evaluator, self.recorder, choice)
        self._watching = Watching(
            informers,
            self,
            devices=gates.enabled("DynamicResourceAllocation"),
            rules=gates.enabled("DRADeviceTaintRules"),
        )
        self._binding: set[asyncio.Task[None]] = set()
        self._reporting: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def idle(self) -> bool:
        return self.queue.idle and not self._binding and not self._reporting

    @property
    def metrics(self) -> Sequence[Family]:
        return ()

    async def run(self) -> None:
        await self._services.wait_synced()
        await self._watching.wait_synced()
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self.recorder.run())
            while True:
                await self._schedule(await self.queue.pop(), group)

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        namespace = self._namespaces.get(name)
        return (namespace or {}).get("metadata", {}).get("labels") or {}

    def _spread_by(self, pod: PodInfo) -> LabelSelector | None:
        """What pods belong together by default: those that the same services select."""
        labels = pod.pod["metadata"].get("labels")
        wanted: dict[str, str] = {}
        for service in self._services_of.get(pod.namespace) if labels else ():
            selector = service["spec"].get("selector")
            if selector and all(labels.get(key) == value for key, value in selector.items()):
                wanted |= selector
        return from_labels(wanted) if wanted else None

    def _keeps_out(self, info: PodInfo) -> str | None:
        """PreEnqueue: the plugin that does not let the pod in yet."""
        if info.spec.get("schedulingGates"):
            return "SchedulingGates"
        if info.has_claims and self.devices.problem(info.pod) is not None:
            return dynamic.NAME
        return None

    # One pod
    # ------------------------------------------------------------------------------------------------------------

    async def _schedule(self, queued: QueuedPod, group: asyncio.TaskGroup) -> None:
        info = queued.info
        if info.pod["metadata"].get("deletionTimestamp"):
            note = f"skip schedule deleting pod: {info.key}"
            self.recorder.record(info.pod, "Warning", "FailedScheduling", "Scheduling", note)
            self.queue.done(info.uid)
            return
        if self.cache.is_assumed(info.uid):
            self.queue.done(info.uid)
            return
        cycle = Cycle(info)
        try:
            node = await self.evaluator.place(cycle)
            self._take(cycle, node)
        except FitError as error:
            await self._rejected(queued, cycle, error.diagnosis)
            return
        except SchedulingError as error:
            self._failed(queued, str(error), (), nominated="", rejected=str(error) == NO_NODES)
            return
        self.queue.done(info.uid)
        task = group.create_task(self._bind(queued, cycle, node), name=f"bind {info.key}")
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)

    def _take(self, cycle: Cycle, node: NodeInfo) -> None:
        """The pod counts on the node and its devices are taken from now on."""
        self.cache.assume(cycle.pod, node.name)
        try:
            if cycle.dynamic is not None and not self.devices.reserve(cycle.dynamic, node):
                diagnosis = Diagnosis(1, {node.name: dynamic.CANNOT_ALLOCATE}, plugins={dynamic.NAME})
                raise FitError(diagnosis)
        except BaseException:
            self.cache.forget(cycle.pod.uid)
            raise

    async def _bind(self, queued: QueuedPod, cycle: Cycle, node: NodeInfo) -> None:
        """The binding cycle. Whatever goes wrong gives back what was taken."""
        info, state = cycle.pod, cycle.dynamic
        try:
            if state is not None:
                if self._expects:
                    await self._pod_writer.nominate(info.pod, node.name)
                await self._claim_writer.bind(info, state)
                if self._claim_writer.waits_for_devices(state):
                    note = f"waiting for binding conditions for device on node {node.name}"
                    self.recorder.record(info.pod, "Normal", "BindingConditionsPending", "Scheduling", note)
                    await self._claim_writer.wait_for_devices(state)
        except BindError as error:
            await self._give_back(queued, cycle, f'running PreBind plugin "{dynamic.NAME}": {error}')
            return
        try:
            await self._pod_writer.bind(info.pod, node.name)
        except (StatusError, TransportError) as error:
            await self._give_back(queued, cycle, f'running Bind plugin "DefaultBinder": {error}')
            return
        self.evaluator.denominate(info.uid)
        note = f"Successfully assigned {info.key} to {node.name}"
        self.recorder.record(info.pod, "Normal", "Scheduled", "Binding", note)

    async def _give_back(self, queued: QueuedPod, cycle: Cycle, text: str) -> None:
        self.cache.forget(cycle.pod.uid)
        if cycle.dynamic is not None:
            await self._claim_writer.unreserve(cycle.pod, cycle.dynamic)
        self._watching.place_became_free(cycle.pod)
        self._failed(queued, text, (), nominated="")

    # What becomes of a pod without a node
    # ---------------------------------------------------------------------------------

    async def _rejected(self, queued: QueuedPod, cycle: Cycle, diagnosis: Diagnosis) -> None:
        nominated: str | None = None
        try:
            diagnosis.postfilter, nominated = await self._postfilter(cycle, diagnosis)
        except (StatusError, TransportError) as error:
            diagnosis.postfilter = str(error)
        self._failed(queued, diagnosis.text, diagnosis.plugins, nominated=nominated, rejected=True)

    async def _postfilter(self, cycle: Cycle, diagnosis: Diagnosis) -> tuple[str, str | None]:
        """Can something be done? The text of what was tried, and the node that was made free."""
        if not cycle.dynamic_ran:
            return "not found", None
        if cycle.dynamic is None:
            text = "no new claims to deallocate"
        else:
            text = await self._claim_writer.deallocate(cycle.pod, cycle.dynamic)
        more, node = await self._preemption.run(cycle, diagnosis)
        return ("" if node else f"{text}, {more}"), node

    def _failed(
        self, queued: QueuedPod, text: str, plugins: Iterable[str], *, nominated: str | None, rejected: bool = False
    ) -> None:
        """Back to the queue first, then the event, then the condition."""
        info = queued.info
        current = self._pods.get(info.key)
        pod = info.pod
        if current is None or current["spec"].get("nodeName"):
            self.queue.done(info.uid)
        elif current["metadata"]["uid"] != info.uid:
            self.queue.done(info.uid)
            return
        else:
            pod = current
            queued.info = PodInfo(current)
            self.queue.put_back(queued, plugins)
        if nominated is not None:
            self.evaluator.nominate(queued.info, nominated)
        if text != NO_NODES:
            log.debug("pod %s: %s", info.key, text)
        self.recorder.record(pod, "Warning", "FailedScheduling", "Scheduling", shortened(text))
        self._report(pod, "Unschedulable" if rejected else "SchedulerError", text, nominated)

    def _report(self, pod: Json, reason: str, text: str, nominated: str | None) -> None:
        """Writes the condition while the loop goes on; for one pod in order."""
        uid = pod["metadata"]["uid"]
        before = self._reporting.get(uid)

        async def report() -> None:
            if before is not None:
                await asyncio.wait((before,))
            current = self._pods.get(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}") or pod
            await self._pod_writer.unscheduled(current, reason, text, nominated)

        assert self._group is not None
        task = self._reporting[uid] = self._group.create_task(report(), name=f"report {uid}")
        task.add_done_callback(lambda done: self._reporting.pop(uid) if self._reporting.get(uid) is done else None)
