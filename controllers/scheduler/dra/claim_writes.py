"""The scheduler's writes to claims.

Before a pod is bound each of its claims gets the finalizer (PUT), then one status write with allocation, reservation
and time. After a conflict the write is retried with the current claim, up to five times. The claim for extended
resources is created first, and deleted if the pod cannot be bound. Writes for pods that share a claim are serialized,
each based on the one before. Upstream lets them conflict, which costs most of them a backoff. Facts: Kubernetes 1.36,
plugin dynamicresources.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from weakref import WeakValueDictionary

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.resourceclaims import is_reserved_for_pod
from controllers.resourceclaims.pods import FINALIZER, with_consumer
from controllers.runtime.client import Client
from controllers.runtime.kinds import Kind, key_of
from controllers.runtime.times import go_time
from controllers.runtime.transport import TransportError
from controllers.scheduler.dra.claim_state import has_binding_conditions, readiness
from controllers.scheduler.dra.claims import ClaimCache
from controllers.scheduler.dra.dynamic_resources import DynamicResources
from controllers.scheduler.dra.extended_resources import IN_MEMORY
from controllers.scheduler.dra.state import DynamicState
from controllers.scheduler.framework.attempt_metrics import AttemptMetrics
from controllers.scheduler.framework.framework import PluginError
from controllers.scheduler.state.pod_info import PodInfo

log = logging.getLogger(__name__)
_TRIES, _PAUSE = 5, timedelta(milliseconds=10)
_WATCH_PATIENCE = timedelta(seconds=120)
_POLL = timedelta(seconds=5)


class DeviceBindingError(PluginError):
    """A device failed to become ready."""


class DeviceBindingTimeoutError(PluginError):
    """A device was not ready in time."""


class ClaimWriter:
    """The writes of one scheduler."""

    def __init__(
        self,
        client: Client,
        claims: ClaimCache,
        devices: DynamicResources,
        kind: Kind,
        attempt_metrics: AttemptMetrics | None = None,
        profile: str = "",
    ) -> None:
        self._metrics, self._profile = attempt_metrics or AttemptMetrics(), profile
        self._client, self._claims, self._devices, self._kind = client, claims, devices, kind
        self._groups = claims.groups
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def bind(self, pod: PodInfo, state: DynamicState) -> None:
        """Allocate and reserve all claims for the pod. Raise PluginError; what was written stays in the state."""
        for position, claim in enumerate(state.claims):
            if position == state.special:
                await self._bind_special(state, position)
            elif not self._groups.is_reserved(pod.pod, claim):
                name = key_of(claim)
                async with self._locks.setdefault(name, asyncio.Lock()):
                    known = self._claims.get(name)
                    newest = (
                        known if known is not None and known["metadata"]["uid"] == claim["metadata"]["uid"] else claim
                    )
                    _, allocation = state.reserved.get(position, (None, None))
                    if allocation is not None and _has_allocation(newest, allocation):
                        # Another member of the group wrote it.
                        allocation = None
                        if self._groups.is_reserved(pod.pod, newest):
                            state.claims[position] = newest
                            continue
                    state.claims[position] = await self._bind_claim(newest, state.consumers[position], allocation)

    async def _bind_special(self, state: DynamicState, position: int) -> None:
        """Create and allocate the claim for extended resources. Its devices stay reserved until the watch shows it."""
        claim, allocation = state.reserved[position]
        metadata = {key: value for key, value in claim["metadata"].items() if key not in ("name", "uid")}
        try:
            created = await self._client.create(self._kind, {**claim, "metadata": metadata})
        except (StatusError, TransportError) as error:
            self._metrics.claims.inc("failure")
            raise PluginError(f"create claim for extended resources {metadata['namespace']}/: {error}") from error
        self._metrics.claims.inc("success")
        state.claims[position] = created
        written = state.claims[position] = await self._bind_claim(created, state.consumers[position], allocation)
        await self._claims.wait_observed(written, _WATCH_PATIENCE)
        self._claims.record_write(written)
        self._claims.confirm(claim)

    async def _bind_claim(self, claim: Json, consumer: Json, allocation: Json | None) -> Json:
        name = key_of(claim)
        what = "allocation and reservation" if allocation is not None else "reservation"
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE.total_seconds())
                claim = await self._get_current(claim, name)
            try:
                written = await self._write(claim, name, consumer, allocation)
            except (StatusError, TransportError) as error:
                if isinstance(error, StatusError) and error.reason == "Conflict" and attempt + 1 < _TRIES:
                    continue
                raise PluginError(f"add {what} to claim {name}: {error}") from error
            self._claims.record_write(written)
            if allocation is not None:
                self._claims.confirm(written)
            return written
        raise AssertionError("unreachable")

    async def _get_current(self, claim: Json, name: str) -> Json:
        metadata = claim["metadata"]
        try:
            return await self._client.get(self._kind, metadata["name"], metadata["namespace"])
        except (StatusError, TransportError) as error:
            raise PluginError(f"get updated claim {name} after conflict: {error}") from error

    async def _write(self, claim: Json, name: str, consumer: Json, allocation: Json | None) -> Json:
        if claim["metadata"].get("deletionTimestamp"):
            raise PluginError(f"claim {name} got deleted in the meantime")
        if allocation is not None:
            if (claim.get("status") or {}).get("allocation") is not None:
                raise PluginError(f"claim {name} got allocated elsewhere in the meantime")
            claim = await self._protect(claim, name)
        # Another member may have reserved the claim for the group meanwhile, or for the workload.
        status = with_consumer(claim, consumer, self._groups.for_workloads, allocation)
        if self._devices.conditions:
            held = status.get("allocation")
            if held is None:
                raise PluginError(f"claim {name} got deallocated elsewhere in the meantime")
            if not held.get("allocationTimestamp"):
                status["allocation"] = {**held, "allocationTimestamp": go_time(clock.now())}
        return await self._client.update_status(self._kind, {**claim, "status": status})

    async def _protect(self, claim: Json, name: str) -> Json:
        """Add the finalizer, so that an allocated claim cannot be deleted."""
        finalizers = claim["metadata"].get("finalizers") or []
        if FINALIZER in finalizers:
            return claim
        protected = {**claim, "metadata": {**claim["metadata"], "finalizers": [*finalizers, FINALIZER]}}
        try:
            return await self._client.update(self._kind, protected)
        except StatusError as error:
            if error.reason == "Conflict":
                raise
            raise PluginError(f"add finalizer to claim {name}: {error}") from error

    def waits_for_devices(self, state: DynamicState) -> bool:
        """Return whether some device has to become ready before the pod is bound."""
        return self._devices.conditions and any(map(has_binding_conditions, state.claims))

    async def wait_for_devices(self, state: DynamicState) -> None:
        """Wait until all binding conditions are true. Raise PluginError after a failure or the time limit."""
        begun, status = clock.now(), "error"
        try:
            await self._wait_for_devices(state)
            status = "success"
        except DeviceBindingTimeoutError:
            status = "timeout"
            raise
        except DeviceBindingError:
            status = "failure"
            raise
        finally:
            self._observe_binding(state, (clock.now() - begun).total_seconds(), status)

    def _observe_binding(self, state: DynamicState, seconds: float, status: str) -> None:
        for claim in state.claims:
            for device in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results") or ():
                labels = self._profile, device["driver"], status
                self._metrics.binding_durations.observe(seconds, *labels)
                if device.get("bindingConditions"):
                    self._metrics.bindings.inc(*labels)

    async def _wait_for_devices(self, state: DynamicState) -> None:
        deadline = clock.now() + self._devices.binding_timeout
        keys = [f"{claim['metadata']['namespace']}/{claim['metadata']['name']}" for claim in state.claims]
        while not self._ready(keys):
            left = deadline - clock.now()
            await asyncio.sleep(max(0, min(_POLL, left).total_seconds()))
            if left <= _POLL:
                raise DeviceBindingTimeoutError("device binding timeout: context deadline exceeded")

    def _ready(self, keys: list[str]) -> bool:
        everything = True
        for key in keys:
            claim = self._claims.get(key)
            if claim is None:
                raise PluginError(f'could not find ResourceClaim "{key}"')
            ready, failure = readiness(claim)
            if failure:
                raise DeviceBindingError(failure)
            if ready:
                continue
            everything = False
            if has_binding_conditions(claim) and self._devices.timed_out(claim):
                raise DeviceBindingTimeoutError(f"device binding timeout: claim={claim['metadata']['name']}")
        return everything

    async def unreserve(self, pod: PodInfo, state: DynamicState) -> None:
        """Remove the pod's reservations. Allocations, and reservations for a group, stay."""
        self._devices.unreserve(state)
        for position, claim in enumerate(state.claims):
            if position == state.special:
                await self._delete_special(claim)
            elif (claim.get("status") or {}).get("allocation") and is_reserved_for_pod(pod.pod, claim):
                await self._remove_consumer(claim, pod.uid)

    async def _delete_special(self, claim: Json) -> None:
        if claim["metadata"]["name"] == IN_MEMORY:
            return
        try:
            await self._delete(claim)
        except (StatusError, TransportError) as error:
            log.warning("cannot delete claim %s: %s", key_of(claim), error)

    async def _delete(self, claim: Json) -> None:
        """Remove the finalizer, then delete. Raise StatusError or TransportError."""
        metadata = claim["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        for left in reversed(range(_TRIES)):
            metadata = claim["metadata"]
            finalizers = [item for item in metadata.get("finalizers") or () if item != FINALIZER]
            try:
                await self._client.update(self._kind, {**claim, "metadata": {**metadata, "finalizers": finalizers}})
                break
            except StatusError as error:
                if error.reason != "Conflict" or not left:
                    raise
            await asyncio.sleep(_PAUSE.total_seconds())
            claim = await self._client.get(self._kind, name, namespace)
        await self._client.delete(self._kind, name, namespace)

    async def _remove_consumer(self, claim: Json, uid: str) -> bool:
        """Remove a consumer from reservedFor; return whether that worked. A failure is retried with the pod."""
        metadata = claim["metadata"]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"reservedFor": [{"$patch": "delete", "uid": uid}]}}
        try:
            written = await self._client.patch(
                self._kind, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        except (StatusError, TransportError) as error:
            log.warning("cannot unreserve claim %s/%s: %s", metadata["namespace"], metadata["name"], error)
            return False
        self._claims.record_write(written)
        return True

    async def deallocate(self, pod: PodInfo, state: DynamicState) -> str:
        """Run PostFilter: deallocate a claim that only this pod could use but cannot.

        Returns:
            The text for the pod's condition.
        """
        for position in sorted(state.unavailable):
            claim = state.claims[position]
            if position == state.special or position in state.shared:
                continue
            consumers = (claim.get("status") or {}).get("reservedFor") or ()
            if all(consumer["uid"] == pod.uid for consumer in consumers) and len(consumers) <= 1:
                status = {
                    name: value
                    for name, value in (claim.get("status") or {}).items()
                    if name not in ("reservedFor", "allocation", "devices")
                }
                await self._client.update_status(self._kind, {**claim, "status": status})
                return "deallocation of ResourceClaim completed"
        if state.special is not None and state.is_stale:
            await self._delete(state.claims[state.special])
            return "deletion of ResourceClaim completed"
        return await self._unreserve_group(pod) or "still not schedulable"

    async def _unreserve_group(self, pod: PodInfo) -> str:
        """Unreserve a claim of the pod's group if no member has a node, so that the next attempt can deallocate it.

        Returns:
            The text for the pod's condition, "" if there is nothing to do.
        """
        try:
            group = self._groups.of(pod.pod)
        except LookupError:
            return ""
        if group is None or self._groups.is_placed(group):
            return ""
        for claim in self._groups.claims_of(group, self._claims.get):
            if "allocation" not in (claim.get("status") or {}) or not self._groups.is_reserved_for_group(
                pod.pod, claim
            ):
                continue
            if await self._remove_consumer(claim, group["metadata"]["uid"]):
                return "ResourceClaim unreserved for PodGroup"
        return ""


def _has_allocation(claim: Json, allocation: Json) -> bool:
    """Return whether the claim has these devices."""
    held = (claim.get("status") or {}).get("allocation") or {}
    return bool(held) and all(held.get(part) == allocation.get(part) for part in ("devices", "nodeSelector"))
