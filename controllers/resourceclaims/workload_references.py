"""Removes workload references from claims (KEP-5194, gate DRAReservedForWorkloads).

The reference to one of Kubernetes' workloads is removed from status.reservedFor once the workload is deleted or wants
no pods (finished, suspended, scaled to zero), and no pod uses the claim. The claim controller then deallocates the
claim, and the scheduler adds the reference again with the next pod. Authors of references to other kinds must remove
them; an event names such a reference.
"""

from __future__ import annotations

import asyncio
from typing import Final

from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.resourceclaims.generated_claims import RecentObjects
from controllers.resourceclaims.pods import claim_names, is_done
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_CLAIMS,
    STATEFUL_SETS,
    Kind,
    key_of,
)

NAME = "workload-references-controller"
GATE: Final = "DRAReservedForWorkloads"
_SCALED: Final = (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, REPLICATION_CONTROLLERS)
_KINDS: Final = {(kind.group, kind.plural): kind for kind in (JOBS, DAEMON_SETS, *_SCALED)}
_WITHOUT_PODS: Final = frozenset({"Complete", "Failed", "Suspended"})


def build(client: Client, informers: Informers, options: Options) -> WorkloadReferences:
    """Build the component."""
    return WorkloadReferences(client, informers, options)


class WorkloadReferences(ControllerComponent):
    """Reconciles the workload references of claims. Keys are claims. Inactive without the gate."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client, self._enabled = client.for_controller(NAME), options.features.enabled(GATE)
        self._with_groups = options.features.enabled("DRAWorkloadResourceClaims")
        self._controller = Controller(NAME, self.reconcile)
        if not self._enabled:
            return
        self._recorder = CoreEventRecorder(client, NAME)
        self._controller.alongside(self._recorder.run)
        self._reported = RecentObjects(1000)
        self._claims, self._pods = informers.of(RESOURCE_CLAIMS), informers.of(PODS)
        self._of_workload = self._claims.index("workload", lambda claim: [ref["uid"] for ref in _references(claim)])
        self._pods_of_claim = self._pods.index("claims", _claims_of)
        self._workloads = {kind: informers.of(kind) for kind in _KINDS.values()}
        self._controller.follow(self._claims, lambda claim: (key_of(claim),) if _consumers(claim) else ())
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
        if claim is None:
            return
        self._report_unknown(claim)
        references = _references(claim)
        if not references or any(not is_done(pod) for pod in self._pods_of_claim.get(key)):
            return
        namespace = claim["metadata"]["namespace"]
        finished = [ref["uid"] for ref in references if await self._is_finished(namespace, ref)]
        if finished:
            status = claim["status"]
            users = [user for user in status["reservedFor"] if user["uid"] not in finished]
            await self._client.update_status(RESOURCE_CLAIMS, {**claim, "status": {**status, "reservedFor": users}})

    def _report_unknown(self, claim: Json) -> None:
        """Record an event for each consumer whose end no controller of this cluster notices."""
        for user in _consumers(claim):
            kind = user.get("apiGroup", ""), user["resource"]
            followed = kind in _KINDS or (self._with_groups and kind == (POD_GROUPS.group, POD_GROUPS.plural))
            mark = f"{claim['metadata']['uid']}/{user['uid']}"
            if followed or mark in self._reported:
                continue
            self._reported.put(mark, user)
            label = ".".join(filter(None, (user["resource"], user.get("apiGroup"))))
            self._recorder.record(
                claim,
                "Warning",
                "UnknownConsumer",
                f'no controller removes {label} "{user["name"]}" from status.reservedFor;'
                f" remove it when no pod uses the claim, or the devices stay allocated",
            )

    async def _is_finished(self, namespace: str, ref: Json) -> bool:
        """Return whether the workload wants no pods. Its deletion is confirmed with the server."""
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
        return _wants_no_pods(kind, workload)


def _wants_no_pods(kind: Kind, workload: Json) -> bool:
    """Return whether the workload's controller is done until the spec changes, and has no pods."""
    status = workload.get("status") or {}
    if kind == JOBS:
        return any(one["type"] in _WITHOUT_PODS and one["status"] == "True" for one in status.get("conditions") or ())
    seen = status.get("observedGeneration", 0) >= workload["metadata"].get("generation", 0)
    return kind in _SCALED and seen and workload["spec"].get("replicas") == 0 and not status.get("replicas")


def _kind_of(ref: Json) -> Kind:
    return _KINDS[ref.get("apiGroup", ""), ref["resource"]]


def _consumers(claim: Json) -> list[Json]:
    """Return the consumers of a claim that are not pods."""
    users = (claim.get("status") or {}).get("reservedFor") or ()
    return [user for user in users if (user.get("apiGroup", ""), user["resource"]) != ("", PODS.plural)]


def _references(claim: Json) -> list[Json]:
    """Return the consumers of a claim that are workloads of known kinds."""
    return [user for user in _consumers(claim) if (user.get("apiGroup", ""), user["resource"]) in _KINDS]


def _claims_of(pod: Json) -> list[str]:
    return [f"{pod['metadata']['namespace']}/{name}" for name in claim_names(pod)]
