"""The scheduler: one pod at a time gets a node, many are bound concurrently.

    watches → queue, cache, claims, devices (updated by events)
    loop    → pop a pod → evaluate → assume, reserve → a task that writes claims and binding
                                   ↘ rejected or failed → back to the queue, event, condition

Only the loop decides, so decisions never overlap. The node resources and devices of a decision count immediately.
Facts: Kubernetes 1.36, pkg/scheduler/schedule_one.go, eventhandlers.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from apiserver.api.errors.status import StatusError
from apiserver.api.helpers.pod_requests import Counts
from apiserver.api.objects import Json
from apiserver.runtime import clock
from apiserver.runtime.metrics import Family
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.transport import TransportError
from controllers.scheduler.config.configuration import SCHEDULER_NAME, Configuration
from controllers.scheduler.cycle.assembly import SharedState
from controllers.scheduler.cycle.group_cycle import GroupCycle
from controllers.scheduler.cycle.metrics import SchedulerMetrics
from controllers.scheduler.cycle.profiles import Profile
from controllers.scheduler.cycle.watching import EventHandlers
from controllers.scheduler.dra.node_allocatable import GATE as NODE_RESOURCES_GATE
from controllers.scheduler.framework.attempt_metrics import REFUSED
from controllers.scheduler.framework.framework import EVERY_EVENT, Cycle, Plugin, PluginError, hints_of
from controllers.scheduler.framework.status import (
    NO_NODES,
    Diagnosis,
    FitError,
    SchedulingError,
    shorten_note,
    unexpected_error_text,
)
from controllers.scheduler.plugins.extenders import NAME as EXTENDER
from controllers.scheduler.plugins.extenders import ExtenderError
from controllers.scheduler.podgroups.status import GroupStatus
from controllers.scheduler.preemption.default import NAME as PREEMPTION
from controllers.scheduler.queue.attempts import Attempts
from controllers.scheduler.queue.queue import SchedulingQueue
from controllers.scheduler.queue.queued_pod import QueuedPod
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.writes.ordered import OrderedWrites
from controllers.scheduler.writes.pods import PodWriter

log = logging.getLogger(__name__)
_TIMED_CYCLES = 10


class Scheduler:
    """The component. `assembly` creates what its profiles share. `extra` plugins follow upstream's."""

    name = "scheduler"

    def __init__(self, client: Client, informers: Informers, options: Options, extra: Sequence[Plugin] = ()) -> None:
        client = client.with_user_agent("kube-scheduler")
        gates = options.features
        self._expects_nominated_node = gates.enabled("NominatedNodeNameForExpectation")
        self._resource_counts = Counts(gates.enabled("PodLevelResources"), gates.enabled(NODE_RESOURCES_GATE))
        configuration = options.scheduler or Configuration()
        shared = SharedState.create(client, informers, options, configuration)
        self.allocator, self.cache, self.nominator = shared.allocator, shared.cache, shared.nominator
        self.reach, self.claims, self.classes = shared.reach, shared.claims, shared.classes
        self.gangs, self.volumes = shared.gangs, shared.volumes
        self._pods, self.workloads, self._extenders = shared.pods, shared.workloads, shared.extenders
        self._pod_writer = PodWriter(client)
        self.profiles = {settings.name: shared.profile(settings, extra) for settings in configuration.profiles}
        uses_queueing_hints = gates.enabled("SchedulerQueueingHints")
        self.queue = SchedulingQueue(
            self._pre_enqueue,
            {
                **{plugin.name: hints_of(plugin, uses_queueing_hints) for plugin in self.plugins},
                **({EXTENDER: EVERY_EVENT} if self._extenders else {}),
            },
            pop_from_backoff=gates.enabled("SchedulerPopFromBackoffQ"),
            backoff=(configuration.first_backoff, configuration.last_backoff),
        )
        self._binding: set[asyncio.Task[None]] = set()
        self._attempt_metrics = shared.attempt_metrics
        self.scheduler_metrics = SchedulerMetrics(
            self.queue,
            self.cache,
            self._binding,
            shared.attempt_metrics,
            lambda info: self.profile_of(info).name,
            gates.enabled,
        )
        self._cycles = 0
        self.attempts = Attempts()
        handling = self.scheduler_metrics.handling
        self._event_handlers = EventHandlers(informers, shared, self.queue, self.profiles, self.info, handling)
        self.volumes.follow(self._event_handlers.notify)
        self._writes = OrderedWrites()
        if self.gangs is not None:
            status = GroupStatus(client, self.gangs.informer, self._writes)
            self.group_cycle = GroupCycle(self, shared, self.gangs, self.queue, self.scheduler_metrics, status)

    def info(self, pod: Json) -> PodInfo:
        """Return the parsed pod, with its resources counted as the feature gates require."""
        return PodInfo(pod, self._resource_counts)

    def profile_of(self, info: PodInfo) -> Profile:
        """Return the profile of the pod's scheduler name."""
        return self.profiles[info.spec.get("schedulerName") or SCHEDULER_NAME]

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """Return the plugins of all profiles."""
        return tuple(plugin for profile in self.profiles.values() for plugin in profile.plugins)

    @property
    def idle(self) -> bool:
        return self.queue.idle and not self._binding and self._writes.idle

    @property
    def due(self) -> float | None:
        return self.queue.due

    @property
    def metrics(self) -> Sequence[Family]:
        return self.scheduler_metrics.families

    async def run(self) -> None:
        await self.workloads.wait_read()
        await self.volumes.wait_read()
        await self._event_handlers.wait_synced()
        try:
            async with asyncio.TaskGroup() as group:
                for profile in self.profiles.values():
                    group.create_task(profile.recorder.run())
                while True:
                    await self._schedule(await self.queue.pop(), group)
        finally:
            await self._writes.close()
            await self._extenders.close()

    def _pre_enqueue(self, info: PodInfo) -> str | None:
        """Run PreEnqueue. Return the name of the plugin that gates the pod; None admits it."""
        profile = self.profile_of(info)
        # Upstream counts all of them as successes.
        with profile.points.at("PreEnqueue"):
            for plugin in profile.plugins:
                if plugin.pre_enqueue is not None and not plugin.pre_enqueue(info):
                    return plugin.name
        return None

    def cycle(self, info: PodInfo, within: frozenset[str] | None = None) -> Cycle:
        """Create the state of an attempt for a pod; one of ten attempts is timed per plugin."""
        self._cycles += 1
        return Cycle(info, within=within, is_timed=self._cycles % _TIMED_CYCLES == 0)

    # Attempts

    async def _schedule(self, queued: QueuedPod, group: asyncio.TaskGroup) -> None:
        info = queued.info
        if self.gangs is not None and info.spec.get("schedulingGroup"):
            await self.group_cycle.run(queued, group)
            return
        if self.skip(queued):
            return
        cycle = self.cycle(info)
        try:
            node = await self.profile_of(info).evaluator.place(cycle)
            await self.reserve(cycle, node)
        except FitError as error:
            await self._handle_rejection(queued, cycle, error.diagnosis)
            return
        except SchedulingError as error:
            self.handle_failure(queued, str(error), (), nominated="", rejected=str(error) == NO_NODES)
            return
        except Exception as error:  # noqa: BLE001 - one pod's attempt fails, the others' go on
            self._handle_unexpected_error(queued, error)
            return
        finally:
            self.scheduler_metrics.observe_decision(queued)
        self.start_binding(queued, cycle, node, group)

    def skip(self, queued: QueuedPod) -> bool:
        """Skip a pod that needs no attempt; return whether it was skipped."""
        info = queued.info
        if info.pod["metadata"].get("deletionTimestamp"):
            note = f"skip schedule deleting pod: {info.key}"
            self.profile_of(info).recorder.record(info.pod, "Warning", "FailedScheduling", "Scheduling", note)
        elif not self.cache.is_assumed(info.uid):
            return False
        self.queue.done(info.uid)
        return True

    def start_binding(self, queued: QueuedPod, cycle: Cycle, node: NodeInfo, group: asyncio.TaskGroup) -> None:
        """Start the task that binds the pod to its node."""
        self.queue.done(queued.info.uid)
        task = group.create_task(self._bind(queued, cycle, node), name=f"bind {queued.info.key}")
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)

    async def reserve(self, cycle: Cycle, node: NodeInfo) -> None:
        """Assume the pod on the node and run Reserve. Raise FitError or SchedulingError."""
        self.cache.assume(cycle.pod, node.name)
        # An assumed pod must not count as nominated as well.
        self.nominator.remove(cycle.pod.uid)
        reserved: list[Plugin] = []
        try:
            with self.profile_of(cycle.pod).points.at("Reserve"):
                self._run_reserve(cycle, node, reserved)
        except BaseException:
            self.cache.forget(cycle.pod.uid)
            await self._unreserve(cycle, reserved)
            raise

    def _run_reserve(self, cycle: Cycle, node: NodeInfo, reserved: list[Plugin]) -> None:
        """Run the Reserve plugins, collecting them in `reserved`. Raise FitError or SchedulingError."""
        for plugin in self.profile_of(cycle.pod).plugins_for(cycle):
            if plugin.reserve is None or (state := cycle.active(plugin.name)) is None:
                continue
            reserved.append(plugin)
            try:
                refused = plugin.reserve(cycle.pod, state, node)
            except PluginError as error:
                raise SchedulingError(f'running Reserve plugin "{plugin.name}": {error}') from error
            if refused is not None:
                raise FitError(Diagnosis(1, {node.name: refused}, plugins={plugin.name}))
            if plugin.assumed is not None and (counted := plugin.assumed(cycle.pod, state)) is not cycle.pod:
                self.cache.assume(counted, node.name)

    def revert(self, cycle: Cycle) -> None:
        """Undo `reserve` in memory after a simulated attempt."""
        info = cycle.pod
        self.cache.forget(info.uid)
        for plugin in reversed(self.profile_of(info).plugins):
            state = cycle.active(plugin.name)
            if plugin.revert is not None and state is not None:
                plugin.revert(state)
        self.nominator.add(info, (info.pod.get("status") or {}).get("nominatedNodeName") or "")

    async def _unreserve(self, cycle: Cycle, plugins: Sequence[Plugin]) -> None:
        """Run Unreserve in reverse order, as upstream does."""
        with self.profile_of(cycle.pod).points.at("Unreserve"):
            for plugin in reversed(plugins):
                state = cycle.active(plugin.name)
                if plugin.unreserve is not None and state is not None:
                    await plugin.unreserve(cycle.pod, state)

    async def _bind(self, queued: QueuedPod, cycle: Cycle, node: NodeInfo) -> None:
        """Run the binding cycle. A failure undoes assumption and reservation."""
        info, decided = cycle.pod, clock.now()
        points = self.profile_of(info).points
        try:
            with points.at("PreBind"):
                await self._pre_bind(cycle, node)
            with points.at("Bind"):
                if not (self._extenders and await self._extenders.bind(info, node.name)):
                    await self._pod_writer.bind(info.pod, node.name)
        except (SchedulingError, ExtenderError) as error:
            await self._abort_binding(queued, cycle, str(error))
        except (StatusError, TransportError) as error:
            await self._abort_binding(queued, cycle, f'running Bind plugin "DefaultBinder": {error}')
        except Exception as error:
            log.exception("binding pod %s failed unexpectedly", info.key)
            await self._abort_binding(queued, cycle, unexpected_error_text(error))
        else:
            self.scheduler_metrics.count_attempt(queued, "scheduled")
            self.attempts.record(decided, info.uid, "scheduled", f"to {node.name}")
            note = f"Successfully assigned {info.key} to {node.name}"
            self.profile_of(info).recorder.record(info.pod, "Normal", "Scheduled", "Binding", note)

    async def _pre_bind(self, cycle: Cycle, node: NodeInfo) -> None:
        """Write what must precede the binding. Raise SchedulingError."""
        plugins = [
            p for p in self.profile_of(cycle.pod).plugins_for(cycle) if _has_pre_bind_writes(p, cycle.active(p.name))
        ]
        if plugins and self._expects_nominated_node:
            await self._pod_writer.nominate(cycle.pod.pod, node.name)
        for plugin in plugins:
            assert plugin.pre_bind is not None
            try:
                await plugin.pre_bind(cycle.pod, cycle.active(plugin.name), node.name)
            except PluginError as error:
                raise SchedulingError(f'running PreBind plugin "{plugin.name}": {error}') from error

    async def _abort_binding(self, queued: QueuedPod, cycle: Cycle, text: str) -> None:
        self.cache.forget(cycle.pod.uid)
        await self._unreserve(cycle, self.profile_of(cycle.pod).plugins_for(cycle))
        self._event_handlers.notify_freed_node(cycle.pod)
        self.handle_failure(queued, text, (), nominated="")

    # Failures

    async def _handle_rejection(self, queued: QueuedPod, cycle: Cycle, diagnosis: Diagnosis) -> None:
        nominated: str | None = None
        try:
            diagnosis.postfilter, nominated = await self.postfilter(cycle, diagnosis)
        except PluginError as error:
            diagnosis.postfilter = str(error)
        except Exception as error:  # noqa: BLE001 - one pod's attempt fails, the others' go on
            self._handle_unexpected_error(queued, error)
            return
        self.handle_failure(queued, diagnosis.text, diagnosis.plugins, nominated=nominated, rejected=True)

    async def postfilter(self, cycle: Cycle, diagnosis: Diagnosis) -> tuple[str, str | None]:
        """Run PostFilter. Return its text and the nominated node, as in PostFilterResult. Raise PluginError."""
        with self.profile_of(cycle.pod).points.at("PostFilter") as point:
            result = await self._postfilter(cycle, diagnosis)
            if not result[1]:
                point.status = REFUSED
            return result

    async def _postfilter(self, cycle: Cycle, diagnosis: Diagnosis) -> tuple[str, str | None]:
        texts: list[str] = []
        nominated: str | None = None
        for plugin in self.profile_of(cycle.pod).plugins_for(cycle):
            if plugin.post_filter is None:
                continue
            if plugin.name == PREEMPTION:
                self._attempt_metrics.preemptions.inc()
            result = await plugin.post_filter(cycle, diagnosis)
            if result.nominated:
                return "", result.nominated
            texts.append(result.text)
            nominated = result.nominated if result.nominated is not None else nominated
            if result.final:
                break
        return ", ".join(texts), nominated

    def _handle_unexpected_error(self, queued: QueuedPod, error: Exception) -> None:
        """Requeue a pod with backoff after a defect of the code or an object that should not exist."""
        log.error("scheduling pod %s failed unexpectedly", queued.info.key, exc_info=error)
        self.handle_failure(queued, unexpected_error_text(error), (), nominated="")

    def handle_failure(
        self,
        queued: QueuedPod,
        text: str,
        plugins: Iterable[str],
        *,
        nominated: str | None,
        rejected: bool = False,
        backoff: bool = False,
    ) -> None:
        """Requeue the pod, then emit the event, then write the condition."""
        info = queued.info
        outcome = "unschedulable" if rejected else "error"
        self.scheduler_metrics.count_attempt(queued, outcome)
        self.attempts.record(clock.now(), info.uid, outcome, text)
        current = self._pods.get(info.key)
        pod = info.pod
        if current is None or current["spec"].get("nodeName"):
            self.queue.done(info.uid)
        elif current["metadata"]["uid"] != info.uid:
            self.queue.done(info.uid)
            return
        else:
            pod = current
            queued.info = self.info(current)
            self.queue.put_back(queued, plugins, backoff=backoff)
        if nominated is not None and self.queue.get(info.uid) is queued:
            # A pod that was deleted or bound meanwhile must not stay nominated: no event would remove it.
            self.nominator.add(queued.info, nominated)
        if text != NO_NODES:
            log.debug("pod %s: %s", info.key, text)
        self.profile_of(info).recorder.record(pod, "Warning", "FailedScheduling", "Scheduling", shorten_note(text))
        self._write_condition(pod, "Unschedulable" if rejected else "SchedulerError", text, nominated)

    def _write_condition(self, pod: Json, reason: str, text: str, nominated: str | None) -> None:
        """Write the condition in the background; writes for one pod stay in order."""
        uid = pod["metadata"]["uid"]
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"

        async def report() -> None:
            current = self._pods.get(key)
            if current is None or current["metadata"]["uid"] != uid:
                current = pod
            await self._pod_writer.write_unscheduled(current, reason, text, nominated)

        self._writes.run(f"pod {uid}", report, f"the condition of pod {key}")


def _has_pre_bind_writes(plugin: Plugin, state: Any) -> bool:
    """Return whether the plugin has writes before the binding."""
    return plugin.pre_bind is not None and state is not None and (plugin.writes is None or plugin.writes(state))
