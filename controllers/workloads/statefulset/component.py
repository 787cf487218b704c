"""The StatefulSet controller: queue, revisions and status of StatefulSets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from apiserver.runtime.metrics import Family, Gauge
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import CONTROLLER_REVISIONS, PODS, STATEFUL_SETS, VOLUME_CLAIMS, split_key
from controllers.workloads.common.component import Workload
from controllers.workloads.common.history import History, is_same_data, next_number
from controllers.workloads.common.owned import OwnedObjects, selector_of
from controllers.workloads.common.pod_states import next_availability
from controllers.workloads.common.references import Claimer, controller_of
from controllers.workloads.statefulset.claims import Claims
from controllers.workloads.statefulset.identity import is_member, replicas, revision_of
from controllers.workloads.statefulset.reconcile import ReconcilePass

NAME = "statefulset-controller"
#: Enables updates of several pods at the same time.
UNAVAILABLE_GATE = "MaxUnavailableStatefulSet"
_COMPARED = (
    "replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas", "currentRevision",
    "updateRevision",
)  # fmt: skip


def build(client: Client, informers: Informers, options: Options) -> StatefulSets:
    """Build the component for the manager."""
    return StatefulSets(client, informers, options)


class StatefulSets(Workload):
    """The StatefulSet controller. Keys are those of StatefulSets."""

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        super().__init__(
            NAME,
            client,
            informers,
            options,
            STATEFUL_SETS,
            source=NAME,
            queue="statefulset",
            skips="statefulset_controller",
        )
        self._with_unavailable = options.features.enabled(UNAVAILABLE_GATE)
        #: Allowed and actual unavailable pods, by namespace, name and pod management policy.
        self._limits: dict[tuple[str, ...], int] = {}
        self._unavailable: dict[tuple[str, ...], int] = {}
        self._pods = OwnedObjects(self.owners, self.need(informers.of(PODS)), self.queue)
        self._history = History(self.client, self.need(informers.of(CONTROLLER_REVISIONS)), STATEFUL_SETS)
        self._claims = Claims(
            self.client,
            self.need(informers.of(VOLUME_CLAIMS)),
            self.recorder,
            lambda owner, claim: self.record_write(owner, VOLUME_CLAIMS, claim),
        )

    @property
    def metrics(self) -> Sequence[Family]:
        labels = ("statefulset_namespace", "statefulset_name", "pod_management_policy")
        prefix = "statefulset_controller_statefulset_"
        return (
            *super().metrics,
            Gauge(
                f"{prefix}max_unavailable", "Maximum number of unavailable pods.", labels, lambda: dict(self._limits)
            ),
            Gauge(
                f"{prefix}unavailable_replicas",
                "Unavailable pods.",
                labels,
                lambda: dict(self._unavailable),
            ),
        )

    def owner_deleted(self, key: str) -> None:
        for measured in (self._limits, self._unavailable):
            for labels in [each for each in measured if each[:2] == split_key(key)]:
                del measured[labels]

    def _measure(self, owner: Json, this: ReconcilePass) -> None:
        """Update the metrics of a set with MaxUnavailableStatefulSet."""
        if self._with_unavailable:
            policy = owner["spec"].get("podManagementPolicy", "")
            labels = (owner["metadata"]["namespace"], owner["metadata"]["name"], policy)
            self._limits[labels] = this.limit
            if this.unavailable is not None:
                self._unavailable[labels] = this.unavailable

    async def sync(self, key: str, owner: Json) -> timedelta | None:
        selector = selector_of(owner)
        revisions = self._history.of(owner, selector)
        orphans = [each for each in revisions if controller_of(each) is None]
        await Claimer(self.client, owner, STATEFUL_SETS, selector, CONTROLLER_REVISIONS).claim(orphans)
        claimer = Claimer(self.client, owner, STATEFUL_SETS, selector, PODS)
        pods = await claimer.claim(self._pods.of(owner), is_eligible=lambda pod: is_member(owner, pod))
        current, update, collisions = await self._revisions(owner, revisions)
        at = now()
        this = ReconcilePass(
            self, self._claims, owner, (current, update), pods, at, with_unavailable=self._with_unavailable
        )  # fmt: skip
        try:
            await this.run()
        finally:
            self._measure(owner, this)
            await self._write(owner, this, collisions)
        live = {each["metadata"]["name"] for each in (current, update)} | {revision_of(pod) for pod in pods}
        await self._history.truncate(revisions, live, int(owner["spec"].get("revisionHistoryLimit", 10)))
        return next_availability(pods, owner["spec"].get("minReadySeconds", 0), at)

    async def _revisions(self, owner: Json, known: list[Json]) -> tuple[Json, Json, int]:
        """Return the current and the update revision, and the number of name collisions."""
        status = owner.get("status") or {}
        collisions = status.get("collisionCount", 0)
        annotations = owner["metadata"].get("annotations")
        update = self._history.new(owner, next_number(known), collisions, annotations)
        equal = [each for each in known if is_same_data(each, update)]
        if equal and is_same_data(known[-1], equal[-1]):
            update = known[-1]
        elif equal:
            update = await self._history.renumber(equal[-1], update["revision"])
            self.record_write(owner, CONTROLLER_REVISIONS, update)
        else:
            update, collisions = await self._history.create(owner, update, collisions)
            self.record_write(owner, CONTROLLER_REVISIONS, update)
        current = next((each for each in known if each["metadata"]["name"] == status.get("currentRevision")), update)
        return current, update, collisions

    async def _write(self, owner: Json, this: ReconcilePass, collisions: int) -> None:
        counts, wanted = this.counts(), replicas(owner)
        status: Json = {
            "observedGeneration": owner["metadata"].get("generation", 0),
            **counts,
            "currentRevision": this.current["metadata"]["name"],
            "updateRevision": this.update["metadata"]["name"],
            "collisionCount": collisions,
        }
        rolling = (owner["spec"].get("updateStrategy") or {}).get("type") == "RollingUpdate"
        if rolling and all(counts[name] == wanted for name in ("updatedReplicas", "readyReplicas", "replicas")):
            status["currentReplicas"] = status["updatedReplicas"]
            status["currentRevision"] = status["updateRevision"]
        before = owner.get("status") or {}
        if status["observedGeneration"] > before.get("observedGeneration", 0) or any(
            (status[name] or 0) != (before.get(name) or 0) for name in _COMPARED
        ):
            await self.write_status(owner, status)
