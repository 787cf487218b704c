"""Removes workload references from claims (KEP-5194, gate DRAReservedForWorkloads).

The reference to a Job, Deployment or StatefulSet is removed from status.reservedFor once the workload is deleted or the
Job finished, and no pod uses the claim. The claim controller then deallocates the claim. Authors of references to other
kinds must remove them.
"""

from __future__ import annotations

import asyncio
from typing import Final

from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.resourceclaims.pods import claim_names, is_done
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import DEPLOYMENTS, JOBS, PODS, RESOURCE_CLAIMS, STATEFUL_SETS, Kind, key_of

NAME = "workload-references-controller"
GATE: Final = "DRAReservedForWorkloads"
_KINDS: Final = {(kind.group, kind.plural): kind for kind in (JOBS, DEPLOYMENTS, STATEFUL_SETS)}
_FINISHED: Final = frozenset({"Complete", "Failed"})


def build(client: Client, informers: Informers, options: Options) -> WorkloadReferences:
    """Build the component."""
    return WorkloadReferences(client, informers, enabled=options.features.enabled(GATE))


class WorkloadReferences(ControllerComponent):
    """Reconciles the workload references of claims. Keys are claims. Inactive without the gate."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, *, enabled: bool) -> None:
        self._client, self._enabled = client.for_controller(NAME), enabled
        self._controller = Controller(NAME, self.reconcile)
        if not enabled:
            return
        self._claims, self._pods = informers.of(RESOURCE_CLAIMS), informers.of(PODS)
        self._of_workload = self._claims.index("workload", lambda claim: [ref["uid"] for ref in _references(claim)])
        self._pods_of_claim = self._pods.index("claims", _claims_of)
        self._workloads = {kind: informers.of(kind) for kind in _KINDS.values()}
        self._controller.follow(self._claims, lambda claim: (key_of(claim),) if _references(claim) else ())
        self._controller.follow(self._pods, lambda pod: _claims_of(pod) if pod["spec"].get("resourceClaims") else ())
        for informer in self._workloads.values():
            self._controller.follow(informer, self._claims_for)

    def _claims_for(self, workload: Json) -> list[str]:
        return [key_of(claim) for claim in self._of_workload.get(workload["metadata"]["uid"])]

    async def run(self) -> None:
        if self._enabled:
            await super().run()
        else:
            await asyncio.Event().wait()

    async def reconcile(self, key: str) -> None:
        claim = self._claims.get(key)
        references = _references(claim) if claim is not None else []
        if claim is None or not references or any(not is_done(pod) for pod in self._pods_of_claim.get(key)):
            return
        namespace = claim["metadata"]["namespace"]
        finished = [ref["uid"] for ref in references if await self._is_finished(namespace, ref)]
        if finished:
            status = claim["status"]
            users = [user for user in status["reservedFor"] if user["uid"] not in finished]
            await self._client.update_status(RESOURCE_CLAIMS, {**claim, "status": {**status, "reservedFor": users}})

    async def _is_finished(self, namespace: str, ref: Json) -> bool:
        """Return whether the workload creates no more pods. Its deletion is confirmed with the server."""
        kind = _kind_of(ref)
        workload = self._workloads[kind].get(f"{namespace}/{ref['name']}")
        if workload is None or workload["metadata"]["uid"] != ref["uid"]:
            try:
                workload = await self._client.get(kind, ref["name"], namespace)
            except Exception as error:
                if not is_reason(error, "NotFound"):
                    raise
                return True
        if workload["metadata"]["uid"] != ref["uid"]:
            return True
        conditions = (workload.get("status") or {}).get("conditions") or ()
        return kind == JOBS and any(one["type"] in _FINISHED and one["status"] == "True" for one in conditions)


def _kind_of(ref: Json) -> Kind:
    return _KINDS[ref.get("apiGroup", ""), ref["resource"]]


def _references(claim: Json) -> list[Json]:
    """Return the consumers of a claim that are workloads of known kinds."""
    users = (claim.get("status") or {}).get("reservedFor") or ()
    return [user for user in users if (user.get("apiGroup", ""), user["resource"]) in _KINDS]


def _claims_of(pod: Json) -> list[str]:
    return [f"{pod['metadata']['namespace']}/{name}" for name in claim_names(pod)]
