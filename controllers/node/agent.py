"""The kubelet's part for every emulated node: the node's own objects, and its pods from bind to Running to their end.

Keys are `node:NAME` and `pod:NS/NAME`. A pod starts when each of its claims is allocated and reserved for it.
Containers are not run: they are said to run until the pod is deleted, or for as long as the annotation
`kubedra.dev/exit-after` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

from controllers.claims.pods import ClaimReferenceError, claim_names, claim_reference, is_reserved_for_pod, not_for_pod
from controllers.node import podstatus
from controllers.node.addresses import PodAddresses
from controllers.node.annotations import exit_after, exit_code, is_emulated
from controllers.node.registration import Registration
from controllers.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.clock import Clock, go_time, parse_time
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, PODS, RESOURCE_CLAIMS, Json, key_of

NAME = "node-agent"
_TERMINAL = frozenset({"Succeeded", "Failed"})
#: When a pod whose claims are not ready is looked at again, should no event come first.
_RESYNC = timedelta(seconds=60)


class NodeAgent(ControllerComponent):
    """The component."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, clock: Clock, options: Options) -> None:
        self._client = client.named("kubelet")
        self._with_groups = options.features.enabled("DRAWorkloadResourceClaims")
        self._clock = clock
        self._nodes, self._pods = informers.of(NODES), informers.of(PODS)
        self._claims = informers.device_kind(RESOURCE_CLAIMS, options.features)
        self._pods_of_node = self._pods.index(
            "node", lambda pod: (pod["spec"]["nodeName"],) if pod["spec"].get("nodeName") else ()
        )
        self._pods_of_claim = self._pods.index("claims", _claim_keys)
        self._registration = Registration(client, informers, clock, options)
        self._addresses = PodAddresses()
        self._recorders: dict[str, CoreEventRecorder] = {}
        self._recording: asyncio.TaskGroup | None = None
        self._controller = Controller(NAME, self.reconcile, clock, workers=8)
        for informer in (self._nodes, self._pods, self._claims, self._registration.slices):
            self._controller.require(informer)
        self._nodes.on(self._node_changed, lambda _, node: self._node_changed(node))
        self._pods.on(self._pod_changed, lambda _, pod: self._pod_changed(pod), self._pod_gone)
        self._claims.on(self._claim_changed, lambda _, claim: self._claim_changed(claim))

    async def run(self) -> None:
        await self._registration.provision()
        async with asyncio.TaskGroup() as group:
            self._recording = group
            await self._controller.run()

    async def begin_anew(self) -> None:
        """The nodes that were asked for, once more: the store was emptied."""
        await self._registration.provision()

    def _node_changed(self, node: Json) -> None:
        if is_emulated(node):
            self._controller.queue.add(f"node:{key_of(node)}")
            for pod in self._pods_of_node.get(key_of(node)):
                self._controller.queue.add(f"pod:{key_of(pod)}")

    def _pod_changed(self, pod: Json) -> None:
        if pod["spec"].get("nodeName"):
            self._addresses.note(pod)
            self._controller.queue.add(f"pod:{key_of(pod)}")

    def _pod_gone(self, pod: Json) -> None:
        self._addresses.forget(pod)

    def _claim_changed(self, claim: Json) -> None:
        for pod in self._pods_of_claim.get(key_of(claim)):
            self._pod_changed(pod)

    async def reconcile(self, key: str) -> timedelta | None:
        kind, _, name = key.partition(":")
        if kind == "node":
            node = self._nodes.get(name)
            return await self._registration.keep(node) if node is not None and is_emulated(node) else None
        pod = self._pods.get(name)
        node = self._nodes.get(pod["spec"]["nodeName"]) if pod is not None else None
        if pod is None or node is None or not is_emulated(node):
            return None
        try:
            return await self._sync(pod, node)
        except Exception as error:
            # The pod was deleted by force meanwhile: there is nothing left to report on.
            if not is_reason(error, "NotFound"):
                raise
            return None

    async def _sync(self, pod: Json, node: Json) -> timedelta | None:
        phase = pod.get("status", {}).get("phase", "Pending")
        if pod["metadata"].get("deletionTimestamp"):
            await self._terminate(pod, phase)
            return None
        if phase in _TERMINAL:
            return None
        if phase == "Pending":
            return await self._start(pod, node)
        return await self._keep_running(pod)

    async def _start(self, pod: Json, node: Json) -> timedelta | None:
        if not pod.get("status", {}).get("startTime"):
            pod = await self._report(pod, podstatus.starting(pod, self._now(), _address(node)))
        problem = self._claim_problem(pod)
        if problem is not None:
            message = f"Failed to prepare dynamic resources: prepare dynamic resources: {problem}"
            self._recorder(pod).record(pod, "Warning", "FailedPrepareDynamicResources", message)
            return _RESYNC
        for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
            self._events_of_start(pod, container)
        address = _address(node) if pod["spec"].get("hostNetwork") else self._addresses.assign(pod)
        pod = await self._report(pod, podstatus.running(pod, self._now(), address))
        return exit_after(pod)

    def _events_of_start(self, pod: Json, container: Json) -> None:
        record = self._recorder(pod).record
        image = container.get("image", "")
        record(
            pod,
            "Normal",
            "Pulled",
            f'Container image "{image}" already present on machine and can be accessed by the pod',
        )
        record(pod, "Normal", "Created", "Container created")
        record(pod, "Normal", "Started", "Container started")

    def _claim_problem(self, pod: Json) -> str | None:
        """Why the pod's claims cannot be prepared, in the kubelet's words."""
        namespace = pod["metadata"]["namespace"]
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                reference = claim_reference(pod, entry)
            except ClaimReferenceError as error:
                return str(error)
            name = reference.name
            if name is None:
                continue
            claim = self._claims.get(f"{namespace}/{name}")
            if claim is None:
                return (
                    f"failed to fetch ResourceClaim {name} referenced by pod {pod['metadata']['name']}:"
                    f' resourceclaims.resource.k8s.io "{name}" not found'
                )
            if reference.check_owner and (reason := not_for_pod(pod, claim, self._with_groups)):
                return reason
            if not is_reserved_for_pod(pod, claim, self._with_groups):
                return (
                    f"pod {pod['metadata']['name']}({pod['metadata']['uid']}) is not allowed to use ResourceClaim"
                    f" {name}({claim['metadata']['uid']})"
                )
            if "allocation" not in claim.get("status", {}):
                return f"ResourceClaim {name} is not allocated"
        return None

    async def _keep_running(self, pod: Json) -> timedelta | None:
        """End a pod whose time has come; pods without `exit-after` run on."""
        after = exit_after(pod)
        if after is None:
            return None
        statuses = pod["status"].get("containerStatuses") or ()
        started = [s["state"]["running"]["startedAt"] for s in statuses if "running" in s.get("state", {})]
        left = after - (self._clock.now() - parse_time(max(started))) if started else timedelta()
        if left > timedelta():
            return left
        await self._report(pod, podstatus.ended(pod, self._now(), exit_code(pod)))
        return None

    async def _terminate(self, pod: Json, phase: str) -> None:
        if phase not in _TERMINAL:
            for container in pod["spec"]["containers"] if phase == "Running" else ():
                self._recorder(pod).record(pod, "Normal", "Killing", f"Stopping container {container['name']}")
            pod = await self._report(pod, podstatus.ended(pod, self._now(), 0))
        meta = pod["metadata"]
        try:
            await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"], grace_period=0)
        except Exception as error:
            if not is_reason(error, "NotFound", "Conflict"):
                raise

    async def _report(self, pod: Json, status: Json) -> Json:
        meta = pod["metadata"]
        return await self._client.patch(
            PODS,
            meta["name"],
            {"metadata": {"uid": meta["uid"]}, "status": status},
            meta["namespace"],
            subresource="status",
        )

    def _now(self) -> str:
        return go_time(self._clock.now())

    def _recorder(self, pod: Json) -> CoreEventRecorder:
        """Events come from the kubelet of the pod's node."""
        node = pod["spec"]["nodeName"]
        if node not in self._recorders:
            recorder = self._recorders[node] = CoreEventRecorder(self._client, self._clock, "kubelet", node)
            assert self._recording is not None
            self._recording.create_task(recorder.run())
        return self._recorders[node]


def _claim_keys(pod: Json) -> Iterator[str]:
    return (f"{pod['metadata']['namespace']}/{name}" for name in claim_names(pod))


def _address(node: Json) -> str:
    addresses = node.get("status", {}).get("addresses") or ()
    return next((a["address"] for a in addresses if a["type"] == "InternalIP"), "127.0.0.1")
