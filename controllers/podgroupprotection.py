"""PodGroup protection: a deleted group stays until no pod that may still run belongs to it.

The API server's admission gives new groups the finalizer; this takes it away. Without the gate GenericWorkload the component does nothing. Facts:
upstream's pkg/controller/scheduling/podgroupprotection.
"""

from __future__ import annotations

import asyncio

from controllers.claims.pods import group_key
from controllers.options import Options
from controllers.runtime.client import Client
from controllers.runtime.clock import Clock
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import POD_GROUPS, PODS, Json

NAME = "podgroup-protection-controller"
GATE = "GenericWorkload"
FINALIZER = "scheduling.k8s.io/podgroup-protection"


def build(client: Client, informers: Informers, clock: Clock, options: Options) -> PodGroupProtection:
    """The component, for the manager."""
    return PodGroupProtection(client, informers, clock, enabled=options.features.enabled(GATE))


def _ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


class PodGroupProtection(ControllerComponent):
    """The component. Keys are those of groups."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, clock: Clock, *, enabled: bool) -> None:
        self._client, self._enabled = client.named(NAME), enabled
        self._controller = Controller(NAME, self.reconcile, clock, queue="podgroupprotection")
        if enabled:
            self._groups, pods = informers.of(POD_GROUPS), informers.of(PODS)
            self._active = pods.index("active members", lambda pod: () if _ended(pod) or not (key := group_key(pod)) else (key,))
            self._controller.follow(self._groups)
            self._controller.require(pods)
            pods.on(self._pod_ended, lambda _, pod: self._pod_ended(pod), self._pod_gone)

    async def run(self) -> None:
        if self._enabled:
            await self._controller.run()
        else:
            await asyncio.Event().wait()

    def _pod_ended(self, pod: Json) -> None:
        if _ended(pod):
            self._pod_gone(pod)

    def _pod_gone(self, pod: Json) -> None:
        if key := group_key(pod):
            self._controller.queue.add(key)

    async def reconcile(self, key: str) -> None:
        group = self._groups.get(key)
        metadata = group["metadata"] if group is not None else {}
        finalizers = metadata.get("finalizers") or ()
        if not metadata.get("deletionTimestamp") or FINALIZER not in finalizers or self._active.keys(key):
            return
        rest = [name for name in finalizers if name != FINALIZER]
        await self._client.update(POD_GROUPS, {**(group or {}), "metadata": {**metadata, "finalizers": rest}})
