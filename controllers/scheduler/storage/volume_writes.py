"""The writes of VolumeBinding before the binding: volumes and claims; then it waits for their binding."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.kinds import VOLUME_CLAIMS, VOLUMES, key_of
from controllers.runtime.transport import TransportError
from controllers.scheduler.framework.framework import PluginError
from controllers.scheduler.state.pod_info import PodInfo
from controllers.scheduler.storage.binding_plugin import NodeVolumes, VolumeState, volume_reaches
from controllers.scheduler.storage.volumes import VolumeCache
from controllers.scheduler.writes.waiting_pods import Waits
from controllers.volumes import SELECTED_NODE, annotations_of, is_fully_bound

BIND_TIMEOUT: Final = timedelta(seconds=600)


class VolumeWriter:
    """The writes of one scheduler. `pods` and `nodes` return existing objects by key."""

    def __init__(
        self,
        client: Client,
        volumes: VolumeCache,
        pods: Callable[[str], Json | None],
        nodes: Callable[[str], Json | None],
        timeout: timedelta = BIND_TIMEOUT,
        waits: Waits | None = None,
    ) -> None:
        self._waits = waits or Waits()
        self._client, self._volumes, self._timeout = client, volumes, timeout
        self._pods, self._nodes = pods, nodes

    async def pre_bind(self, pod: PodInfo, state: VolumeState, node: str) -> None:
        """Write the chosen volumes and claims and wait until all are bound. Raise PluginError."""
        chosen = state.chosen
        if chosen is None:
            return
        try:
            for position, (volume, claim) in enumerate(chosen.bindings):
                chosen.bindings[position] = await self._client.update(VOLUMES, volume), claim
            for position, claim in enumerate(chosen.provisions):
                chosen.provisions[position] = await self._client.update(VOLUME_CLAIMS, claim)
        except (StatusError, TransportError) as error:
            raise PluginError(str(error)) from error
        try:
            with self._waits.of(pod.uid, "binding volumes: "):
                async with asyncio.timeout(self._timeout.total_seconds()):
                    while not self._is_bound(pod, chosen, node):
                        await self._volumes.change()
        except TimeoutError as error:
            raise PluginError("binding volumes: context deadline exceeded") from error

    def _is_bound(self, pod: PodInfo, chosen: NodeVolumes, node: str) -> bool:
        """Return whether all are bound. Raise PluginError for one that can no longer be bound."""
        raw = self._nodes(node)
        if raw is None:
            raise PluginError(f'binding volumes: failed to get node "{node}": node "{node}" not found')
        if self._pods(pod.key) is None:
            raise PluginError(f'binding volumes: pod does not exist any more: pod "{pod.name}" not found')
        everything = True
        for volume, claim in chosen.bindings:
            everything &= self._volume_is_bound(volume, claim, raw)
        for claim in chosen.provisions:
            everything &= self._claim_is_bound(claim, raw)
        return everything

    def _volume_is_bound(self, written: Json, claim: Json, node: Json) -> bool:
        volume = self._volumes.volumes.informer.get(key_of(written))
        newest = self._volumes.claims.informer.get(key_of(claim))
        if volume is None or newest is None:
            gone = key_of(written) if volume is None else key_of(claim)
            raise PluginError(f'binding volumes: failed to check binding: "{gone}" not found')
        if _version(volume) < _version(written):
            return False
        _check_reach(volume, node)
        if not (volume["spec"].get("claimRef") or {}).get("uid"):
            raise PluginError(f'binding volumes: ClaimRef got reset for pv "{volume["metadata"]["name"]}"')
        return is_fully_bound(newest)

    def _claim_is_bound(self, written: Json, node: Json) -> bool:
        claim = self._volumes.claims.informer.get(key_of(written))
        if claim is None:
            raise PluginError(f'binding volumes: failed to check provisioning pvc: "{key_of(written)}" not found')
        if _version(claim) < _version(written):
            return False
        name = claim["metadata"]["name"]
        if annotations_of(claim).get(SELECTED_NODE) != node["metadata"]["name"]:
            # The provisioner reports its failure by removing the annotation.
            raise PluginError(f'binding volumes: provisioning failed for PVC "{name}"')
        if volume_name := claim["spec"].get("volumeName"):
            volume = self._volumes.volumes.informer.get(volume_name)
            if volume is None:
                return False
            _check_reach(volume, node)
        return is_fully_bound(claim)


def _check_reach(volume: Json, node: Json) -> None:
    if not volume_reaches(volume, node):
        names = volume["metadata"]["name"], node["metadata"]["name"]
        raise PluginError(
            'binding volumes: pv "{}" node affinity doesn\'t match node "{}": no matching NodeSelectorTerms'.format(
                *names
            )
        )


def _version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])
