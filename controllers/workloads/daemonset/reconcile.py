"""One pass over one DaemonSet: compares the pods on each node with the desired ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from apiserver.api.objects import Json
from controllers.runtime.intorstring import scaled
from controllers.workloads.common.pod_states import is_available, is_deleted, is_ready, is_terminal, phase
from controllers.workloads.daemonset.nodes import HASH_LABEL, Eligibility, Verdict, is_updated, sort_pods, target_node

#: Maximum number of creations, and of deletions, per pass.
BURST = 250
_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=1), timedelta(minutes=15)


@dataclass(slots=True)
class PodChanges:
    """The changes to make: nodes that need a pod, and pods to delete."""

    nodes: list[str] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)


class FailedPods:
    """The back-off of failed pods before their replacement: 1 s, doubled up to 15 min."""

    def __init__(self) -> None:
        self._delays: dict[str, tuple[timedelta, datetime]] = {}

    def backoff(self, key: str, now: datetime) -> timedelta:
        """Return the remaining back-off. Zero allows the deletion and doubles the next back-off."""
        delay, since = self._delays.get(key, (timedelta(), now))
        if now - since < delay:
            return since + delay - now
        again = now - since <= 2 * _LONGEST_DELAY
        delay = min(2 * delay, _LONGEST_DELAY) if again and delay else _FIRST_DELAY
        self._delays[key] = delay, now
        return timedelta()

    def expire(self, now: datetime) -> None:
        """Drop entries without recent failures."""
        old = [key for key, (_, since) in self._delays.items() if now - since > 2 * _LONGEST_DELAY]
        for key in old:
            del self._delays[key]


class ReconcilePass:
    """One pass over one DaemonSet.

    `code` is the hash of the current revision. `record` records an event. `comparing` enables numeric comparison in
    tolerations.
    """

    def __init__(
        self,
        owner: Json,
        nodes: Mapping[str, Json],
        pods: Iterable[Json],
        code: str,
        now: datetime,
        failed: FailedPods,
        record: Callable[[str, str, str], None],
        comparing: bool = False,
    ) -> None:
        self.owner, self.code, self.now = owner, code, now
        self._failed, self._record = failed, record
        eligible = Eligibility(owner, comparing)
        self.verdicts: dict[str, Verdict] = {name: eligible.of(node) for name, node in nodes.items()}
        self.pods: dict[str, list[Json]] = {}
        for pod in pods:
            node = target_node(pod)
            if node and not (is_terminal(pod) and is_deleted(pod)):
                self.pods.setdefault(node, []).append(pod)
        #: Delay until the back-off of a failed pod ends.
        self.again: timedelta | None = None
        self._seconds = owner["spec"].get("minReadySeconds", 0)

    @property
    def desired(self) -> int:
        """The number of nodes that need a pod."""
        return sum(verdict.run for verdict in self.verdicts.values())

    def limits(self) -> tuple[int, int]:
        """Return the maximum numbers of nodes with two pods (surge) and without pod (unavailable)."""
        strategy = self.owner["spec"].get("updateStrategy") or {}
        given = strategy.get("rollingUpdate") or {} if strategy.get("type") == "RollingUpdate" else {}
        surge = scaled(given.get("maxSurge", 0), self.desired, up=True)
        unavailable = scaled(given.get("maxUnavailable", 0), self.desired, up=True)
        if self.desired and not surge and not unavailable:
            unavailable = 1
        return surge, unavailable

    def is_available(self, pod: Json) -> bool:
        return is_available(pod, self._seconds, self.now)

    def is_updated(self, pod: Json) -> bool:
        return is_updated(self.owner, pod, self.code)

    def manage(self) -> PodChanges:
        """Plan one pod on each node that needs one, and none where it may not stay."""
        work = PodChanges()
        for node, verdict in self.verdicts.items():
            pods = self.pods.get(node)
            if verdict.run and pods is None:
                work.nodes.append(node)
            elif verdict.stay:
                self._on_node(node, verdict, pods or [], work)
            else:
                work.pods += [pod for pod in pods or () if not is_deleted(pod)]
        for node, pods in self.pods.items():
            if node not in self.verdicts:
                work.pods += [pod for pod in pods if not pod["spec"].get("nodeName")]
        return work

    def _on_node(self, node: str, verdict: Verdict, pods: list[Json], work: PodChanges) -> None:
        running = []
        for pod in pods:
            if is_deleted(pod):
                continue
            if phase(pod) in ("Failed", "Succeeded"):
                self._replace(node, pod, work)
            else:
                running.append(pod)
        if self._may_surge():
            if not running and verdict.run:
                work.nodes.append(node)
            work.pods += self._surplus(sort_pods(running))
        else:
            work.pods += sort_pods(running)[1:]

    def _replace(self, node: str, pod: Json, work: PodChanges) -> None:
        what = f"{pod['metadata']['namespace']}/{pod['metadata']['name']} on node {node}"
        if phase(pod) == "Succeeded":
            self._record("Normal", "SucceededDaemonPod", f"Found succeeded daemon pod {what}, will try to delete it")
            work.pods.append(pod)
            return
        generation = (self.owner.get("status") or {}).get("observedGeneration", 0)
        left = self._failed.backoff(f"{self.owner['metadata']['uid']}/{generation}/{node}", self.now)
        if left:
            self.again = min(left, self.again or left)
            return
        self._record("Warning", "FailedDaemonPod", f"Found failed daemon pod {what}, will try to kill it")
        work.pods.append(pod)

    def _may_surge(self) -> bool:
        strategy = self.owner["spec"].get("updateStrategy") or {}
        given = strategy.get("rollingUpdate") or {}
        return strategy.get("type") == "RollingUpdate" and scaled(given.get("maxSurge", 0), 1, up=True) > 0

    def _surplus(self, running: list[Json]) -> list[Json]:
        """Return surplus pods: all but the oldest of each template, and a replaced old one.

        The old pod is replaced once the new one is available or the old one is unready.
        """
        new = [pod for pod in running if (pod["metadata"].get("labels") or {}).get(HASH_LABEL) == self.code]
        old = [pod for pod in running if pod not in new]
        surplus = new[1:] + old[1:]
        if new and old and (not is_ready(old[0]) or self.is_available(new[0])):
            surplus.append(old[0])
        return surplus

    def status(self) -> Json:
        """Return the counts of the status."""
        scheduled = {node: sort_pods(pods)[0] for node, pods in self.pods.items()}
        wanted = [scheduled[node] for node, verdict in self.verdicts.items() if verdict.run and node in scheduled]
        misplaced = [node for node, verdict in self.verdicts.items() if not verdict.run and node in scheduled]
        available = sum(self.is_available(pod) for pod in wanted)
        return {
            "desiredNumberScheduled": self.desired,
            "currentNumberScheduled": len(wanted),
            "numberMisscheduled": len(misplaced),
            "numberReady": sum(is_ready(pod) for pod in wanted),
            "updatedNumberScheduled": sum(self.is_updated(pod) for pod in wanted),
            "numberAvailable": available,
            "numberUnavailable": self.desired - available,
        }
