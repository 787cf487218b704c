"""PodGroup protection: a deleted group stays while it has a pod that may still run.

Admission in the API server adds the finalizer; this controller removes it. Without the gate GenericWorkload it does
nothing. Facts: upstream's pkg/controller/scheduling/podgroupprotection.
"""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.protection.protection import Protection
from controllers.resourceclaims.pods import group_key
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import POD_GROUPS, PODS

NAME = "podgroup-protection-controller"
GATE = "GenericWorkload"
FINALIZER = "scheduling.k8s.io/podgroup-protection"


def build(client: Client, informers: Informers, options: Options) -> PodGroupProtection:
    """Build the component for the manager."""
    return PodGroupProtection(client, informers, enabled=options.features.enabled(GATE))


def _has_ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


class PodGroupProtection(Protection):
    """The PodGroup protection controller."""

    def __init__(self, client: Client, informers: Informers, *, enabled: bool) -> None:
        super().__init__(NAME, POD_GROUPS, FINALIZER, client, informers, queue="podgroupprotection", enabled=enabled)
        if enabled:
            pods = informers.of(PODS)
            self._active = pods.index(
                "active members", lambda pod: () if _has_ended(pod) or not (key := group_key(pod)) else (key,)
            )
            self._controller.require(pods)
            pods.on(self._pod_ended, lambda _, pod: self._pod_ended(pod), self._pod_gone)

    async def is_in_use(self, key: str, obj: Json) -> bool:
        return bool(self._active.keys(key))

    def _pod_ended(self, pod: Json) -> None:
        if _has_ended(pod):
            self._pod_gone(pod)

    def _pod_gone(self, pod: Json) -> None:
        if key := group_key(pod):
            self._controller.queue.add(key)
