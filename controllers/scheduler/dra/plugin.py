"""The plugin DynamicResources: devices for pods with resource claims.

It combines the decisions of `dynamic_resources.py` and the writes of `claim_writes.py`.
"""

from __future__ import annotations

from typing import Any

from apiserver.api.errors.status import StatusError
from controllers.runtime.events import EventRecorder
from controllers.runtime.transport import TransportError
from controllers.scheduler.dra.claim_writes import ClaimWriter
from controllers.scheduler.dra.dynamic_resources import CANNOT_ALLOCATE, NAME, DynamicResources
from controllers.scheduler.dra.state import DynamicState
from controllers.scheduler.framework.framework import (
    SKIP,
    Cycle,
    Plugin,
    PluginError,
    PostFilterResult,
    Reads,
    node_field,
)
from controllers.scheduler.framework.scores import normalized_up
from controllers.scheduler.framework.status import Diagnosis, Rejection
from controllers.scheduler.state.nodes import NodeInfo
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.writes.pods import PodWriter
from controllers.scheduler.writes.waiting_pods import Waits


class ClaimBinding:
    """The writes to claims before the binding of a pod and after its failure."""

    def __init__(self, writer: ClaimWriter, pods: PodWriter, recorder: EventRecorder, waits: Waits) -> None:
        self._writer, self._pods, self._recorder, self._waits = writer, pods, recorder, waits

    async def pre_bind(self, pod: PodInfo, state: DynamicState, node: str) -> None:
        """Write the claims and wait until the devices are ready. Raise PluginError."""
        await self._writer.bind(pod, state)
        if state.special is not None and state.chosen is not None:
            name = state.claims[state.special]["metadata"]["name"]
            await self._pods.write_extended_claim(pod.pod, name, state.chosen.mappings)
        if state.statuses:
            await self._pods.write_node_resources(pod.pod, state.statuses)
        if self._writer.waits_for_devices(state):
            note = f"waiting for binding conditions for device on node {node}"
            self._recorder.record(pod.pod, "Normal", "BindingConditionsPending", "Scheduling", note)
            with self._waits.of(pod.uid):
                await self._writer.wait_for_devices(state)

    async def unreserve(self, pod: PodInfo, state: DynamicState) -> None:
        await self._writer.unreserve(pod, state)
        if state.statuses:
            await self._pods.clear_node_resources(pod.pod)

    async def post_filter(self, cycle: Cycle, _: Diagnosis) -> PostFilterResult:
        """Deallocate a claim that keeps the pod off every node. Raise PluginError."""
        if NAME not in cycle.states:
            return PostFilterResult("not found", final=True)
        state = cycle.active(NAME)
        if state is None:
            return PostFilterResult("no new claims to deallocate")
        try:
            return PostFilterResult(await self._writer.deallocate(cycle.pod, state))
        except (StatusError, TransportError) as error:
            raise PluginError(str(error)) from error


def _shape(state: Any) -> bytes | None:
    """Return the shape of the state; None for allocated claims: their verdicts change with the claims."""
    shape: bytes | None = b"" if state is SKIP else state.shape
    return shape


def dynamic_resources(devices: DynamicResources, binding: ClaimBinding | None = None, *, scores: bool = True) -> Plugin:
    """Build the plugin; without `binding` it only decides. `scores`: earlier alternatives are preferred."""

    def reserve(pod: PodInfo, state: DynamicState, node: NodeInfo) -> Rejection | None:
        return None if devices.reserve(pod, state, node) else CANNOT_ALLOCATE

    read = (node_field("metadata", "labels"), node_field("status", "allocatable"))
    return Plugin(
        name=NAME,
        # The pod's claims are not declared as pod fields: their content is the shape of the state.
        reads=Reads(node=read, devices=True, pods_on_node=devices.node_resources is not None),
        pre_enqueue=lambda pod: not pod.has_claims or devices.problem(pod.pod) is None,
        pre_filter=devices.prefilter,
        shape=_shape,
        filter=devices.rejection,
        pre_score=lambda _, state: state if scores and state is not None and state.scores else SKIP,
        score=devices.score,
        normalize=normalized_up,
        weight=2,
        reserve=reserve,
        assumed=devices.assumed,
        unreserve=binding.unreserve if binding else None,
        revert=devices.unreserve,
        pre_bind=binding.pre_bind if binding else None,
        post_filter=binding.post_filter if binding else None,
        hints=devices.hints,
    )
