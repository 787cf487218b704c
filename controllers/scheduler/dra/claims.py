"""The scheduler's view of claims: watched, just written, and about to be written.

* A claim that was just written counts in the version of the server's answer, until the watch has caught up.
* A pending allocation (for a pod that is being bound) counts as allocated for every other pod.

Both update the allocator's state immediately, so it is never rebuilt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from apiserver.api.objects import Json
from controllers.allocator import AllocatedState
from controllers.resourceclaims import ClaimReferenceError, claim_reference
from controllers.runtime.kinds import key_of
from controllers.scheduler.dra.extended_resources import owner_of_special
from controllers.scheduler.dra.group_claims import NO_GROUPS, PodGroups

#: Called with a claim before and after a change; None if it is missing.
ChangeHandler = Callable[[Json | None, Json | None], None]


class ClaimWalkError(Exception):
    """A claim of the pod is not usable yet; the text is the reason."""


@dataclass(slots=True)
class PendingAllocation:
    """An allocation that is not written yet, and the number of pods that share it."""

    claim: Json
    allocation: Json
    sharers: int = 1


class ClaimCache:
    """Claims by `namespace/name`."""

    def __init__(self, allocated: AllocatedState, groups: PodGroups = NO_GROUPS) -> None:
        self._allocated, self.groups = allocated, groups
        self._notify: ChangeHandler = lambda _, __: None
        self._observed: dict[str, Json] = {}
        self._written: dict[str, Json] = {}
        self.pending: dict[str, PendingAllocation] = {}
        """By the claim's uid."""
        self._special: dict[str, str] = {}
        """The keys of claims for extended resources, by the uid of their pod."""
        self._cycle_claims: set[str] | None = None
        """The uids of the claims allocated for the group that is being scheduled; None without one."""
        self._awaited: dict[str, list[asyncio.Future[None]]] = {}

    def on_change(self, notify: ChangeHandler) -> None:
        """Call `notify` for every change of the visible claims."""
        self._notify = notify

    def get(self, key: str) -> Json | None:
        return self._written.get(key) or self._observed.get(key)

    def special_of(self, uid: str) -> Json | None:
        """Return the claim that was written for a pod's extended resources."""
        key = self._special.get(uid)
        return self.get(key) if key is not None else None

    async def wait_observed(self, claim: Json, limit: timedelta) -> None:
        """Wait until the watch shows a created claim, or until the limit."""
        key = key_of(claim)
        if key in self._observed:
            return
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        self._awaited.setdefault(key, []).append(waiting)
        timer = loop.call_later(limit.total_seconds(), lambda: None if waiting.done() else waiting.set_result(None))
        try:
            await waiting
        finally:
            timer.cancel()

    # Watch events

    def added(self, claim: Json) -> None:
        self._observe(key_of(claim), claim)

    def updated(self, _: Json, claim: Json) -> None:
        self._observe(key_of(claim), claim)

    def deleted(self, claim: Json) -> None:
        key = key_of(claim)
        visible = self.get(key)
        self._observed.pop(key, None)
        self._written.pop(key, None)
        if (owner := owner_of_special(claim)) is not None:
            self._special.pop(owner, None)
        self._allocated.remove_claim(claim)
        self._notify(visible, None)

    def _observe(self, key: str, claim: Json) -> None:
        visible = self.get(key)
        self._observed[key] = claim
        if (owner := owner_of_special(claim)) is not None:
            self._special[owner] = key
        for waiting in self._awaited.pop(key, ()):
            if not waiting.done():
                waiting.set_result(None)
        written = self._written.get(key)
        if written is not None:
            if _version(claim) < _version(written) and _uid(claim) == _uid(written):
                return
            del self._written[key]
            if _version(claim) == _version(written):
                return
        self._publish(visible, claim)

    def record_write(self, claim: Json) -> None:
        """Record the server's answer to a write."""
        key = key_of(claim)
        visible = self.get(key)
        observed = self._observed.get(key)
        if observed is None or _uid(observed) != _uid(claim) or _version(claim) <= _version(observed):
            return
        self._written[key] = claim
        self._publish(visible, claim)

    def _publish(self, old: Json | None, new: Json) -> None:
        self._allocated.upsert_claim(new)
        self._notify(old, new)

    # Pending allocations

    def begin_group(self) -> None:
        """Begin a group's cycle: its members share allocations, and released ones are not announced."""
        self._cycle_claims = set()

    def end_group(self) -> None:
        """End the group's cycle."""
        self._cycle_claims = None

    def shared_allocation(self, claim: Json) -> Json | None:
        """Return the allocation of the claim for another member of the group that is being scheduled."""
        if self._cycle_claims is None or _uid(claim) not in self._cycle_claims:
            return None
        pending = self.pending.get(_uid(claim))
        return pending.allocation if pending is not None else None

    def share(self, claim: Json) -> None:
        """Add one pod to the pending allocation."""
        self.pending[_uid(claim)].sharers += 1

    def allocate(self, claim: Json, allocation: Json) -> None:
        """Reserve devices for a claim in memory."""
        self.pending[_uid(claim)] = PendingAllocation(claim, allocation)
        if self._cycle_claims is not None:
            self._cycle_claims.add(_uid(claim))
        self._allocated.assume(claim, allocation)

    def release(self, claim: Json) -> None:
        """Remove one pod from the pending allocation; release it after the last."""
        pending = self.pending.get(_uid(claim))
        if pending is not None:
            pending.sharers -= 1
            if pending.sharers <= 0:
                self._drop(claim)
                if self._cycle_claims is not None:
                    return
                # The devices are free again; pods that wait for them must be woken.
                self._notify({**claim, "status": {"allocation": pending.allocation}}, self.get(key_of(claim)))

    def confirm(self, claim: Json) -> None:
        """End the pending allocation after it was written."""
        if _uid(claim) in self.pending:
            self._drop(claim)

    def _drop(self, claim: Json) -> None:
        del self.pending[_uid(claim)]
        self._allocated.forget(claim)

    # Lookups for a pod

    def walk(self, pod: Json) -> list[Json]:
        """Return the pod's claims in order. Raise ClaimWalkError at the first missing or unusable one."""
        namespace = pod["metadata"]["namespace"]
        claims = []
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                reference = claim_reference(pod, entry)
            except ClaimReferenceError as error:
                raise ClaimWalkError(str(error)) from error
            if reference.name is None:
                continue
            key = f"{namespace}/{reference.name}"
            claim = self.get(key)
            if claim is None:
                raise ClaimWalkError(f'could not find ResourceClaim "{key}"')
            if claim["metadata"].get("deletionTimestamp"):
                raise ClaimWalkError(f'resourceclaim "{reference.name}" is being deleted')
            if reference.check_owner and (foreign := self.groups.foreign_reason(pod, claim)) is not None:
                raise ClaimWalkError(foreign)
            claims.append(claim)
        return claims

    def consumers(self, pod: Json) -> list[Json]:
        """Return the consumer for each of the pod's claims. Raise ClaimWalkError if it cannot be determined."""
        try:
            return self.groups.consumers(pod)
        except (LookupError, ClaimReferenceError) as error:
            raise ClaimWalkError(str(error)) from error


def claim_keys(pod: Json) -> list[str]:
    """Return the keys of the claims that a pod names, as far as they are known."""
    namespace = pod["metadata"]["namespace"]
    keys = []
    for entry in pod["spec"].get("resourceClaims") or ():
        try:
            name = claim_reference(pod, entry).name
        except ClaimReferenceError:
            continue
        if name is not None:
            keys.append(f"{namespace}/{name}")
    return keys


def _version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _uid(obj: Json) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid
