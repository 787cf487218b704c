"""Coordinated leader election: choose among LeaseCandidates and write their Lease (gate CoordinatedLeaderElection).

Before an election each candidate without a recent renewal is pinged (`pingTime`); candidates that renew within five
seconds may be chosen. A valid lease is not reassigned: its holder finds the better candidate in `preferredHolder`. Each
step reads all objects again, so servers of one store reach the same result.
Facts: pkg/controlplane/controller/leaderelection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.values.semver import Semver
from apiserver.api.values.times import MICROSECONDS, parse_time
from apiserver.authentication.authenticator import ADMIN
from apiserver.registry.store.changes import set_on_change
from apiserver.registry.verbs.server_writes import create_own, delete_own, rewrite_own
from apiserver.runtime.clock import Timer, timers
from apiserver.storage import StorageError

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry

__all__ = ["Elections"]

log = logging.getLogger(__name__)

_GATE: Final = "CoordinatedLeaderElection"
_LEASES: Final = ("coordination.k8s.io", "leases")
_CANDIDATES: Final = ("coordination.k8s.io", "leasecandidates")
_OLDEST: Final = "OldestEmulationVersion"
_NOTHING: Final = Semver.parse("0.0.0")
#: Time to answer a ping and validity of an answer; seconds between two steps, and a lease's duration in seconds.
_ELECTION: Final = timedelta(seconds=5)
_PAUSE: Final = 5.0
_LASTS: Final = 5
#: Time after which a candidate that does not renew is dropped; after half of it all candidates are pinged.
_VALID: Final = timedelta(minutes=30)


class Elections:
    """The elections of one server."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._changed = asyncio.Event()
        self._failed: dict[tuple[str, str], str] = {}
        self._cleaned = registry.clock()

    async def follow(self) -> None:
        """Hold elections until cancelled; none without the gate."""
        if not self._registry.features.enabled(_GATE):
            return
        stores = self._registry.stores
        wakes = [
            asyncio.create_task(set_on_change(stores[kind].cache, self._changed)) for kind in (_LEASES, _CANDIDATES)
        ]
        try:
            while True:
                with suppress(TimeoutError), timers(Timer.UPKEEP):
                    await asyncio.wait_for(self._changed.wait(), _PAUSE)
                self._changed.clear()
                await self.step()
        finally:
            for wake in wakes:
                wake.cancel()

    async def step(self) -> None:
        """Advance each election as far as possible. Failures are logged and retried."""
        found: dict[tuple[str, str], list[Json]] = {}
        now = self._registry.clock()
        for candidate in self._registry.all_of(*_CANDIDATES):
            lease = candidate["metadata"]["namespace"], candidate["spec"]["leaseName"]
            if not _is_expired(candidate, now):
                found.setdefault(lease, []).append(candidate)
        for (namespace, name), candidates in found.items():
            try:
                await self._elect(namespace, name, candidates)
            except (StatusError, StorageError, ValueError) as error:
                if self._failed.get((namespace, name)) != str(error):
                    log.warning("no candidate elected for lease %s/%s: %s", namespace, name, error)
                self._failed[namespace, name] = str(error)
            else:
                self._failed.pop((namespace, name), None)
        if now - self._cleaned >= _VALID:
            self._cleaned = now
            await self._clean(now)

    async def _clean(self, now: datetime) -> None:
        """Delete expired candidates."""
        for candidate in self._registry.all_of(*_CANDIDATES):
            metadata = candidate["metadata"]
            if _is_expired(candidate, now):
                with suppress(StatusError, StorageError):
                    await delete_own(self._registry, ADMIN, *_CANDIDATES, metadata["namespace"], metadata["name"])

    async def _elect(self, namespace: str, name: str, candidates: list[Json]) -> None:
        """Advance one election. Raise StatusError and StorageError, and ValueError if no candidate can be chosen."""
        now = self._registry.clock()
        lease = self._registry.lookup(*_LEASES, namespace, name)
        if not _is_needed(lease, candidates, now):
            return
        waiting = False
        for candidate in candidates:
            asked, renewed = _moment(candidate, "pingTime"), _moment(candidate, "renewTime")
            assert renewed is not None, "candidates have a renewTime"
            silent = asked is not None and renewed < asked
            if asked is not None and silent and asked + _ELECTION > now:
                waiting = True
            elif renewed + _ELECTION <= now and not silent:
                await self._ask(namespace, candidate["metadata"]["name"], now)
                waiting = True
        if waiting:
            return
        there = [each for each in candidates if (_moment(each, "renewTime") or now) + _ELECTION > now]
        if not there:
            raise ValueError("no available candidates")
        strategy = _strategy(there)
        best = _pick_best(there) if strategy == _OLDEST else None
        await self._write(namespace, name, strategy, best["metadata"]["name"] if best else "")

    async def _ask(self, namespace: str, name: str, now: datetime) -> None:
        await rewrite_own(
            self._registry,
            ADMIN,
            *_CANDIDATES,
            namespace,
            name,
            lambda old: {**old, "spec": {**old["spec"], "pingTime": _format_time(now)}},
        )

    async def _write(self, namespace: str, name: str, strategy: str, holder: str) -> None:
        """Create or update the lease for a holder ("" if another controller chooses)."""
        now = self._registry.clock()
        spec: Json = {"strategy": strategy, "leaseDurationSeconds": _LASTS, "renewTime": _format_time(now)}
        spec |= {"holderIdentity": holder} if holder else {}
        lease = self._registry.lookup(*_LEASES, namespace, name)
        if lease is None:
            made = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
            if await create_own(self._registry, ADMIN, *_LEASES, made):
                return

        def update(old: Json) -> Json:
            return {**old, "spec": _build_spec(old.get("spec") or {}, strategy, holder, now)}

        if lease is None or update(lease)["spec"] != lease.get("spec"):
            await rewrite_own(self._registry, ADMIN, *_LEASES, namespace, name, update)


def _build_spec(spec: Json, strategy: str, holder: str, now: datetime) -> Json:
    """Return the spec of a lease after an election."""
    before = spec.get("holderIdentity") or ""
    found = {**spec, "strategy": strategy}
    if holder and (not before or (_is_lease_expired(spec, now) and holder != before)):
        found |= {"holderIdentity": holder, "renewTime": _format_time(now), "leaseDurationSeconds": _LASTS}
        found.pop("preferredHolder", None)
        found.pop("acquireTime", None)
    elif holder and holder != before:
        found["preferredHolder"] = holder
    return found


def _is_needed(lease: Json | None, candidates: Sequence[Json], now: datetime) -> bool:
    """Return whether an election is needed. Raise ValueError."""
    spec = (lease or {}).get("spec") or {}
    holder = spec.get("holderIdentity")
    if not holder or _is_lease_expired(spec, now):
        return True
    if any((_moment(each, "renewTime") or now) + _VALID / 2 < now for each in candidates):
        return True
    best = _pick_best(candidates) if _strategy(candidates) == _OLDEST else None
    return best is not None and best["metadata"]["name"] != holder


def _strategy(candidates: Sequence[Json]) -> str:
    """Return the strategy of the candidates with the newest binary. Raise ValueError if they differ."""
    newest = max(_version(each, "binaryVersion") for each in candidates)
    said = {each["metadata"]["name"]: each["spec"]["strategy"] for each in candidates
            if _version(each, "binaryVersion") == newest}  # fmt: skip
    if len(set(said.values())) > 1:
        raise ValueError(f"candidates {', '.join(sorted(said))} of the same binary version differ in their strategies")
    return str(next(iter(said.values())))


def _pick_best(candidates: Sequence[Json]) -> Json | None:
    """Return the candidate with the oldest emulation version, then the oldest binary, then the earliest creation."""
    able = [each for each in candidates if each["spec"].get("emulationVersion")]
    return min(
        able,
        key=lambda each: (
            _version(each, "emulationVersion"),
            _version(each, "binaryVersion"),
            each["metadata"]["creationTimestamp"],
        ),
        default=None,
    )


def _version(candidate: Json, name: str) -> Semver:
    text = candidate["spec"].get(name)
    return Semver.parse(text) if text else _NOTHING


def _moment(candidate: Json, name: str) -> datetime | None:
    text = candidate["spec"].get(name)
    return parse_time(text, MICROSECONDS) if text else None


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


def _is_expired(candidate: Json, now: datetime) -> bool:
    renewed = _moment(candidate, "renewTime")
    return renewed is None or renewed + _VALID < now


def _is_lease_expired(spec: Json, now: datetime) -> bool:
    if not spec.get("renewTime") or spec.get("leaseDurationSeconds") is None:
        return True
    return parse_time(spec["renewTime"], MICROSECONDS) + timedelta(seconds=spec["leaseDurationSeconds"]) < now
