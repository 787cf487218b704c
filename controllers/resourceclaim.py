"""The resource claim controller: claims for pods from templates, reservations given up when their pods are done.

Keys are `pod:NS/NAME` and `claim:NS/NAME`. What a pod's claims are called stands in its status.resourceClaimStatuses, written by strategic
merge so that entries of other rounds survive. Facts: upstream's pkg/controller/resourceclaim. Differs: entries are merged, not applied, and a pod
that is done gets no new claims (upstream keeps it from them by remembering those that it created).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from apiserver.api.metrics import Family
from controllers.claims.metrics import ClaimMetrics
from controllers.claims.pods import (
    FINALIZER,
    POD_CLAIM_NAME,
    ClaimNotCreated,
    ClaimReferenceError,
    bind_to,
    claim_names,
    claim_reference,
    controller_of,
    is_done,
    is_reserved_for_pod,
    not_for_pod,
)
from controllers.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.clock import Clock
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Json, key_of, split_key

NAME = "resourceclaim-controller"
_MANAGER = "ResourceClaimController"
#: A generated name leaves room for the server's five characters and a dash.
_LONGEST_BASE = 57


class Remembered(OrderedDict[str, Json]):
    """The last `size` objects that were put in, by key: what this process did and no informer shows yet, or no longer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def put(self, key: str, obj: Json) -> None:
        self[key] = obj
        self.move_to_end(key)
        if len(self) > self.size:
            self.popitem(last=False)


def base_name(pod: str, entry: str) -> str:
    """generateName of a generated claim: `POD-ENTRY-`; where that is too long, both parts are cut in proportion, to a letter at least."""
    base = f"{pod}-{entry}-"
    if len(base) <= _LONGEST_BASE:
        return base

    def cut(part: str) -> str:
        return part[: max(1, len(part) * _LONGEST_BASE // len(base))]

    return f"{cut(pod)}-{cut(entry)}"


def generated_claim(pod: Json, entry: str, template: Json) -> Json:
    """The claim that a template gives for one entry of a pod."""
    meta, wanted = pod["metadata"], template["spec"]
    labels = wanted.get("metadata", {}).get("labels")
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": base_name(meta["name"], entry),
            "namespace": meta["namespace"],
            "annotations": {**(wanted.get("metadata", {}).get("annotations") or {}), POD_CLAIM_NAME: entry},
            **({"labels": labels} if labels else {}),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}],
        },
        "spec": wanted["spec"],
    }


def build(client: Client, informers: Informers, clock: Clock, options: Options) -> ResourceClaims:
    """The component, for the manager."""
    return ResourceClaims(client, informers, clock, options.features)


class ResourceClaims(ControllerComponent):
    """The component. `features` answers `enabled(gate)`."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, clock: Clock, features: Any) -> None:
        self._client = client.named(_MANAGER)
        self._features = features
        self._recorder = CoreEventRecorder(client, clock, "resource_claim")
        self._pods, self._claims, self._templates = (informers.of(kind) for kind in (PODS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES))
        self._pods_of_claim = self._pods.index("claims", lambda pod: (f"{pod['metadata']['namespace']}/{name}" for name in claim_names(pod)))
        self._pods_of_template = self._pods.index("claim templates", _templates_of)
        self._claims_of_owner = self._claims.index("controller uid", lambda claim: (ref["uid"],) if (ref := controller_of(claim)) else ())
        self._created = Remembered(100)
        self._gone = Remembered(500)
        self._controller = Controller(NAME, self.reconcile, clock, workers=10, queue="resource_claim")
        self._counted = ClaimMetrics(self._claims)
        for informer in (self._pods, self._claims, self._templates):
            self._controller.require(informer)
        self._pods.on(self._pod_changed, lambda _, pod: self._pod_changed(pod), self._pod_deleted)
        self._claims.on(self._claim_changed, lambda _, claim: self._claim_changed(claim), self._claim_deleted)
        self._templates.on(self._template_changed, lambda _, template: self._template_changed(template))

    @property
    def metrics(self) -> Sequence[Family]:
        return (*self._controller.metrics, *self._counted.families)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(self._controller.run())

    # What happened, and whose work it is.

    def _pod_changed(self, pod: Json) -> None:
        if not (pod["spec"].get("resourceClaims") or pod.get("status", {}).get("extendedResourceClaimStatus")):
            return
        if is_done(pod):
            self._queue_claims(pod)
        if self._needs_work(pod):
            self._controller.queue.add(f"pod:{key_of(pod)}")

    def _pod_deleted(self, pod: Json) -> None:
        if pod["spec"].get("resourceClaims") or pod.get("status", {}).get("extendedResourceClaimStatus"):
            self._gone.put(pod["metadata"]["uid"], pod)
            self._queue_claims(pod)

    def _queue_claims(self, pod: Json) -> None:
        for name in claim_names(pod):
            self._controller.queue.add(f"claim:{pod['metadata']['namespace']}/{name}")

    def _claim_changed(self, claim: Json) -> None:
        self._created.pop(claim["metadata"]["uid"], None)
        self._controller.queue.add(f"claim:{key_of(claim)}")
        self._claim_deleted(claim)

    def _claim_deleted(self, claim: Json) -> None:
        for pod in self._pods_of_claim.get(key_of(claim)):
            self._pod_changed(pod)

    def _template_changed(self, template: Json) -> None:
        for pod in self._pods_of_template.get(key_of(template)):
            self._pod_changed(pod)

    def _needs_work(self, pod: Json) -> bool:
        if pod["metadata"].get("deletionTimestamp") or is_done(pod):
            return False
        return any(self._entry_needs_work(pod, entry) for entry in pod["spec"].get("resourceClaims") or ())

    def _entry_needs_work(self, pod: Json, entry: Json) -> bool:
        try:
            reference = claim_reference(pod, entry)
        except ClaimReferenceError:
            return True
        if reference.name is None:
            return False
        claim = self._claims.get(f"{pod['metadata']['namespace']}/{reference.name}")
        if claim is None:
            return reference.check_owner
        if reference.check_owner and not_for_pod(pod, claim):
            return False
        allocated = "allocation" in claim.get("status", {})
        return bool(pod["spec"].get("nodeName")) and allocated and not is_reserved_for_pod(pod, claim)

    # The work.

    async def reconcile(self, key: str) -> None:
        kind, _, name = key.partition(":")
        if kind == "pod":
            pod = self._pods.get(name)
            if pod is not None and not pod["metadata"].get("deletionTimestamp"):
                await self._sync_pod(pod)
        else:
            claim = self._claims.get(name)
            if claim is not None:
                await self._sync_claim(claim)

    async def _sync_pod(self, pod: Json) -> None:
        meta, named = pod["metadata"], {}
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                name = await self._ensure_claim(pod, entry)
            except Exception as error:
                self._recorder.record(pod, "Warning", "FailedResourceClaimCreation", f"PodResourceClaim {entry['name']}: {error}")
                raise
            if name is not None:
                named[entry["name"]] = name
        if named:
            statuses = [{"name": entry, "resourceClaimName": name} for entry, name in named.items()]
            body = {"metadata": {"uid": meta["uid"]}, "status": {"resourceClaimStatuses": statuses}}
            await self._client.patch(PODS, meta["name"], body, meta["namespace"], subresource="status")
        if pod["spec"].get("nodeName"):
            await self._reserve(pod)

    async def _ensure_claim(self, pod: Json, entry: Json) -> str | None:
        """The name to record for an entry, or None where there is nothing to record."""
        namespace, template_name = pod["metadata"]["namespace"], entry.get("resourceClaimTemplateName")
        try:
            name = claim_reference(pod, entry).name
        except ClaimNotCreated:
            pass
        else:
            claim = self._claims.get(f"{namespace}/{name}") if name else None
            if name is None or template_name is None or (claim is not None and not not_for_pod(pod, claim)):
                return None
        if template_name is None:
            return None
        found = next((c for c in self._owned_claims(pod) if c["metadata"].get("annotations", {}).get(POD_CLAIM_NAME) == entry["name"]), None)
        if found is not None:
            return str(found["metadata"]["name"])
        template = self._templates.get(f"{namespace}/{template_name}")
        if template is None:
            raise LookupError(f'resource claim template "{template_name}": resourceclaimtemplate.resource.k8s.io "{template_name}" not found')
        self._check_gates(template)
        wanted = generated_claim(pod, entry["name"], template)
        try:
            claim = await self._client.create(RESOURCE_CLAIMS, wanted)
        except Exception:
            self._counted.created(wanted, success=False)
            raise
        self._counted.created(wanted, success=True)
        self._created.put(claim["metadata"]["uid"], claim)
        return str(claim["metadata"]["name"])

    def _owned_claims(self, pod: Json) -> Iterator[Json]:
        uid = pod["metadata"]["uid"]
        yield from self._claims_of_owner.get(uid)
        yield from (claim for claim in self._created.values() if (controller_of(claim) or {}).get("uid") == uid)

    def _check_gates(self, template: Json) -> None:
        requests = template["spec"]["spec"].get("devices", {}).get("requests") or ()
        if not self._features.enabled("DRAAdminAccess") and any(r.get("exactly", {}).get("adminAccess") for r in requests):
            raise ValueError("admin access is requested, but the feature is disabled")
        if not self._features.enabled("DRAPrioritizedList") and any(r.get("firstAvailable") for r in requests):
            raise ValueError("template includes a prioritized list of subrequests, but the feature is disabled")

    async def _reserve(self, pod: Json) -> None:
        """A pod that was given to a node without the scheduler: reserve what is allocated."""
        for entry in pod["spec"].get("resourceClaims") or ():
            reference = claim_reference(pod, entry)
            claim = self._claims.get(f"{pod['metadata']['namespace']}/{reference.name}") if reference.name else None
            if claim is None:
                continue
            if reference.check_owner and (reason := not_for_pod(pod, claim)):
                raise LookupError(reason)
            status = claim.get("status", {})
            if "allocation" in status and not is_reserved_for_pod(pod, claim):
                entries = [*(status.get("reservedFor") or ()), bind_to(pod, None, entry)]
                await self._client.update_status(RESOURCE_CLAIMS, {**claim, "status": {**status, "reservedFor": entries}})

    async def _sync_claim(self, claim: Json) -> None:
        status = claim.get("status", {})
        before = status.get("reservedFor") or []
        users = [ref for ref in before if await self._in_use(claim, ref)]
        finalizer = FINALIZER in (claim["metadata"].get("finalizers") or ())
        deleting = bool(claim["metadata"].get("deletionTimestamp"))
        if len(users) < len(before):
            release = finalizer and not users
            claim = await self._release(claim, users, deallocate=release)
            if finalizer and "allocation" not in claim.get("status", {}):
                await self._remove_finalizer(claim)
        elif finalizer and deleting and not users:
            if "allocation" in status:
                claim = await self._release(claim, users, deallocate=True)
            await self._remove_finalizer(claim)
        if not users:
            await self._delete_if_unused(claim)

    async def _in_use(self, claim: Json, ref: Json) -> bool:
        """Whether a reservation still holds. Consumers of unknown kinds are never ours to judge."""
        if ref.get("apiGroup") or ref["resource"] != "pods":
            return True
        if ref["uid"] in self._gone:
            return False
        namespace = claim["metadata"]["namespace"]
        pod = self._pods.get(f"{namespace}/{ref['name']}")
        if pod is not None:
            return bool(pod["metadata"]["uid"] == ref["uid"]) and not is_done(pod)
        try:
            live = await self._client.get(PODS, ref["name"], namespace)
        except Exception as error:
            if is_reason(error, "NotFound"):
                return False
            raise
        return bool(live["metadata"]["uid"] == ref["uid"])

    async def _release(self, claim: Json, users: list[Json], *, deallocate: bool) -> Json:
        status = {key: value for key, value in claim["status"].items() if key != "reservedFor" and not (deallocate and key == "allocation")}
        if users:
            status["reservedFor"] = users
        return await self._client.update_status(RESOURCE_CLAIMS, {**claim, "status": status})

    async def _remove_finalizer(self, claim: Json) -> None:
        finalizers = [name for name in claim["metadata"].get("finalizers") or () if name != FINALIZER]
        await self._client.update(RESOURCE_CLAIMS, {**claim, "metadata": {**claim["metadata"], "finalizers": finalizers}})

    async def _delete_if_unused(self, claim: Json) -> None:
        """A claim generated for a pod that is done, or was replaced, goes; with the pod gone it is the garbage collector's."""
        owner = controller_of(claim)
        if owner is None or (owner["apiVersion"], owner["kind"]) != ("v1", "Pod"):
            return
        namespace, name = split_key(key_of(claim))
        pod = self._pods.get(f"{namespace}/{owner['name']}")
        if pod is not None and (pod["metadata"]["uid"] != owner["uid"] or is_done(pod)):
            try:
                await self._client.delete(RESOURCE_CLAIMS, name, namespace)
            except Exception as error:
                if not is_reason(error, "NotFound"):
                    raise


def _templates_of(pod: Json) -> Iterator[str]:
    for entry in pod["spec"].get("resourceClaims") or ():
        if entry.get("resourceClaimTemplateName"):
            yield f"{pod['metadata']['namespace']}/{entry['resourceClaimTemplateName']}"
