"""Disruption budgets for preemption: victims are checked one after the other, with the earlier ones counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import from_object
from controllers.scheduler.state.pod_info import PodInfo


class Budgets:
    """The disruptions that each budget still allows; each check uses one up."""

    def __init__(self, budgets: Iterable[Json]) -> None:
        self._budgets = [(budget, from_object(budget["spec"].get("selector"))) for budget in budgets]
        self._left = [(budget.get("status") or {}).get("disruptionsAllowed", 0) for budget, _ in self._budgets]

    def violated_by(self, pod: PodInfo) -> Iterator[str]:
        """Yield the budgets that the pod's eviction violates. Stopping early leaves the later budgets unchanged."""
        for position, (budget, selector) in enumerate(self._budgets) if pod.labels else ():
            metadata = budget["metadata"]
            if metadata["namespace"] != pod.namespace or selector.empty or not selector.matches(pod.labels):
                continue
            if pod.name in ((budget.get("status") or {}).get("disruptedPods") or {}):
                continue
            self._left[position] -= 1
            if self._left[position] < 0:
                yield metadata["name"]
