"""ReplicaSets: keep `spec.replicas` active pods of a template.

ReplicationControllers use the same code with another kind and selector (`replicationcontroller`). Facts: upstream's
pkg/controller/replicaset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector, from_labels
from apiserver.runtime.clock import now
from apiserver.runtime.metrics import Family, Histogram
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import PODS, REPLICA_SETS, Kind
from controllers.runtime.times import parse_time
from controllers.workloads.common.component import Workload
from controllers.workloads.common.conditions import condition, condition_of, with_condition, without_condition
from controllers.workloads.common.expectations import Expectations
from controllers.workloads.common.object_cache import ObjectCache
from controllers.workloads.common.owned import OwnedObjects, selector_of
from controllers.workloads.common.pod_control import BURST, PodControl, all_of, in_terminating_namespace, slow_start
from controllers.workloads.common.pod_states import (
    is_active,
    is_available,
    is_ready,
    is_terminating,
    next_availability,
    to_delete_first,
)
from controllers.workloads.common.references import Claimer, controller_of

NAME = "replicaset-controller"
#: Enables counts of terminating pods in the status.
TERMINATING_GATE = "DeploymentReplicaSetTerminatingReplicas"
#: Enables the annotation `controller.kubernetes.io/pod-deletion-cost`.
COST_GATE = "PodDeletionCost"
#: Owners with at least `MANY` pods batch changes for `PER_POD` per pod, at most `LONGEST`.
MANY, PER_POD, LONGEST = 50, timedelta(microseconds=100), timedelta(seconds=1)
_FAILURE = "ReplicaFailure"
_COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "terminatingReplicas")


def build(client: Client, informers: Informers, options: Options) -> ReplicaSets:
    """Build the component for the manager."""
    return ReplicaSets(NAME, client, informers, options, REPLICA_SETS, source=NAME, queue="replicaset")


class ReplicaSets(Workload):
    """The controller of one of the two kinds."""

    def __init__(
        self, name: str, client: Client, informers: Informers, options: Options, kind: Kind, *, source: str, queue: str
    ) -> None:
        super().__init__(
            name, client, informers, options, kind, source=source, queue=queue, skips="replicaset_controller"
        )
        self._with_terminating = kind == REPLICA_SETS and options.features.enabled(TERMINATING_GATE)
        self._by_cost = options.features.enabled(COST_GATE)
        self._control = PodControl(self.client, self.recorder, kind)
        self._expectations = Expectations()
        #: Uid and generation of the owner, and cached states of its pods, by key.
        self._pod_states: dict[str, tuple[tuple[str, int], ObjectCache[_Pod]]] = {}
        pods = self.need(informers.of(PODS))
        self._pods = OwnedObjects(self.owners, pods, self._pod_changed, self._expectations)
        self._siblings = self.owners.index(
            "controller uid", lambda owner: (ref["uid"],) if (ref := controller_of(owner)) else ()
        )
        self._in_namespace = pods.index("namespace", lambda pod: (pod["metadata"]["namespace"],))
        self._age_ratio = Histogram(
            f"{name.removesuffix('-controller')}_controller_sorting_deletion_age_ratio",
            "Ratio of the ages of deleted ready pods to the age of the youngest ready one.",
            (),
            [0.25 * 2**power for power in range(6)],
        )

    @property
    def metrics(self) -> Sequence[Family]:
        own = (self._age_ratio,) if self.kind == REPLICA_SETS else ()
        return (*super().metrics, *own)

    def _pod_changed(self, key: str) -> None:
        """Enqueue an owner, later if it has many pods, because a pass costs time per pod."""
        owner = self.owners.get(key)
        number = self._pods.number(owner) if owner is not None else 0
        if number < MANY:
            self.queue(key)
        else:
            self._controller.queue.add_after(key, min(number * PER_POD, LONGEST))

    def owner_deleted(self, key: str) -> None:
        self._expectations.remove(key)
        self._pod_states.pop(key, None)

    async def sync(self, key: str, owner: Json) -> timedelta | None:
        is_satisfied = self._expectations.is_satisfied(key)
        found = self._states_of(key, owner).of(self._pods.of(owner))
        disputed = [pod for pod, each in found if each.active and not each.mine]
        if disputed:
            claimer = Claimer(self.client, owner, self.kind, selector_of(owner), PODS)
            claimed = {pod["metadata"]["uid"] for pod in await claimer.claim(disputed)}
            found = [
                (pod, each) for pod, each in found if each.mine or not each.active or pod["metadata"]["uid"] in claimed
            ]
        active = [(pod, each) for pod, each in found if each.active]
        failure = None
        if is_satisfied and not owner["metadata"].get("deletionTimestamp"):
            failure = await self._manage(key, owner, [pod for pod, _ in active])
        terminating = sum(each.terminating and each.mine for _, each in found)
        status = self._status(owner, active, terminating, failure)
        if status != owner.get("status"):
            owner = await self.write_status(owner, status)
        if failure is not None:
            raise failure
        seconds = owner["spec"].get("minReadySeconds", 0)
        return next_availability((pod for pod, _ in active), seconds, now())

    def _states_of(self, key: str, owner: Json) -> ObjectCache[_Pod]:
        """Return the cache of an owner's pod states, valid for one generation."""
        uid: str = owner["metadata"]["uid"]
        state = (uid, owner["metadata"].get("generation", 0))
        known = self._pod_states.get(key)
        if known is None or known[0] != state:
            selector = selector_of(owner)
            template = from_labels((owner["spec"].get("template") or {}).get("metadata", {}).get("labels") or {})
            known = self._pod_states[key] = (state, ObjectCache(lambda pod: _examine(pod, uid, selector, template)))
        return known[1]

    async def _manage(self, key: str, owner: Json, active: list[Json]) -> Exception | None:
        """Create or delete up to 500 pods. Return the first failure."""
        surplus = len(active) - owner["spec"].get("replicas", 1)
        if surplus < 0:
            return await self._create(key, owner, min(-surplus, BURST))
        if surplus > 0:
            return await self._delete(key, owner, active, min(surplus, BURST))
        return None

    async def _create(self, key: str, owner: Json, count: int) -> Exception | None:
        self._expectations.expect(key, creations=count)
        template = owner["spec"].get("template") or {}

        async def create(_: int) -> None:
            try:
                await self._control.create(owner, template)
            except Exception as error:
                if not in_terminating_namespace(error):
                    raise

        made, failure = await slow_start(count, create)
        self._expectations.observe_creation(key, count - made)
        return failure

    async def _delete(self, key: str, owner: Json, active: list[Json], count: int) -> Exception | None:
        chosen = active
        if count < len(active):
            chosen = to_delete_first(active, self._related_pods(owner), now(), by_cost=self._by_cost)[:count]
            self._observe_ages(active, chosen)
        self._expectations.expect(key, deletions=[pod["metadata"]["uid"] for pod in chosen])

        async def delete(pod: Json) -> None:
            try:
                await self._control.delete(owner, pod)
            except Exception as error:
                self._expectations.observe_deletion(key, pod["metadata"]["uid"])
                if not is_reason(error, "NotFound"):
                    raise

        failures = await all_of(delete(pod) for pod in chosen)
        return failures[0] if failures else None

    def _related_pods(self, owner: Json) -> list[Json]:
        """Return the pods of all owners with the same controller."""
        reference = controller_of(owner)
        if reference is None:
            return []
        siblings = [selector_of(sibling) for sibling in self._siblings.get(reference["uid"])]
        return [
            pod
            for pod in self._in_namespace.get(owner["metadata"]["namespace"])
            if any(selector.matches(pod["metadata"].get("labels")) for selector in siblings)
        ]

    def _observe_ages(self, active: list[Json], chosen: list[Json]) -> None:
        ages = {pod["metadata"]["uid"]: _age(pod) for pod in active if is_ready(pod)}
        youngest = min(ages.values(), default=0)
        for pod in chosen:
            if youngest > 0 and pod["metadata"]["uid"] in ages:
                self._age_ratio.observe(float(ages[pod["metadata"]["uid"]] // youngest))

    def _status(
        self, owner: Json, active: list[tuple[Json, _Pod]], terminating: int, failure: Exception | None
    ) -> Json:
        spec, before, at = owner["spec"], owner.get("status") or {}, now()
        ready = [pod for pod, each in active if each.ready]
        seconds = spec.get("minReadySeconds", 0)
        counts = {
            "replicas": len(active),
            "fullyLabeledReplicas": sum(each.labelled for _, each in active),
            "readyReplicas": len(ready),
            "availableReplicas": sum(is_available(pod, seconds, at) for pod in ready) if seconds else len(ready),
        }
        status = {name: value for name, value in before.items() if name not in _COUNTS and name != "conditions"}
        # As on the wire: zero counts are omitted, except `replicas`.
        status |= {name: count for name, count in counts.items() if count or name == "replicas"}
        if self._with_terminating:
            status["terminatingReplicas"] = terminating
        status["observedGeneration"] = owner["metadata"].get("generation", 0)
        conditions = self._conditions(owner, before, len(active), failure)
        if conditions:
            status["conditions"] = conditions
        return status

    @staticmethod
    def _conditions(owner: Json, before: Json, active: int, failure: Exception | None) -> list[Json]:
        conditions = before.get("conditions") or []
        if failure is None:
            return without_condition(conditions, _FAILURE)
        if condition_of(before, _FAILURE) is not None:
            return list(conditions)
        reason = "FailedCreate" if active < owner["spec"].get("replicas", 1) else "FailedDelete"
        return with_condition(conditions, condition(_FAILURE, "True", reason, str(failure)))


@dataclass(frozen=True, slots=True)
class _Pod:
    """The relevant state of a pod. `mine` marks pods controlled and selected by the owner."""

    active: bool
    terminating: bool
    mine: bool
    labelled: bool
    ready: bool


def _examine(pod: Json, uid: str, selector: LabelSelector, template: LabelSelector) -> _Pod:
    labels, controller = pod["metadata"].get("labels"), controller_of(pod)
    return _Pod(
        is_active(pod),
        is_terminating(pod),
        controller is not None and bool(controller["uid"] == uid) and selector.matches(labels),
        template.matches(labels),
        is_ready(pod),
    )


def _age(pod: Json) -> int:
    """Return the pod's age in milliseconds."""
    return (now() - parse_time(pod["metadata"]["creationTimestamp"])) // timedelta(milliseconds=1)
