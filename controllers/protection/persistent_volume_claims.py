"""Protection of claims on volumes: a deleted claim stays while a pod that has a node uses it.

Facts: upstream's pkg/controller/volume/pvcprotection. The pods of the claim's namespace are asked of the server: the
informer may not know yet of the pod that was bound a moment ago.
"""

from __future__ import annotations

from controllers.options.options import Options
from controllers.protection.protection import Protection
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import PODS, VOLUME_CLAIMS, Json
from controllers.volumes import is_controlled_by, pod_claims

NAME = "persistentvolumeclaim-protection-controller"
FINALIZER = "kubernetes.io/pvc-protection"


def build(client: Client, informers: Informers, options: Options) -> VolumeClaimProtection:
    """The component, for the manager."""
    return VolumeClaimProtection(client, informers)


class VolumeClaimProtection(Protection):
    """The component."""

    def __init__(self, client: Client, informers: Informers) -> None:
        super().__init__(NAME, VOLUME_CLAIMS, FINALIZER, client, informers, queue="pvcprotection")
        pods = informers.of(PODS)
        self._controller.require(pods)
        pods.on(updated=lambda _, pod: self._shut_down(pod), deleted=self._gone)

    def _shut_down(self, pod: Json) -> None:
        if _is_shut_down(pod):
            self._gone(pod)

    def _gone(self, pod: Json) -> None:
        namespace = pod["metadata"]["namespace"]
        for name, _ in pod_claims(pod):
            self._controller.queue.add(f"{namespace}/{name}")

    async def in_use(self, key: str, obj: Json) -> bool:
        pods = await self._client.list(PODS, obj["metadata"]["namespace"])
        return any(_uses(pod, obj) for pod in pods["items"])


def _uses(pod: Json, claim: Json) -> bool:
    """A pod without a node will not start any more with a claim that is deleted, so it does not count."""
    if not pod["spec"].get("nodeName"):
        return False
    for name, made_for_pod in pod_claims(pod):
        if name == claim["metadata"]["name"] and not (
            made_for_pod and (_is_shut_down(pod) or not is_controlled_by(claim, pod))
        ):
            return True
    return False


def _is_shut_down(pod: Json) -> bool:
    """Its node is done with it, or nobody waits for that: only finalizers keep it."""
    metadata = pod["metadata"]
    return bool(metadata.get("deletionTimestamp")) and metadata.get("deletionGracePeriodSeconds") == 0
