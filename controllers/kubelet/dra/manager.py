"""The DRA manager of one node: prepares claims before a pod's containers start, releases them after the end.

Source of facts: Kubernetes 1.36, package pkg/kubelet/cm/dra, whose texts are used. Four harmful behaviours of upstream
are avoided (docs/fidelity.md): a claim used by another pod is never released, a claim named twice by a pod is prepared
once, devices of an earlier attempt are replaced, and the next pod prepares a claim again if it is being released.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.kubelet.dra import requests
from controllers.kubelet.dra.cache import ClaimCache, ClaimInfo
from controllers.kubelet.dra.checkpoint import Checkpoint, CheckpointError
from controllers.kubelet.dra.drivers import ClaimId, Driver, DriverCallError, Drivers, PreparedClaim
from controllers.kubelet.dra.metrics import DraMetrics
from controllers.resourceclaims.pods import claim_reference, is_reserved_for_pod, not_for_pod

log = logging.getLogger(__name__)
#: Reads a claim by pod and claim name. Raises StatusError.
ReadClaim = Callable[[Json, str], Awaitable[Json]]
_PREPARE: Final = "NodePrepareResources"
_UNPREPARE: Final = "NodeUnprepareResources"


class DraError(Exception):
    """Claims cannot be prepared or released now. The text is the kubelet's."""


@dataclass(frozen=True, slots=True)
class DraFeatures:
    """The feature gates of the DRA manager."""

    extended_resources: bool = True
    workload_claims: bool = False
    for_workloads: bool = False
    """Enables claims that are reserved for a workload (DRAReservedForWorkloads)."""


@dataclass(frozen=True, slots=True)
class _CheckedClaim:
    """A claim that the pod may use, with the drivers of its allocation."""

    info: ClaimInfo
    drivers: Mapping[str, Driver]


class DraManager:
    """The claims of one node. Calls for different pods may overlap; calls for one pod must not."""

    def __init__(
        self,
        drivers: Drivers,
        read_claim: ReadClaim,
        checkpoint: Checkpoint,
        features: DraFeatures,
        metrics: DraMetrics,
        reach: Callable[[str], None] = lambda point: None,
    ) -> None:
        """Load the checkpoint. `reach` is called at each of `kubedra.runtime.crash_points`. Raise CheckpointError."""
        self._drivers, self._read_claim, self._checkpoint = drivers, read_claim, checkpoint
        self._features, self._metrics, self._reach = features, metrics, reach
        self.cache = ClaimCache(checkpoint.load())
        metrics.add(self.cache)
        self._released = asyncio.Condition()

    async def prepare(self, pod: Json) -> None:
        """Prepare every claim of the pod that is not prepared yet. Raise DraError."""
        with self._metrics.operation("PrepareResources"):
            try:
                await self._prepare(pod)
            except (DraError, DriverCallError) as error:
                raise DraError(f"prepare dynamic resources: {error}") from error

    async def unprepare(self, pod: Json) -> None:
        """Release the claims used by this pod only; remove the pod from the others. Raise DraError."""
        with self._metrics.operation("UnprepareResources"):
            try:
                meta = pod["metadata"]
                names = requests.claim_names(pod, self._features.extended_resources)
                await self._unprepare(meta["uid"], meta["namespace"], names)
            except (ValueError, DraError, DriverCallError) as error:
                raise DraError(f"unprepare dynamic resources: {error}") from error

    async def release_lost(self, active: Collection[str]) -> None:
        """Release the claims of pods outside `active` (uids). A later call retries failures."""
        lost: dict[tuple[str, str], list[str]] = {}
        for info in self.cache:
            for uid in sorted(info.pods - set(active)):
                lost.setdefault((uid, info.namespace), []).append(info.name)
        for (uid, namespace), names in lost.items():
            try:
                await self._unprepare(uid, namespace, names)
            except (DraError, DriverCallError) as error:
                log.info("cannot release the claims of deleted pod %s yet: %s", uid, error)

    def might_need_unprepare(self, pod_uid: str) -> bool:
        """Return whether a claim is prepared for the pod, which then must not be reported as ended."""
        return self.cache.used_by(pod_uid)

    def container_devices(self, pod: Json, container: Json) -> list[str]:
        """Return the CDI ids for a container, in the order of its requests. Raise DraError."""
        found: list[str] = []
        try:
            wanted = requests.container_requests(pod, container, self._features.extended_resources)
        except ValueError as error:
            raise DraError(str(error)) from error
        namespace = pod["metadata"]["namespace"]
        for name, names in wanted.items():
            info = self.cache.get(namespace, name)
            if info is None:
                raise DraError(_missing_claim_text(name, namespace))
            found += [cdi for request in names for _, device in info.devices(request) for cdi in device.cdi_ids]
        return found

    def container_claims(self, pod: Json, container: Json) -> list[ClaimInfo]:
        """Return a container's claims for the pod resources API. Raise DraError."""
        namespace, found = pod["metadata"]["namespace"], []
        try:
            names = requests.container_claim_names(pod, container)
        except ValueError as error:
            raise DraError(str(error)) from error
        for name in names:
            if (info := self.cache.get(namespace, name)) is None:
                raise DraError(f"unable to get information for ResourceClaim {name}")
            found.append(info)
        extended = requests.extended_claim_of(pod, container) if self._features.extended_resources else None
        if extended is not None:
            if (info := self.cache.get(namespace, extended)) is None:
                raise DraError(f"unable to get claim info for claim {extended} in namespace {namespace}")
            found.append(info)
        return found

    async def _prepare(self, pod: Json) -> None:
        checked = await self._check(pod)
        if not checked:
            return
        await self._wait_released(checked)
        batches, infos = self._reserve(pod["metadata"]["uid"], checked)
        first: Exception | None = None
        for driver, claims in batches:
            self._reach("before-prepare")
            try:
                answers = await driver.prepare(claims)
                self._reach("prepared")
                self._store(driver.name, infos, claims, answers)
            except (DraError, DriverCallError) as error:
                first = DraError(f"{_PREPARE}: {error}") if isinstance(error, DriverCallError) else error
                break
        if first is not None:
            raise first
        for info in infos.values():
            info.prepared = True
        self._reach("before-checkpoint")
        self._save("state")
        self._reach("checkpointed")

    async def _check(self, pod: Json) -> list[_CheckedClaim]:
        """Return the pod's claims without duplicates.

        Nothing is cached yet, so that a pod that fails here can end without a driver.
        """
        checked: dict[str, _CheckedClaim] = {}
        for entry in requests.pod_claims(pod, self._features.extended_resources):
            try:
                reference = claim_reference(pod, entry)
            except ValueError as error:
                raise DraError(str(error)) from error
            if reference.name is None:
                continue
            claim = await self._may_use(pod, reference.name, reference.check_owner)
            if claim["metadata"]["name"] not in checked:
                info = _info(claim)
                checked[info.name] = _CheckedClaim(info, {name: self._driver(name) for name in info.driver_names})
        return list(checked.values())

    async def _may_use(self, pod: Json, name: str, check_owner: bool) -> Json:
        try:
            claim = await self._read_claim(pod, name)
        except StatusError as error:
            raise DraError(f"fetch ResourceClaim {name}: {error.message}") from error
        groups = self._features.workload_claims
        if check_owner and (reason := not_for_pod(pod, claim, groups)):
            raise DraError(reason)
        meta, uid = pod["metadata"], claim["metadata"].get("uid", "")
        if not is_reserved_for_pod(pod, claim, groups, self._features.for_workloads):
            raise DraError(f"pod {meta['name']} ({meta['uid']}) is not allowed to use ResourceClaim {name} ({uid})")
        return claim

    def _driver(self, name: str) -> Driver:
        try:
            return self._drivers.get(name)
        except LookupError as error:
            raise DraError(str(error)) from error

    async def _wait_released(self, checked: Iterable[_CheckedClaim]) -> None:
        """Wait for claims that are being released for another pod, because their devices are about to go."""

        def busy() -> bool:
            cached = (self.cache.get(item.info.namespace, item.info.name) for item in checked)
            return any(info is not None and info.releasing for info in cached)

        async with self._released:
            await self._released.wait_for(lambda: not busy())

    def _reserve(
        self, pod_uid: str, checked: Iterable[_CheckedClaim]
    ) -> tuple[list[tuple[Driver, list[ClaimId]]], dict[str, ClaimInfo]]:
        """Add the pod to each claim and save that before any call.

        Return the calls as (driver, claims), and the claims to prepare by uid.
        """
        batches: dict[str, tuple[Driver, list[ClaimId]]] = {}
        infos: dict[str, ClaimInfo] = {}
        for item in checked:
            info = self.cache.get(item.info.namespace, item.info.name)
            if info is None:
                info = item.info
                self.cache.add(info)
            elif info.uid != item.info.uid:
                raise DraError(
                    f"old ResourceClaim with same name {info.name} and different UID {info.uid} still exists (previous"
                    " pod force-deleted?!)"
                )
            info.pods.add(pod_uid)
            self._save("cache")
            if info.prepared:
                continue
            infos[info.uid] = info
            for name in info.driver_names:
                driver = item.drivers.get(name) or self._driver(name)
                batches.setdefault(name, (driver, []))[1].append(info.id)
        return list(batches.values()), infos

    def _store(
        self, driver: str, infos: Mapping[str, ClaimInfo], claims: list[ClaimId], answers: Mapping[str, PreparedClaim]
    ) -> None:
        """Store a driver's devices in place of earlier ones. Raise DraError for the first failed claim."""
        _check_known(_PREPARE, claims, answers)
        failed = None
        for claim in claims:
            answer = answers.get(claim.uid)
            if answer is None:
                continue
            if answer.error:
                failed = failed or f"{_PREPARE} failed for ResourceClaim {claim.name}: {answer.error}"
                continue
            info = infos[claim.uid]
            if self.cache.get(info.namespace, info.name) is not info:
                raise DraError(_missing_claim_text(info.name, info.namespace))
            info.drivers = {**(info.drivers or {}), driver: answer.devices}
        if failed:
            raise DraError(failed)
        _check_complete(_PREPARE, claims, answers)

    async def _unprepare(self, pod_uid: str, namespace: str, names: Iterable[str]) -> None:
        mine = list(self._drop_pod(pod_uid, namespace, names))
        async with self._releasing(mine):
            for name, claims in _by_driver(mine):
                driver = self._driver(name)
                self._reach("before-unprepare")
                try:
                    answers = await driver.unprepare(claims)
                except DriverCallError as error:
                    raise DraError(f"{_UNPREPARE}: {error}") from error
                self._reach("unprepared")
                _check_known(_UNPREPARE, claims, answers)
                for claim in claims:
                    if answers.get(claim.uid):
                        raise DraError(f"{_UNPREPARE} failed for ResourceClaim {claim.name}: {answers[claim.uid]}")
                _check_complete(_UNPREPARE, claims, answers)
            for info in mine:
                self.cache.remove(info)
            self._save("state")
            if mine:
                self._reach("released")

    def _drop_pod(self, pod_uid: str, namespace: str, names: Iterable[str]) -> Iterator[ClaimInfo]:
        """Yield the claims used by this pod only; remove the pod from the others.

        The file is saved after the last call, so that a restart before that tries again.
        """
        for name in dict.fromkeys(names):
            info = self.cache.get(namespace, name)
            if info is None:
                continue
            if info.pods - {pod_uid}:
                info.pods.discard(pod_uid)
            else:
                yield info

    @asynccontextmanager
    async def _releasing(self, infos: list[ClaimInfo]) -> AsyncIterator[None]:
        for info in infos:
            info.releasing += 1
        try:
            yield
        finally:
            for info in infos:
                info.releasing -= 1
            async with self._released:
                self._released.notify_all()

    def _save(self, action: str) -> None:
        try:
            self._checkpoint.save(self.cache)
        except CheckpointError as error:
            raise DraError(f"checkpoint ResourceClaim {action}: {error}") from error


def _info(claim: Json) -> ClaimInfo:
    meta = claim["metadata"]
    allocation = (claim.get("status") or {}).get("allocation")
    if allocation is None:
        raise DraError(f"ResourceClaim {meta['name']}: not allocated")
    results = (allocation.get("devices") or {}).get("results") or ()
    return ClaimInfo(meta.get("uid", ""), meta["name"], meta["namespace"], set(), {r["driver"]: () for r in results})


def _by_driver(infos: Iterable[ClaimInfo]) -> list[tuple[str, list[ClaimId]]]:
    batches: dict[str, list[ClaimId]] = {}
    for info in infos:
        for name in info.driver_names:
            batches.setdefault(name, []).append(info.id)
    return list(batches.items())


def _check_known(method: str, claims: Iterable[ClaimId], answers: Iterable[str]) -> None:
    asked = {claim.uid for claim in claims}
    for uid in answers:
        if uid not in asked:
            raise DraError(f"{method} returned result for unknown claim UID {uid}")


def _check_complete(method: str, claims: Collection[ClaimId], answers: Collection[str]) -> None:
    if missing := len(claims) - len(answers):
        raise DraError(f"{method} skipped {missing} ResourceClaims")


def _missing_claim_text(name: str, namespace: str) -> str:
    return f"internal error: unable to get claim info for ResourceClaim {name} in namespace {namespace}"
