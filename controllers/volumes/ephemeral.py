"""Creates the claims of ephemeral volumes, named after pod and volume.

Facts: upstream's pkg/controller/volume/ephemeral.
"""

from __future__ import annotations

from collections.abc import Sequence

from apiserver.api.helpers.pod_lifecycle import is_finished
from apiserver.api.objects import Json
from apiserver.runtime.metrics import Counter, Family
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent, NotYetError
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import PODS, VOLUME_CLAIMS, key_of
from controllers.volumes import is_controlled_by, not_for_pod

NAME = "ephemeral-volume-controller"


def build(client: Client, informers: Informers, options: Options) -> EphemeralVolumes:
    """Build the component for the manager."""
    return EphemeralVolumes(client, informers, options)


class EphemeralVolumes(ControllerComponent):
    """The ephemeral volume controller. Keys are those of pods."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller(NAME)
        self._pods, self._claims = informers.of(PODS), informers.of(VOLUME_CLAIMS)
        self._recorder = CoreEventRecorder(self._client, NAME)
        self._created = Counter("ephemeral_volume_controller_create_total", "Attempted creations of claims.")
        self._failed = Counter("ephemeral_volume_controller_create_failures_total", "Failed creations of claims.")
        self._controller = Controller(NAME, self.reconcile, workers=options.workers(NAME), queue="ephemeral_volume")
        self._controller.alongside(self._recorder.run)
        self._controller.follow(self._pods, lambda pod: (key_of(pod),) if _volumes(pod) else ())
        self._controller.require(self._claims)
        self._claims.on(deleted=self._claim_gone)

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, self._created, self._failed)

    def _claim_gone(self, claim: Json) -> None:
        for owner in claim["metadata"].get("ownerReferences") or ():
            if owner.get("controller") and owner["kind"] == "Pod":
                self._controller.queue.add(f"{claim['metadata']['namespace']}/{owner['name']}")

    async def reconcile(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or pod["metadata"].get("deletionTimestamp") or is_finished(pod):
            return
        for volume in _volumes(pod):
            await self._ensure(pod, volume)

    async def _ensure(self, pod: Json, volume: Json) -> None:
        wanted = ephemeral_claim(pod, volume)
        known = self._claims.get(key_of(wanted))
        if known is None:
            self._created.inc()
            try:
                known = await self._client.create(VOLUME_CLAIMS, wanted)
            except Exception as error:
                self._failed.inc()
                if not is_reason(error, "AlreadyExists"):
                    note = f"ephemeral volume {volume['name']}: create PVC {wanted['metadata']['name']}: {error}"
                    self._recorder.record(pod, "Warning", "ProvisioningFailed", note)
                    raise
                known = await self._client.get(VOLUME_CLAIMS, wanted["metadata"]["name"], pod["metadata"]["namespace"])
        if not is_controlled_by(known, pod):
            raise NotYetError(f"ephemeral volume {volume['name']}: {not_for_pod(pod, known)}")


def _volumes(pod: Json) -> list[Json]:
    return [volume for volume in pod["spec"].get("volumes") or () if volume.get("ephemeral")]


def ephemeral_claim(pod: Json, volume: Json) -> Json:
    """Build the claim of a pod's ephemeral volume."""
    template, owner = volume["ephemeral"]["volumeClaimTemplate"], pod["metadata"]
    given = template.get("metadata") or {}
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner["name"], "uid": owner["uid"], "controller": True,
                 "blockOwnerDeletion": True}  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"{owner['name']}-{volume['name']}",
            "namespace": owner["namespace"],
            **{field: given[field] for field in ("labels", "annotations") if given.get(field)},
            "ownerReferences": [reference],
        },
        "spec": template["spec"],
    }
