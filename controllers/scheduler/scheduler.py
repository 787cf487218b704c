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
from dataclasses import replace
from typing import Any
from uuid import UUID

from apiserver.api.metrics import Family
from apiserver.api.status import StatusError
from controllers.allocator import Allocator, Features
from controllers.options import Options
from controllers.runtime.client import Client
from controllers.runtime.events import EventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS
from controllers.runtime.transport import TransportError
from controllers.scheduler.arguments import read_arguments
from controllers.scheduler.claims import ClaimCache
from controllers.scheduler.claimwrites import ClaimWriter
from controllers.scheduler.configuration import SCHEDULER_NAME, Configuration, ProfileSettings
from controllers.scheduler.dynamic import DynamicResources
from controllers.scheduler.evaluate import Evaluator
from controllers.scheduler.evictions import Evictions
from controllers.scheduler.extended import ClassNames
from controllers.scheduler.extenders import NAME as EXTENDER
from controllers.scheduler.extenders import ExtenderError, Extenders
from controllers.scheduler.framework import EVERY_EVENT, Cycle, Plugin, PluginError, hints_of
from controllers.scheduler.gangs import GATE as GROUPS_GATE
from controllers.scheduler.gangs import Gangs
from controllers.scheduler.groupcycle import GroupCycle
from controllers.scheduler.groups import PodGroups
from controllers.scheduler.groupstatus import GroupStatus
from controllers.scheduler.inorder import InOrder
from controllers.scheduler.nodes import Cache, NodeInfo, Nominator
from controllers.scheduler.plugins import Parts, default_plugins
from controllers.scheduler.plugins.dynamicresources import ClaimBinding
from controllers.scheduler.plugins.preemption import Preemption
from controllers.scheduler.plugins.volumebinding import VolumeWriter
from controllers.scheduler.podinfo import PodInfo
from controllers.scheduler.podwrites import PodWriter
from controllers.scheduler.profiles import Profile, arrange
from controllers.scheduler.queue import QueuedPod, SchedulingQueue
from controllers.scheduler.reach import DeviceReach
from controllers.scheduler.status import NO_NODES, Diagnosis, FitError, SchedulingError, shortened, unexpected
from controllers.scheduler.volumes import VolumeCache
from controllers.scheduler.watching import Watching
from controllers.scheduler.workloads import Workloads

Json = dict[str, Any]
log = logging.getLogger(__name__)


class Scheduler:
    """The component. Everything it needs is made here. `extra` plugins come after upstream's."""

    name = "scheduler"

    def __init__(self, client: Client, informers: Informers, options: Options, extra: Sequence[Plugin] = ()) -> None:
        client = client.named("kube-scheduler")
        gates, release = options.features, options.emulated_version
        features = Features.from_gates(gates.enabled)
        self._expects = gates.enabled("NominatedNodeNameForExpectation")
        choice = self._choice = random.Random(options.seed)  # noqa: S311 - no secret
        self.allocator = Allocator(
            features,
            release="{}.{}".format(*release),
            new_share_id=lambda: str(UUID(int=choice.getrandbits(128), version=4)),
        )
        self.cache, self.nominator = Cache(), Nominator()
        self.reach = DeviceReach(self.allocator.allocated)
        groups = PodGroups(
            informers if gates.enabled("DRAWorkloadResourceClaims") else None,
            self.cache.is_assumed,
            gates.enabled("DRAReservedForWorkloads"),
        )
        self.claims = ClaimCache(self.allocator.allocated, groups)
        self.classes = ClassNames() if gates.enabled("DRAExtendedResource") else None
        self._pods, self._namespaces = informers.of(PODS), informers.of(NAMESPACES)
        self._workloads = Workloads(informers)
        self.gangs = Gangs(informers, self.cache) if gates.enabled(GROUPS_GATE) else None
        self._volumes, self._nodes = VolumeCache(informers), informers.of(NODES)
        self._pod_writer = PodWriter(client)
        configuration = options.scheduler or Configuration()
        self._extenders = Extenders(configuration.extenders)
        self._hidden = frozenset(name for each in configuration.extenders for name in each.hidden)
        self.profiles = {
            settings.name: self._profile(settings, configuration.percentage, client, options, features, extra)
            for settings in configuration.profiles
        }
        asked = gates.enabled("SchedulerQueueingHints")
        self.queue = SchedulingQueue(
            self._keeps_out,
            {
                **{plugin.name: hints_of(plugin, asked) for plugin in self.plugins},
                **({EXTENDER: EVERY_EVENT} if self._extenders else {}),
            },
            pop_from_backoff=gates.enabled("SchedulerPopFromBackoffQ"),
            backoff=(configuration.first_backoff, configuration.last_backoff),
        )
        self._watching = Watching(
            informers,
            self,
            devices=gates.enabled("DynamicResourceAllocation"),
            rules=gates.enabled("DRADeviceTaintRules"),
        )
        self._volumes.follow(self.queue.notify)
        self._writes = InOrder()
        if self.gangs is not None:
            status = GroupStatus(client, self.gangs.informer, self._writes)
            topology = gates.enabled("TopologyAwareWorkloadScheduling")
            self._group_cycle = GroupCycle(self, self.gangs, status, choice, topology=topology)
        self._binding: set[asyncio.Task[None]] = set()

    def _profile(
        self,
        settings: ProfileSettings,
        percentage: int,
        client: Client,
        options: Options,
        features: Features,
        extra: Sequence[Plugin],
    ) -> Profile:
        """Plugins and evaluator for the pods of one scheduler name. Raises ConfigurationError."""
        gates = options.features
        arguments = read_arguments(settings, gates.enabled)
        arguments = replace(arguments, ignored=arguments.ignored | self._hidden)
        recorder = EventRecorder(client, settings.name, options.host)
        devices = DynamicResources(
            self.allocator,
            self.claims,
            features.binding_conditions,
            arguments.filter_timeout,
            self.classes,
            arguments.binding_timeout,
        )
        evictions = Evictions(client, self.nominator, recorder)
        budgets = self._workloads.disruption_budgets
        parts = Parts(
            cache=self.cache,
            devices=devices,
            volumes=self._volumes,
            volume_writer=VolumeWriter(
                client, self._volumes, self._pods.get, self._nodes.get, arguments.volume_timeout
            ),
            namespace_labels=self._namespace_labels,
            default_selector=self._workloads.selector_of,
            binding=ClaimBinding(
                ClaimWriter(client, self.claims, devices, RESOURCE_CLAIMS), self._pod_writer, recorder
            ),
            preemption=Preemption(evictions, self.cache, self.nominator, budgets, self._choice, arguments),
            gang_problem=self.gangs.problem if self.gangs is not None else lambda _: None,
            arguments=arguments,
            enabled=gates.enabled,
        )
        plugins = (*arrange(default_plugins(parts), settings), *extra)
        looked_at = percentage if settings.percentage is None else settings.percentage
        evaluator = Evaluator(self.cache, plugins, self.reach, self._choice, self.nominator, looked_at, self._extenders)
        return Profile(settings.name, plugins, evaluator, recorder)

    def _of(self, info: PodInfo) -> Profile:
        """The profile that the pod chose."""
        return self.profiles[info.spec.get("schedulerName") or SCHEDULER_NAME]

    def evaluator_of(self, info: PodInfo) -> Evaluator:
        """What finds nodes for the pod."""
        return self._of(info).evaluator

    def plugins_of(self, info: PodInfo) -> tuple[Plugin, ...]:
        """Those of the pod's profile."""
        return self._of(info).plugins

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """Those of all profiles."""
        return tuple(plugin for profile in self.profiles.values() for plugin in profile.plugins)

    @property
    def idle(self) -> bool:
        return self.queue.idle and not self._binding and self._writes.idle

    @property
    def due(self) -> float | None:
        return self.queue.due

    @property
    def metrics(self) -> Sequence[Family]:
        return ()

    async def run(self) -> None:
        await self._workloads.wait_read()
        await self._volumes.wait_read()
        await self._watching.wait_synced()
        try:
            async with asyncio.TaskGroup() as group:
                for profile in self.profiles.values():
                    group.create_task(profile.recorder.run())
                while True:
                    await self._schedule(await self.queue.pop(), group)
        finally:
            await self._writes.close()
            await self._extenders.close()

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        namespace = self._namespaces.get(name)
        return (namespace or {}).get("metadata", {}).get("labels") or {}

    def _keeps_out(self, info: PodInfo) -> str | None:
        """PreEnqueue: the plugin that does not let the pod in yet."""
        for plugin in self._of(info).plugins:
            if plugin.pre_enqueue is not None and not plugin.pre_enqueue(info):
                return plugin.name
        return None

    # One pod
    # ------------------------------------------------------------------------------------------------------------

    async def _schedule(self, queued: QueuedPod, group: asyncio.TaskGroup) -> None:
        info = queued.info
        if self.gangs is not None and info.spec.get("schedulingGroup"):
            await self._group_cycle.run(queued, group)
            return
        if self.skipped(queued):
            return
        cycle = Cycle(info)
        try:
            node = await self._of(info).evaluator.place(cycle)
            await self.take(cycle, node)
        except FitError as error:
            await self._rejected(queued, cycle, error.diagnosis)
            return
        except SchedulingError as error:
            self.failed(queued, str(error), (), nominated="", rejected=str(error) == NO_NODES)
            return
        except Exception as error:  # noqa: BLE001 - one pod's attempt fails, the others' go on
            self._failed_unexpectedly(queued, error)
            return
        self.begin_binding(queued, cycle, node, group)

    def skipped(self, queued: QueuedPod) -> bool:
        """Whether a pod needs no node, which is then done with."""
        info = queued.info
        if info.pod["metadata"].get("deletionTimestamp"):
            note = f"skip schedule deleting pod: {info.key}"
            self._of(info).recorder.record(info.pod, "Warning", "FailedScheduling", "Scheduling", note)
        elif not self.cache.is_assumed(info.uid):
            return False
        self.queue.done(info.uid)
        return True

    def begin_binding(self, queued: QueuedPod, cycle: Cycle, node: NodeInfo, group: asyncio.TaskGroup) -> None:
        """The pod is on its way to its node."""
        self.queue.done(queued.info.uid)
        task = group.create_task(self._bind(queued, cycle, node), name=f"bind {queued.info.key}")
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)

    async def take(self, cycle: Cycle, node: NodeInfo) -> None:
        """The pod counts on the node and its devices are taken from now on. Raises FitError, SchedulingError."""
        self.cache.assume(cycle.pod, node.name)
        # It counts on its node from now on, and must not count as waiting for one as well.
        self.nominator.remove(cycle.pod.uid)
        taken: list[Plugin] = []
        try:
            for plugin in self._of(cycle.pod).plugins:
                if plugin.reserve is None or (state := cycle.active(plugin.name)) is None:
                    continue
                taken.append(plugin)
                try:
                    refused = plugin.reserve(cycle.pod, state, node)
                except PluginError as error:
                    raise SchedulingError(f'running Reserve plugin "{plugin.name}": {error}') from error
                if refused is not None:
                    raise FitError(Diagnosis(1, {node.name: refused}, plugins={plugin.name}))
        except BaseException:
            self.cache.forget(cycle.pod.uid)
            await self._unreserve(cycle, taken)
            raise

    def revert(self, cycle: Cycle) -> None:
        """What `take` did is undone: it was tried to see what would be."""
        info = cycle.pod
        self.cache.forget(info.uid)
        for plugin in reversed(self._of(info).plugins):
            state = cycle.active(plugin.name)
            if plugin.revert is not None and state is not None:
                plugin.revert(state)
        self.nominator.add(info, (info.pod.get("status") or {}).get("nominatedNodeName") or "")

    async def _unreserve(self, cycle: Cycle, plugins: Sequence[Plugin]) -> None:
        """In reverse order, as upstream does."""
        for plugin in reversed(plugins):
            state = cycle.active(plugin.name)
            if plugin.unreserve is not None and state is not None:
                await plugin.unreserve(cycle.pod, state)

    async def _bind(self, queued: QueuedPod, cycle: Cycle, node: NodeInfo) -> None:
        """The binding cycle. Whatever goes wrong gives back what was taken."""
        info = cycle.pod
        try:
            await self._pre_bind(cycle, node)
            if not (self._extenders and await self._extenders.bind(info, node.name)):
                await self._pod_writer.bind(info.pod, node.name)
        except (SchedulingError, ExtenderError) as error:
            await self._give_back(queued, cycle, str(error))
        except (StatusError, TransportError) as error:
            await self._give_back(queued, cycle, f'running Bind plugin "DefaultBinder": {error}')
        except Exception as error:
            log.exception("binding pod %s failed unexpectedly", info.key)
            await self._give_back(queued, cycle, unexpected(error))
        else:
            note = f"Successfully assigned {info.key} to {node.name}"
            self._of(info).recorder.record(info.pod, "Normal", "Scheduled", "Binding", note)

    async def _pre_bind(self, cycle: Cycle, node: NodeInfo) -> None:
        """What is written before the binding. Raises SchedulingError."""
        plugins = [p for p in self._of(cycle.pod).plugins if _writes(p, cycle.active(p.name))]
        if plugins and self._expects:
            await self._pod_writer.nominate(cycle.pod.pod, node.name)
        for plugin in plugins:
            assert plugin.pre_bind is not None
            try:
                await plugin.pre_bind(cycle.pod, cycle.active(plugin.name), node.name)
            except PluginError as error:
                raise SchedulingError(f'running PreBind plugin "{plugin.name}": {error}') from error

    async def _give_back(self, queued: QueuedPod, cycle: Cycle, text: str) -> None:
        self.cache.forget(cycle.pod.uid)
        await self._unreserve(cycle, self._of(cycle.pod).plugins)
        self._watching.place_became_free(cycle.pod)
        self.failed(queued, text, (), nominated="")

    # What becomes of a pod without a node
    # ---------------------------------------------------------------------------------

    async def _rejected(self, queued: QueuedPod, cycle: Cycle, diagnosis: Diagnosis) -> None:
        nominated: str | None = None
        try:
            diagnosis.postfilter, nominated = await self.postfilter(cycle, diagnosis)
        except PluginError as error:
            diagnosis.postfilter = str(error)
        except Exception as error:  # noqa: BLE001 - one pod's attempt fails, the others' go on
            self._failed_unexpectedly(queued, error)
            return
        self.failed(queued, diagnosis.text, diagnosis.plugins, nominated=nominated, rejected=True)

    async def postfilter(self, cycle: Cycle, diagnosis: Diagnosis) -> tuple[str, str | None]:
        """Can something be done? The text of what was tried, and the node that was made free. Raises PluginError."""
        texts: list[str] = []
        nominated: str | None = None
        for plugin in self._of(cycle.pod).plugins:
            if plugin.post_filter is None:
                continue
            result = await plugin.post_filter(cycle, diagnosis)
            if result.nominated:
                return "", result.nominated
            texts.append(result.text)
            nominated = result.nominated if result.nominated is not None else nominated
            if result.final:
                break
        return ", ".join(texts), nominated

    def _failed_unexpectedly(self, queued: QueuedPod, error: Exception) -> None:
        """A defect, or an object that should not exist: the pod is tried again after a backoff."""
        log.error("scheduling pod %s failed unexpectedly", queued.info.key, exc_info=error)
        self.failed(queued, unexpected(error), (), nominated="")

    def failed(
        self,
        queued: QueuedPod,
        text: str,
        plugins: Iterable[str],
        *,
        nominated: str | None,
        rejected: bool = False,
        backoff: bool = False,
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
            self.queue.put_back(queued, plugins, backoff=backoff)
        if nominated is not None:
            self.nominator.add(queued.info, nominated)
        if text != NO_NODES:
            log.debug("pod %s: %s", info.key, text)
        self._of(info).recorder.record(pod, "Warning", "FailedScheduling", "Scheduling", shortened(text))
        self._report(pod, "Unschedulable" if rejected else "SchedulerError", text, nominated)

    def _report(self, pod: Json, reason: str, text: str, nominated: str | None) -> None:
        """Writes the condition while the loop goes on; for one pod in order."""
        uid = pod["metadata"]["uid"]
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"

        async def report() -> None:
            current = self._pods.get(key)
            if current is None or current["metadata"]["uid"] != uid:
                current = pod
            await self._pod_writer.unscheduled(current, reason, text, nominated)

        self._writes.run(f"pod {uid}", report, f"the condition of pod {key}")


def _writes(plugin: Plugin, state: Any) -> bool:
    """Whether the plugin has something to write before the binding."""
    return plugin.pre_bind is not None and state is not None and (plugin.writes is None or plugin.writes(state))
