"""The taint eviction controller: deletes pods that do not tolerate a NoExecute taint of their node.

A pod is deleted immediately or when its shortest toleration ends. The deadline stays while the taints are tolerated; it
counts from the first observation. Facts: upstream's pkg/controller/tainteviction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from apiserver.api.helpers.tolerations import COMPARISON_GATE, tolerates
from apiserver.api.objects import Json
from apiserver.api.values.durations import go_seconds
from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter, Family, Histogram
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.conditions import condition_patch
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import NODES, PODS, key_of, split_key
from controllers.runtime.times import go_time

NAME = "taint-eviction-controller"
_WORKERS: Final = 8
_REASON: Final = "TaintManagerEviction"
_CONDITION: Final = {
    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint", "lastProbeTime": None,
}  # fmt: skip
_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


def build(client: Client, informers: Informers, options: Options) -> TaintEviction:
    """Build the component for the manager."""
    return TaintEviction(client, informers, options)


def no_execute(node: Json) -> list[Json]:
    """Return a node's NoExecute taints."""
    return [taint for taint in node.get("spec", {}).get("taints") or () if taint["effect"] == "NoExecute"]


class _ScheduledEviction(NamedTuple):
    uid: str
    when: datetime
    #: Set after the deletion, which happens only once.
    done: bool = False


class TaintEviction(ControllerComponent):
    """The taint eviction controller. Keys are those of pods."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller(NAME)
        self._observed = options.features.enabled("PodObservedGenerationTracking")
        self._compares = options.features.enabled(COMPARISON_GATE)
        self._recorder = CoreEventRecorder(self._client, NAME)
        self._pods, self._nodes = informers.of(PODS), informers.of(NODES)
        self._on_node = self._pods.index("node name", lambda pod: (pod["spec"].get("nodeName", ""),))
        self._due: dict[str, _ScheduledEviction] = {}
        self._deletions = Counter(
            "taint_eviction_controller_pod_deletions_total", "Pods deleted because of node taints."
        )
        name = "taint_eviction_controller_pod_deletion_duration_seconds"
        self._latencies = Histogram(
            name, "Time between the due time of an eviction and the deletion of the pod.", (), _BUCKETS
        )
        self._controller = Controller(NAME, self.reconcile, workers=_WORKERS, queue="noexec_taint_pod")
        self._controller.alongside(self._recorder.run)
        self._controller.require(self._pods)
        self._controller.require(self._nodes)
        self._nodes.on(self._node_changed, self._node_updated)
        self._pods.on(self._pod_changed, self._pod_updated, self._pod_gone)

    @property
    def metrics(self) -> Sequence[Family]:
        return (*self._controller.metrics, self._deletions, self._latencies)

    def _node_changed(self, node: Json) -> None:
        for key in self._on_node.keys(node["metadata"]["name"]):
            self._controller.queue.add(key)

    def _node_updated(self, before: Json, node: Json) -> None:
        if no_execute(before) != no_execute(node):
            self._node_changed(node)

    def _pod_changed(self, pod: Json) -> None:
        """Enqueue a pod that has a deadline or is on a tainted node; nearly all others are skipped.

        A node that appears later enqueues its own pods.
        """
        key, node = key_of(pod), self._nodes.get(pod["spec"].get("nodeName", ""))
        if key in self._due or (node is not None and no_execute(node)):
            self._controller.queue.add(key)

    def _pod_gone(self, pod: Json) -> None:
        self._controller.queue.drop(key_of(pod))
        self._pod_changed(pod)

    def _pod_updated(self, before: Json, pod: Json) -> None:
        old, new = before["spec"], pod["spec"]
        if (old.get("nodeName"), old.get("tolerations")) != (new.get("nodeName"), new.get("tolerations")):
            self._pod_changed(pod)

    async def reconcile(self, key: str) -> timedelta | None:
        pod = self._pods.get(key)
        due = self._due.get(key)
        if due is not None and (pod is None or pod["metadata"]["uid"] != due.uid):
            self._cancel(key)
        if pod is None:
            return None
        due, now = self._due.get(key), clock.now()
        if due is not None and due.done:
            return None
        node = self._nodes.get(pod["spec"].get("nodeName", ""))
        taints, tolerations = no_execute(node) if node is not None else (), pod["spec"].get("tolerations") or ()
        tolerated = _toleration_time(taints, tolerations, self._compares)
        if tolerated is None:
            self._cancel(key)
            return None
        if due is None or not tolerated:
            if due is not None and due.when > now:
                self._cancel(key)
            due = self._due[key] = _ScheduledEviction(pod["metadata"]["uid"], now + tolerated)
        if due.when > now:
            return due.when - now
        await self._evict(key, pod, due)
        return None

    def _cancel(self, key: str) -> None:
        due = self._due.pop(key, None)
        if due is not None and not due.done:
            self._recorder.record(_involved_object(key), "Normal", _REASON, f"Cancelling deletion of Pod {key}")

    async def _evict(self, key: str, pod: Json, due: _ScheduledEviction) -> None:
        self._recorder.record(_involved_object(key), "Normal", _REASON, f"Marking for deletion Pod {key}")
        namespace, name = split_key(key)
        try:
            fresh = await self._client.get(PODS, name, namespace)
            condition = {**_CONDITION, "lastTransitionTime": go_time(clock.now())}
            if self._observed:
                condition["observedGeneration"] = fresh["metadata"].get("generation", 0)
            status = condition_patch(fresh, condition)
            if status:
                body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
                await self._client.patch(PODS, name, body, namespace, subresource="status", parse=False)
            await self._client.delete(PODS, name, namespace, uid=pod["metadata"]["uid"], parse=False)
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
        self._due[key] = due._replace(done=True)
        self._deletions.inc()
        self._latencies.observe((clock.now() - due.when).total_seconds())


def _toleration_time(taints: Iterable[Json], tolerations: Sequence[Json], comparing: bool) -> timedelta | None:
    """Return how long all taints are tolerated; None means forever."""
    seconds: list[int] = []
    for taint in taints:
        value, effect = taint.get("value") or "", taint["effect"]
        used = next((each for each in tolerations if tolerates(each, taint["key"], value, effect, comparing)), None)
        if used is None:
            return timedelta()
        if used.get("tolerationSeconds") is not None:
            seconds.append(max(0, used["tolerationSeconds"]))
    return go_seconds(min(seconds)) if seconds else None


def _involved_object(key: str) -> Json:
    """Build the involved object of an event: the pod's name without uid."""
    namespace, name = split_key(key)
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": {"namespace": namespace, "name": name}}
