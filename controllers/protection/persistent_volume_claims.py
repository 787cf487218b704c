"""PVC protection: a deleted claim stays while a pod with a node uses it.

Facts: upstream's pkg/controller/volume/pvcprotection. Pods are listed from the server, because the informer may lack a
pod that was just bound.
"""

from __future__ import annotations

from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.protection.protection import Protection
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import PODS, VOLUME_CLAIMS
from controllers.volumes import is_controlled_by, pod_claims

NAME = "persistentvolumeclaim-protection-controller"
FINALIZER = "kubernetes.io/pvc-protection"


def build(client: Client, informers: Informers, options: Options) -> VolumeClaimProtection:
    """Build the component for the manager."""
    return VolumeClaimProtection(client, informers)


class VolumeClaimProtection(Protection):
    """The PVC protection controller."""

    def __init__(self, client: Client, informers: Informers) -> None:
        super().__init__(NAME, VOLUME_CLAIMS, FINALIZER, client, informers, queue="pvcprotection", adds=True)
        pods = informers.of(PODS)
        self._controller.require(pods)
        pods.on(updated=lambda _, pod: self._pod_updated(pod), deleted=self._pod_gone)

    def _pod_updated(self, pod: Json) -> None:
        if _is_shut_down(pod):
            self._pod_gone(pod)

    def _pod_gone(self, pod: Json) -> None:
        namespace = pod["metadata"]["namespace"]
        for name, _ in pod_claims(pod):
            self._controller.queue.add(f"{namespace}/{name}")

    async def is_in_use(self, key: str, obj: Json) -> bool:
        pods = await self._client.list(PODS, obj["metadata"]["namespace"])
        return any(_uses(pod, obj) for pod in pods["items"])


def _uses(pod: Json, claim: Json) -> bool:
    """Return whether a pod uses the claim.

    A pod without a node does not count: it can no longer start with a deleted claim.
    """
    if not pod["spec"].get("nodeName"):
        return False
    for name, made_for_pod in pod_claims(pod):
        if name == claim["metadata"]["name"] and not (
            made_for_pod and (_is_shut_down(pod) or not is_controlled_by(claim, pod))
        ):
            return True
    return False


def _is_shut_down(pod: Json) -> bool:
    """Return whether only finalizers keep the pod."""
    metadata = pod["metadata"]
    return bool(metadata.get("deletionTimestamp")) and metadata.get("deletionGracePeriodSeconds") == 0
