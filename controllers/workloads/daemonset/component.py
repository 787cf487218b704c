"""The DaemonSet controller: queue, pods and status of DaemonSets."""

from __future__ import annotations

from datetime import timedelta

from apiserver.api.helpers.tolerations import COMPARISON_GATE
from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from controllers.workloads.common.component import Workload
from controllers.workloads.common.expectations import Expectations
from controllers.workloads.common.history import History
from controllers.workloads.common.owned import OwnedObjects, selector_of
from controllers.workloads.common.pod_control import PodControl, all_of, in_terminating_namespace, slow_start
from controllers.workloads.common.pod_states import next_availability
from controllers.workloads.common.references import Claimer, controller_of
from controllers.workloads.daemonset.nodes import Eligibility, bind_to_node, pod_template
from controllers.workloads.daemonset.reconcile import BURST, FailedPods, PodChanges, ReconcilePass
from controllers.workloads.daemonset.revisions import Revisions
from controllers.workloads.daemonset.updating import update

NAME = "daemonset-controller"


def build(client: Client, informers: Informers, options: Options) -> DaemonSets:
    """Build the component for the manager."""
    return DaemonSets(client, informers, options)


class DaemonSets(Workload):
    """The DaemonSet controller. Keys are those of DaemonSets."""

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        super().__init__(
            NAME, client, informers, options, DAEMON_SETS, source=NAME, queue="daemonset", skips="daemonset_controller"
        )
        self._compares = options.features.enabled(COMPARISON_GATE)
        self._control = PodControl(self.client, self.recorder, DAEMON_SETS)
        self._expectations, self._failed = Expectations(), FailedPods()
        pods = self.need(informers.of(PODS))
        self._pods = OwnedObjects(self.owners, pods, self.queue, self._expectations)
        self._by_node = pods.index("node name", lambda pod: (pod["spec"].get("nodeName", ""),))
        revisions = self.need(informers.of(CONTROLLER_REVISIONS))
        self._revisions = Revisions(
            self, History(self.client, revisions, DAEMON_SETS), OwnedObjects(self.owners, revisions, self.queue)
        )
        self._nodes = self.need(informers.of(NODES))
        self._nodes.on(self._node_changed, self._node_updated)

    def owner_deleted(self, key: str) -> None:
        self._expectations.remove(key)

    def _node_updated(self, before: Json, node: Json) -> None:
        was, present = ((each["metadata"].get("labels"), each["spec"].get("taints")) for each in (before, node))
        if was != present:
            self._node_changed(node)

    def _node_changed(self, node: Json) -> None:
        """Enqueue the DaemonSets affected by a node."""
        here = {
            f"{pod['metadata']['namespace']}/{reference['name']}"
            for pod in self._by_node.get(node["metadata"]["name"])
            if (reference := controller_of(pod)) is not None and reference["kind"] == DAEMON_SETS.kind
        }
        for key, owner in self.owners.objects.items():
            verdict = Eligibility(owner, self._compares).of(node)
            misplaced = (owner.get("status") or {}).get("numberMisscheduled", 0)
            if (misplaced or not verdict.stay) if key in here else verdict.run:
                self.queue(key)

    async def sync(self, key: str, owner: Json) -> timedelta | None:
        selector = selector_of(owner)
        if selector.empty:
            text = "This daemon set is selecting all pods. A non-empty selector is required."
            self.recorder.record(owner, "Warning", "SelectingAll", text)
            return None
        if owner["metadata"].get("deletionTimestamp"):
            return None
        claimer = Claimer(self.client, owner, DAEMON_SETS, selector, PODS)
        pods = await claimer.claim(self._pods.of(owner))
        current, old = await self._revisions.of(owner, pods)
        code = current["metadata"]["labels"].get("controller-revision-hash", "")

        def record(type: str, reason: str, message: str) -> None:
            self.recorder.record(owner, "Warning" if type == "Warning" else "Normal", reason, message)

        self._failed.expire(now())
        this = ReconcilePass(owner, self._nodes.objects, pods, code, now(), self._failed, record, self._compares)
        settled = self._expectations.is_satisfied(key)
        try:
            if settled:
                await self._manage(key, this)
                await self._revisions.clean_up(old, pods, int(owner["spec"].get("revisionHistoryLimit", 10)))
        finally:
            await self._write(this, observed=settled)
        later = next_availability(pods, owner["spec"].get("minReadySeconds", 0), now())
        return min((each for each in (later, this.again) if each is not None), default=None)

    async def _manage(self, key: str, this: ReconcilePass) -> None:
        await self._apply(key, this, this.manage())
        strategy = this.owner["spec"].get("updateStrategy") or {}
        if self._expectations.is_satisfied(key) and strategy.get("type") == "RollingUpdate":
            await self._apply(key, this, update(this))

    async def _apply(self, key: str, this: ReconcilePass, work: PodChanges) -> None:
        """Create and delete pods. Raise the first failure after trying all."""
        nodes, pods = work.nodes[:BURST], work.pods[:BURST]
        self._expectations.expect(key, len(nodes), [pod["metadata"]["uid"] for pod in pods])
        template = pod_template(this.owner, this.code) if nodes else {}

        async def create(number: int) -> None:
            try:
                await self._control.create(this.owner, bind_to_node(template, nodes[number]))
            except Exception as error:
                if not in_terminating_namespace(error):
                    raise

        async def delete(pod: Json) -> None:
            try:
                await self._control.delete(this.owner, pod)
            except Exception as error:
                self._expectations.observe_deletion(key, pod["metadata"]["uid"])
                if not is_reason(error, "NotFound"):
                    raise

        made, failure = await slow_start(len(nodes), create)
        self._expectations.observe_creation(key, len(nodes) - made)
        failures = await all_of(delete(pod) for pod in pods)
        if failure is not None or failures:
            raise failure or failures[0]

    async def _write(self, this: ReconcilePass, *, observed: bool) -> None:
        """Write the status. The generation counts as observed only after the pods were managed."""
        before, counts = this.owner.get("status") or {}, this.status()
        generation = this.owner["metadata"].get("generation", 0)
        seen = before.get("observedGeneration", 0)
        if seen >= generation and all(before.get(name, 0) == count for name, count in counts.items()):
            return
        wanted = {**before, **counts, "observedGeneration": generation if observed else seen}
        if wanted != {**dict.fromkeys(counts, 0), "observedGeneration": 0, **before}:
            await self.write_status(this.owner, wanted)
