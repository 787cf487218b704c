"""The resource claim controller: creates claims from templates for pods, and releases claims of finished pods.

Keys are `pod:NS/NAME`, `claim:NS/NAME` and `podgroup:NS/NAME`. The names of generated claims are recorded in
status.resourceClaimStatuses of the pod, by strategic merge so that entries of other reconciles survive. `group_claims`
handles the claims of groups. Facts: upstream's pkg/controller/resourceclaim. Differs: entries are merged instead of
applied, and finished pods get no new claims (upstream prevents them by caching the created ones).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from apiserver.api.objects import Json
from apiserver.runtime.metrics import Family
from controllers.options.options import Options
from controllers.resourceclaims.generated_claims import GeneratedClaims, RecentObjects, templates_of
from controllers.resourceclaims.group_claims import GroupClaims
from controllers.resourceclaims.metrics import ClaimMetrics
from controllers.resourceclaims.pods import (
    FINALIZER,
    ClaimNotCreated,
    ClaimReferenceError,
    bind_to,
    claim_names,
    claim_reference,
    controller_of,
    is_done,
    is_for_any_pod,
    is_reserved_for_pod,
    not_for_pod,
    with_consumer,
)
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent, NotYetError
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, key_of, split_key

NAME = "resourceclaim-controller"
#: Feature gate for claims of pod groups.
GROUPS_GATE = "DRAWorkloadResourceClaims"


def build(client: Client, informers: Informers, options: Options) -> ResourceClaims:
    """Build the component."""
    return ResourceClaims(client, informers, options)


class ResourceClaims(ControllerComponent):
    """Reconciles generated claims and the consumers of all claims."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller("resource-claim-controller")
        features = options.features
        self._with_groups: bool = features.enabled(GROUPS_GATE)
        self._for_workloads: bool = features.enabled("DRAReservedForWorkloads")
        self._recorder = CoreEventRecorder(client, "resource_claim")
        self._pods = informers.of(PODS)
        self._claims, self._templates = (
            informers.device_kind(kind, features) for kind in (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
        )
        self._pods_of_claim = self._pods.index(
            "claims", lambda pod: (f"{pod['metadata']['namespace']}/{name}" for name in claim_names(pod))
        )
        self._pods_of_template = self._pods.index("claim templates", templates_of)
        self._metrics = ClaimMetrics(self._claims)
        self._generated = GeneratedClaims(self._client, self._claims, self._templates, features, self._metrics)
        self._gone = RecentObjects(500)
        self._controller = Controller(NAME, self.reconcile, workers=options.workers(NAME), queue="resource_claim")
        for informer in (self._pods, self._claims, self._templates):
            self._controller.require(informer)
        self._groups: GroupClaims | None = None
        if self._with_groups:
            self._groups = GroupClaims(
                informers,
                self._pods,
                self._claims,
                self._generated,
                self._recorder,
                add=self._controller.queue.add,
                member_changed=self._pod_changed,
                gone=lambda group: self._gone.put(group["metadata"]["uid"], group),
            )
            self._controller.require(self._groups.informer)
            self._groups.follow()
        self._pods.on(self._pod_changed, lambda _, pod: self._pod_changed(pod), self._pod_deleted)
        self._claims.on(self._claim_changed, lambda _, claim: self._claim_changed(claim), self._claim_deleted)
        self._templates.on(self._template_changed, lambda _, template: self._template_changed(template))

    @property
    def metrics(self) -> Sequence[Family]:
        return (*self._controller.metrics, *self._metrics.families)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(self._controller.run())

    # Event handlers

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
        if self._claim_needs_work(claim):
            self._controller.queue.add(f"claim:{key_of(claim)}")
        self._claim_deleted(claim)

    def _claim_deleted(self, claim: Json) -> None:
        self._generated.confirm(claim)
        for pod in self._pods_of_claim.get(key_of(claim)):
            self._pod_changed(pod)
        if self._groups is not None:
            self._groups.claim_changed(claim)

    def _claim_needs_work(self, claim: Json) -> bool:
        """Return whether the claim may need a change. Later events of its consumers enqueue it again."""
        if not self._pods.synced:
            return True
        users = claim.get("status", {}).get("reservedFor") or ()
        if users:
            return not all(self._is_known_user(claim, user) for user in users)
        finalizer = FINALIZER in (claim["metadata"].get("finalizers") or ())
        if finalizer and claim["metadata"].get("deletionTimestamp"):
            return True
        return self._is_abandoned(claim) or self._is_unused(claim)

    def _template_changed(self, template: Json) -> None:
        for pod in self._pods_of_template.get(key_of(template)):
            self._pod_changed(pod)
        if self._groups is not None:
            self._groups.template_changed(template)

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
            return reference.check_owner and not self._is_of_group(pod, entry)
        if reference.check_owner and not_for_pod(pod, claim, self._with_groups):
            return False
        allocated = "allocation" in claim.get("status", {})
        return bool(pod["spec"].get("nodeName")) and allocated and not self._is_reserved(pod, claim)

    def _is_reserved(self, pod: Json, claim: Json) -> bool:
        return is_reserved_for_pod(pod, claim, self._with_groups, self._for_workloads)

    def _is_of_group(self, pod: Json, entry: Json) -> bool:
        """Return whether the claim of an entry belongs to the pod's group. False for a missing group: retry later."""
        try:
            return bool(bind_to(pod, self._group_of(pod), entry)["resource"] != PODS.plural)
        except ClaimReferenceError:
            return True
        except NotYetError:
            return False

    def _group_of(self, pod: Json) -> Json | None:
        return self._groups.of(pod) if self._groups is not None else None

    # Reconciling

    async def reconcile(self, key: str) -> None:
        kind, _, name = key.partition(":")
        if kind == "pod":
            pod = self._pods.get(name)
            if pod is not None and not pod["metadata"].get("deletionTimestamp"):
                await self._sync_pod(pod)
        elif kind == "podgroup" and self._groups is not None:
            await self._groups.sync(name)
        else:
            claim = self._claims.get(name)
            if claim is not None:
                await self._sync_claim(claim)

    async def _sync_pod(self, pod: Json) -> None:
        names, group = {}, self._group_of(pod)
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                name = await self._ensure_claim(pod, group, entry)
            except Exception as error:
                self._recorder.record(
                    pod, "Warning", "FailedResourceClaimCreation", f"PodResourceClaim {entry['name']}: {error}"
                )
                raise
            if name is not None:
                names[entry["name"]] = name
        if names:
            await self._generated.record(pod, PODS, names)
        if pod["spec"].get("nodeName"):
            await self._reserve(pod, group)

    async def _ensure_claim(self, pod: Json, group: Json | None, entry: Json) -> str | None:
        """Create the claim of an entry if necessary. Return its name, or None if nothing is to be recorded."""
        namespace, template_name = pod["metadata"]["namespace"], entry.get("resourceClaimTemplateName")
        try:
            name = claim_reference(pod, entry).name
        except ClaimNotCreated:
            pass
        else:
            claim = self._claims.get(f"{namespace}/{name}") if name else None
            if (
                name is None
                or template_name is None
                or (claim is not None and not not_for_pod(pod, claim, self._with_groups))
            ):
                return None
        if template_name is None:
            return None
        if group is not None and bind_to(pod, group, entry)["resource"] != PODS.plural:
            return self._generated.find(group, entry["name"])
        return await self._generated.ensure(pod, PODS, entry["name"], template_name)

    async def _reserve(self, pod: Json, group: Json | None) -> None:
        """Reserve allocated claims for a pod that was bound without the scheduler."""
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                reference = claim_reference(pod, entry)
            except ClaimNotCreated:
                # Just created: the update of the pod status enqueues the pod again.
                continue
            claim = self._claims.get(f"{pod['metadata']['namespace']}/{reference.name}") if reference.name else None
            if claim is None:
                continue
            if reference.check_owner and (reason := not_for_pod(pod, claim, self._with_groups)):
                raise NotYetError(reason)
            if "allocation" in claim.get("status", {}) and not self._is_reserved(pod, claim):
                status = with_consumer(claim, bind_to(pod, group, entry), self._for_workloads)
                await self._client.update_status(RESOURCE_CLAIMS, {**claim, "status": status})

    async def _sync_claim(self, claim: Json) -> None:
        status = claim.get("status", {})
        before = status.get("reservedFor") or []
        users = [ref for ref in before if await self._in_use(claim, ref)]
        finalizer = FINALIZER in (claim["metadata"].get("finalizers") or ())
        deleting = bool(claim["metadata"].get("deletionTimestamp"))
        if len(users) < len(before) or self._is_abandoned(claim):
            release = finalizer and not users and not self._has_unlisted_pods(claim)
            claim = await self._release(claim, users, deallocate=release)
            if finalizer and "allocation" not in claim.get("status", {}):
                await self._remove_finalizer(claim)
        elif finalizer and deleting and not users:
            if "allocation" in status:
                claim = await self._release(claim, users, deallocate=True)
            await self._remove_finalizer(claim)
        if not users:
            await self._delete_if_unused(claim)

    def _is_abandoned(self, claim: Json) -> bool:
        """Return whether the last consumer was removed by its owner, which leaves the devices to this controller."""
        status = claim.get("status", {})
        return (
            self._for_workloads
            and "allocation" in status
            and not status.get("reservedFor")
            and not self._has_unlisted_pods(claim)
        )

    def _has_unlisted_pods(self, claim: Json) -> bool:
        """Return whether pods run with a claim that is open to any pod."""
        if not (self._for_workloads and is_for_any_pod(claim)):
            return False
        return any(pod["spec"].get("nodeName") and not is_done(pod) for pod in self._pods_of_claim.get(key_of(claim)))

    async def _in_use(self, claim: Json, ref: Json) -> bool:
        """Return whether a consumer still exists and needs the claim."""
        known = self._is_known_user(claim, ref)
        if known is not None:
            return known
        kind = PODS if ref["resource"] == PODS.plural else POD_GROUPS
        try:
            live = await self._client.get(kind, ref["name"], claim["metadata"]["namespace"])
        except Exception as error:
            if is_reason(error, "NotFound"):
                return False
            raise
        return bool(live["metadata"]["uid"] == ref["uid"])

    def _is_known_user(self, claim: Json, ref: Json) -> bool | None:
        """Return whether a consumer needs the claim, or None if only the server knows. True for unknown kinds."""
        if (ref.get("apiGroup", ""), ref["resource"]) == ("", PODS.plural):
            informer = self._pods
        elif self._groups is not None and (ref.get("apiGroup", ""), ref["resource"]) == (
            POD_GROUPS.group,
            POD_GROUPS.plural,
        ):
            informer = self._groups.informer
        else:
            return True
        user = informer.get(f"{claim['metadata']['namespace']}/{ref['name']}")
        if user is None:
            # A deleted consumer; one that a restored snapshot brings back is there again.
            return False if ref["uid"] in self._gone else None
        return bool(user["metadata"]["uid"] == ref["uid"]) and not (informer is self._pods and is_done(user))

    async def _release(self, claim: Json, users: list[Json], *, deallocate: bool) -> Json:
        status = {
            key: value
            for key, value in claim["status"].items()
            if key != "reservedFor" and not (deallocate and key == "allocation")
        }
        if users:
            status["reservedFor"] = users
        return await self._client.update_status(RESOURCE_CLAIMS, {**claim, "status": status})

    async def _remove_finalizer(self, claim: Json) -> None:
        finalizers = [name for name in claim["metadata"].get("finalizers") or () if name != FINALIZER]
        await self._client.update(
            RESOURCE_CLAIMS, {**claim, "metadata": {**claim["metadata"], "finalizers": finalizers}}
        )

    async def _delete_if_unused(self, claim: Json) -> None:
        """Delete a claim generated for a finished or replaced pod. The garbage collector handles deleted pods."""
        if self._is_unused(claim):
            namespace, name = split_key(key_of(claim))
            try:
                await self._client.delete(RESOURCE_CLAIMS, name, namespace)
            except Exception as error:
                if not is_reason(error, "NotFound"):
                    raise

    def _is_unused(self, claim: Json) -> bool:
        """Return whether a claim was generated for a finished or replaced pod."""
        owner = controller_of(claim)
        if owner is None or (owner["apiVersion"], owner["kind"]) != ("v1", "Pod"):
            return False
        pod = self._pods.get(f"{claim['metadata']['namespace']}/{owner['name']}")
        return pod is not None and (pod["metadata"]["uid"] != owner["uid"] or is_done(pod))
