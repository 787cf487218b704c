"""One pass over one StatefulSet: creates missing pods in order, deletes surplus ones from the last, updates one.

In ordered mode each pod waits until the one before is available, and an unavailable pod blocks all else. In parallel
mode nothing waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from apiserver.api.objects import Json
from controllers.runtime.client import Client, StatusError, is_reason
from controllers.runtime.intorstring import scaled
from controllers.runtime.kinds import PODS
from controllers.workloads.common.component import Workload
from controllers.workloads.common.history import with_template
from controllers.workloads.common.pod_control import slow_start
from controllers.workloads.common.pod_states import is_available, is_deleted, is_ready, phase
from controllers.workloads.statefulset.claims import ClaimError, Claims
from controllers.workloads.statefulset.identity import (
    desired_numbers,
    has_identity,
    has_storage,
    is_parallel,
    keeps_current,
    new_pod,
    number_of,
    replicas,
    revision_of,
    with_identity,
    with_storage,
)

_Step = Callable[[Json], Awaitable[bool]]


class ReconcilePass:
    """One pass over one StatefulSet.

    `current` and `update` are revisions. `with_unavailable` allows updates of several pods at the same time.
    """

    def __init__(
        self,
        component: Workload,
        claims: Claims,
        owner: Json,
        revisions: tuple[Json, Json],
        pods: Sequence[Json],
        now: datetime,
        *,
        with_unavailable: bool,
    ) -> None:
        self._component, self._claims, self._owner, self._now = component, claims, owner, now
        self._client: Client = component.client
        self.current, self.update = revisions
        self._with_unavailable = with_unavailable
        self._updated = with_template(owner, self.update)
        self._seconds = owner["spec"].get("minReadySeconds", 0)
        self._ordered = not is_parallel(owner)
        numbers, known = desired_numbers(owner), {number_of(pod): pod for pod in pods}
        self.replicas = [known[number] if number in known else self._new_pod(number) for number in numbers]
        beyond = [pod for number, pod in known.items() if number >= 0 and number not in numbers]
        self._condemned = sorted(beyond, key=number_of, reverse=True)
        self._all = list(pods)
        #: Number of pods of the current revision deleted for an update in this pass.
        self.deleted_outdated = 0
        #: Number of unavailable pods, if computed.
        self.unavailable: int | None = None

    @property
    def limit(self) -> int:
        """The maximum number of unavailable pods during an update."""
        rolling = (self._owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        return max(1, scaled(rolling.get("maxUnavailable", 1), replicas(self._owner), up=False))

    def _new_pod(self, number: int) -> Json:
        current = keeps_current(self._owner, number)
        revision = self.current if current else self.update
        return new_pod(with_template(self._owner, revision), revision["metadata"]["name"], number)

    async def run(self) -> None:
        """Run the pass. Raise StatusError or ClaimError."""
        if self._owner["metadata"].get("deletionTimestamp"):
            return
        if await self._for_all(self.replicas, self._ensure):
            return
        if await self._for_all(self._condemned, self._set_claim_owners):
            return
        if await self._for_all(self._condemned, self._condemn):
            return
        strategy = self._owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") != "OnDelete":
            settings = strategy.get("rollingUpdate") or {}
            if self._with_unavailable:
                await self._update_several(settings)
            else:
                await self._update_one(int(settings.get("partition", 0)))

    async def _for_all(self, pods: Sequence[Json], step: _Step) -> bool:
        """Run a step for each pod. Return whether one has ended the pass, which happens in ordered mode only."""
        if self._ordered:
            for pod in pods:
                if await step(pod):
                    return True
            return False

        async def one(number: int) -> None:
            await step(pods[number])

        _, failure = await slow_start(len(pods), one)
        if failure is not None:
            raise failure
        return False

    async def _ensure(self, pod: Json) -> bool:
        """Create or repair a desired pod. Return whether the pass ends."""
        if phase(pod) in ("Failed", "Succeeded"):
            if not is_deleted(pod):
                await self._delete(pod)
            return True
        if not phase(pod):
            if self._claims.is_stale(self._owner, pod):
                return True
            await self._create(pod)
            if self._ordered:
                return True
        if phase(pod) == "Pending":
            await self._complete_claims(pod)
        if self._ordered and self._has_to_wait(pod):
            return True
        matches = has_identity(self._owner, pod) and has_storage(self._owner, pod)
        if not matches or not self._claims.has_owners(self._updated, pod):
            await self._repair(pod)
        return False

    def _has_to_wait(self, pod: Json) -> bool:
        return is_deleted(pod) or not self._is_running(pod) or not self._is_available(pod)

    async def _set_claim_owners(self, pod: Json) -> bool:
        if not self._claims.has_owners(self._updated, pod):
            await self._claims.set_owners(self._updated, pod)
        return False

    async def _condemn(self, pod: Json) -> bool:
        """Delete a surplus pod; while another pod is unavailable, only that one."""
        if is_deleted(pod):
            return self._ordered
        unhealthy = not self._is_running(pod) or not self._is_available(pod)
        if unhealthy and self._ordered and pod is not self._first_unavailable():
            return True
        await self._delete(pod)
        return True

    def _first_unavailable(self) -> Json | None:
        everyone = [*self.replicas, *reversed(self._condemned)]
        return next((pod for pod in everyone if self._is_unavailable(pod)), None)

    # Updates begin with the last pod.

    async def _update_one(self, partition: int) -> None:
        for pod in reversed(self.replicas[partition:]):
            if self._is_outdated(pod):
                await self._delete_outdated(pod)
                return
            if self._is_unavailable(pod):
                return

    async def _update_several(self, settings: Json) -> None:
        self.unavailable = sum(map(self._is_unavailable, self.replicas))
        room = self.limit - self.unavailable
        for pod in reversed(self.replicas[int(settings.get("partition", 0)) :]):
            if room <= 0:
                return
            if self._is_outdated(pod):
                await self._delete_outdated(pod)
                room -= 1

    def _is_outdated(self, pod: Json) -> bool:
        return revision_of(pod) != self.update["metadata"]["name"] and not is_deleted(pod)

    async def _delete_outdated(self, pod: Json) -> None:
        await self._delete(pod)
        self.deleted_outdated += 1

    def _is_running(self, pod: Json) -> bool:
        return phase(pod) == "Running" and is_ready(pod)

    def _is_available(self, pod: Json) -> bool:
        return is_available(pod, self._seconds, self._now)

    def _is_unavailable(self, pod: Json) -> bool:
        return not self._is_available(pod) or is_deleted(pod)

    def counts(self) -> Json:
        """Return the counts of the status."""
        running = [pod for pod in self._all if self._is_running(pod)]
        staying = [pod for pod in self._all if phase(pod) and not is_deleted(pod)]
        current, update = (revision["metadata"]["name"] for revision in (self.current, self.update))
        return {
            "replicas": sum(bool(phase(pod)) for pod in self._all),
            "readyReplicas": len(running),
            "availableReplicas": sum(self._is_available(pod) for pod in running),
            "currentReplicas": sum(revision_of(pod) == current for pod in staying) - self.deleted_outdated,
            "updatedReplicas": sum(revision_of(pod) == update for pod in staying),
        }

    async def _create(self, pod: Json) -> None:
        try:
            await self._claims.create(self._owner, pod)
        except ClaimError as error:
            self._record("Create", pod, error)
            raise
        failure: StatusError | None = None
        try:
            made = await self._client.create(PODS, pod)
            self._component.record_write(self._owner, PODS, made)
        except StatusError as error:
            if is_reason(error, "AlreadyExists"):
                raise
            failure = error
        await self._set_owners(pod)
        self._record("Create", pod, failure)
        if failure is not None:
            raise failure

    async def _complete_claims(self, pod: Json) -> None:
        await self._claims.create(self._owner, pod)
        await self._set_owners(pod)

    async def _set_owners(self, pod: Json) -> None:
        try:
            await self._claims.set_owners(self._owner, pod)
        except StatusError as error:
            self._record("Update", pod, error)
            raise

    async def _repair(self, pod: Json) -> None:
        """Restore a pod's identity and storage."""
        desired = pod if has_identity(self._owner, pod) else with_identity(self._owner, pod)
        try:
            if not has_storage(self._updated, desired):
                desired = with_storage(self._updated, desired)
                await self._claims.create(self._updated, desired)
            if not self._claims.has_owners(self._updated, desired):
                await self._claims.set_owners(self._updated, desired)
            if desired is not pod:
                self._component.record_write(self._owner, PODS, await self._client.update(PODS, desired))
        except (StatusError, ClaimError) as error:
            self._record("Update", pod, error)
            raise
        self._record("Update", pod, None)

    async def _delete(self, pod: Json) -> None:
        metadata = pod["metadata"]
        try:
            answer = await self._client.delete(PODS, metadata["name"], metadata["namespace"])
            if answer.get("kind") == "Pod":
                self._component.record_write(self._owner, PODS, answer)
        except StatusError as error:
            if not is_reason(error, "NotFound"):
                self._record("Delete", pod, error)
                raise
        self._record("Delete", pod, None)

    def _record(self, verb: str, pod: Json, error: Exception | None) -> None:
        what = f"{verb} Pod {pod['metadata']['name']} in StatefulSet {self._owner['metadata']['name']}"
        record = self._component.recorder.record
        if error is None:
            record(self._owner, "Normal", f"Successful{verb}", f"{what} successful")
        else:
            record(self._owner, "Warning", f"Failed{verb}", f"{what} failed error: {error}")
