"""The desired replicas of a pod's owner.

ReplicationControllers, ReplicaSets, Deployments and StatefulSets come from informers, other kinds from their scale
subresource. Facts: upstream's pkg/controller/disruption.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.resourceclaims.pods import controller_of
from controllers.runtime.client import Client
from controllers.runtime.controller import Controller
from controllers.runtime.discovery import served_at, serves
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS

_KNOWN = (REPLICATION_CONTROLLERS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)


class Scale(NamedTuple):
    """An object and its desired replicas."""

    uid: str
    replicas: int


class ScaleError(Exception):
    """The desired replicas of a pod's owner are unknown; the text gives the reason."""


class Scales:
    """The lookup of scales. `client` reads the kinds without informer."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._informers = {(kind.group, kind.kind): informers.of(kind) for kind in _KNOWN}

    def require(self, controller: Controller) -> None:
        """Make the controller wait for the informers."""
        for informer in self._informers.values():
            controller.require(informer)

    async def of(self, owner: Mapping[str, Any], namespace: str) -> Scale | None:
        """Return the scale of a controller reference, or of the Deployment that owns the ReplicaSet.

        Return None if the object is gone or was replaced. Raise ScaleError or StatusError.
        """
        found = self._find_known(owner, namespace)
        if found is not None:
            above = controller_of(found) if owner["kind"] == REPLICA_SETS.kind else None
            if above is not None and above["kind"] == DEPLOYMENTS.kind:
                deployment = self._find_known(above, namespace)
                if deployment is not None:
                    return _scale(deployment)
            else:
                return _scale(found)
        return await self._read_scale(owner, namespace)

    def _find_known(self, owner: Mapping[str, Any], namespace: str) -> Json | None:
        group = owner["apiVersion"].rpartition("/")[0]
        informer = self._informers.get((group, owner["kind"]))
        found = informer.get(f"{namespace}/{owner['name']}") if informer is not None else None
        return found if found is not None and found["metadata"]["uid"] == owner["uid"] else None

    async def _read_scale(self, owner: Mapping[str, Any], namespace: str) -> Scale | None:
        kind = await served_at(self._client, owner["apiVersion"], owner["kind"])
        if kind is None:
            raise ScaleError(f'no matches for kind "{owner["kind"]}" in version "{owner["apiVersion"]}"')
        try:
            scale = await self._client.request("GET", kind.path(namespace, owner["name"], "scale"))
        except StatusError as error:
            if error.code != 404:
                raise
            if not await serves(self._client, kind, "scale"):
                raise ScaleError(f"{kind} does not implement the scale subresource") from None
            return None
        if scale["metadata"].get("uid") != owner["uid"]:
            return None
        return Scale(owner["uid"], (scale.get("spec") or {}).get("replicas", 0))


def _scale(obj: Json) -> Scale:
    return Scale(obj["metadata"]["uid"], obj["spec"].get("replicas", 0))
