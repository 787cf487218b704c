"""The claims as the scheduler knows them: what the server says, what was just written, and what is about to be.

* A claim that was just written counts in the version that the server answered with, until the watch has caught up.
* A pending allocation (made for a pod that is on its way to its node) counts as allocated for every other pod.

Both reach the allocator's state at once, so it is never rebuilt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from apiserver.api.objects import Json
from controllers.allocator import Allocated
from controllers.resourceclaims import ClaimReferenceError, claim_reference
from controllers.runtime.kinds import key_of
from controllers.scheduler.dra.extended_resources import owner_of_special
from controllers.scheduler.dra.group_claims import NO_GROUPS, PodGroups

#: Called with a claim before and after a change; None where it is missing.
Changed = Callable[[Json | None, Json | None], None]


class ClaimWalkError(Exception):
    """A claim of the pod cannot be used yet; the text says why."""


@dataclass(slots=True)
class Pending:
    """An allocation that is not written yet, and by how many pods it is shared."""

    claim: Json
    allocation: Json
    sharers: int = 1


class ClaimCache:
    """Claims by `namespace/name`."""

    def __init__(self, allocated: Allocated, groups: PodGroups = NO_GROUPS) -> None:
        self._allocated, self.groups = allocated, groups
        self._changed: Changed = lambda _, __: None
        self._observed: dict[str, Json] = {}
        self._written: dict[str, Json] = {}
        self.pending: dict[str, Pending] = {}
        """By the claim's uid."""
        self._special: dict[str, str] = {}
        """The keys of claims for extended resources, by the uid of their pod."""
        self._of_cycle: set[str] | None = None
        """Claims that were allocated for a group while it is being placed, by uid; None: none is."""
        self._awaited: dict[str, list[asyncio.Future[None]]] = {}

    def when_changed(self, notify: Changed) -> None:
        """Call `notify` for every change of the claims that are visible here."""
        self._changed = notify

    def get(self, key: str) -> Json | None:
        return self._written.get(key) or self._observed.get(key)

    def special_of(self, uid: str) -> Json | None:
        """The claim that was written for the extended resources of a pod."""
        key = self._special.get(uid)
        return self.get(key) if key is not None else None

    async def observed(self, claim: Json, limit: timedelta) -> None:
        """Returns once the watch has shown a claim that was created, or after a while."""
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

    # What the watch says

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
        self._changed(visible, None)

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
        self._show(visible, claim)

    def wrote(self, claim: Json) -> None:
        """The server's answer to a write of ours."""
        key = key_of(claim)
        visible = self.get(key)
        observed = self._observed.get(key)
        if observed is None or _uid(observed) != _uid(claim) or _version(claim) <= _version(observed):
            return
        self._written[key] = claim
        self._show(visible, claim)

    def _show(self, old: Json | None, new: Json) -> None:
        self._allocated.upsert_claim(new)
        self._changed(old, new)

    # What is about to be written

    def begin_group(self) -> None:
        """A group is being placed: its members share what is allocated for one of them, and what is taken back was
        nobody's.
        """
        self._of_cycle = set()

    def end_group(self) -> None:
        """Its place is decided."""
        self._of_cycle = None

    def shared(self, claim: Json) -> Json | None:
        """The allocation that another member of the group that is being placed got for the claim."""
        if self._of_cycle is None or _uid(claim) not in self._of_cycle:
            return None
        pending = self.pending.get(_uid(claim))
        return pending.allocation if pending is not None else None

    def share(self, claim: Json) -> None:
        """One pod more that the pending allocation is for."""
        self.pending[_uid(claim)].sharers += 1

    def allocate(self, claim: Json, allocation: Json) -> None:
        """Reserves devices for a claim in memory."""
        self.pending[_uid(claim)] = Pending(claim, allocation)
        if self._of_cycle is not None:
            self._of_cycle.add(_uid(claim))
        self._allocated.assume(claim, allocation)

    def release(self, claim: Json) -> None:
        """One pod less that the pending allocation is for."""
        pending = self.pending.get(_uid(claim))
        if pending is not None:
            pending.sharers -= 1
            if pending.sharers <= 0:
                self._drop(claim)
                if self._of_cycle is not None:
                    return
                # What was taken is free again; who waits for it should know.
                self._changed({**claim, "status": {"allocation": pending.allocation}}, self.get(key_of(claim)))

    def confirm(self, claim: Json) -> None:
        """The pending allocation was written."""
        if _uid(claim) in self.pending:
            self._drop(claim)

    def _drop(self, claim: Json) -> None:
        del self.pending[_uid(claim)]
        self._allocated.forget(claim)

    # What a pod needs

    def walk(self, pod: Json) -> list[Json]:
        """The pod's claims, in its order. Raises ClaimWalkError at the first that is not there or not usable."""
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
            if reference.check_owner and (foreign := self.groups.not_for(pod, claim)) is not None:
                raise ClaimWalkError(foreign)
            claims.append(claim)
        return claims

    def consumers(self, pod: Json) -> list[Json]:
        """For whom each of the pod's claims is to be reserved. Raises ClaimWalkError where that cannot be told."""
        try:
            return self.groups.consumers(pod)
        except (LookupError, ClaimReferenceError) as error:
            raise ClaimWalkError(str(error)) from error


def claim_keys(pod: Json) -> list[str]:
    """The keys of the claims that a pod names, as far as they are known."""
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
