"""PodDisruptionBudgets: writes expected, healthy and disruptable pods into the status read by evictions.

A second queue resets the condition DisruptionTarget of pods that were not deleted: it becomes False after two minutes.
Facts: upstream's pkg/controller/disruption.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import SelectorError, from_object
from apiserver.runtime import clock
from controllers.options.options import Options
from controllers.resourceclaims.pods import controller_of
from controllers.runtime.client import Client
from controllers.runtime.conditions import condition_of, with_condition
from controllers.runtime.controller import ComponentOfSeveral, Controller
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.gotext import label_selector_text
from controllers.runtime.informer import Informers
from controllers.runtime.intorstring import scaled
from controllers.runtime.kinds import DISRUPTION_BUDGETS, PODS, key_of
from controllers.runtime.times import go_time, parse_time
from controllers.workloads.common.scales import Scale, ScaleError, Scales

NAME = "disruption-controller"
#: Maximum time between a granted eviction and the pod's deletion.
DELETION_TIMEOUT = timedelta(minutes=2)
#: Lifetime of a true DisruptionTarget condition without deletion.
STALE_AFTER = timedelta(minutes=2)
_BY_KUBELET = "TerminationByKubelet"
_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of"
    " the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please"
    ' set ".spec.minAvailable" field of the PDB to an integer value.'
)


def build(client: Client, informers: Informers, options: Options) -> Disruption:
    """Build the component for the manager."""
    return Disruption(client, informers, options)


class ExpectedCounts(NamedTuple):
    """The expected number of pods, the minimum of healthy ones, and the names of unmanaged pods."""

    pods: int
    healthy: int
    unmanaged: tuple[str, ...] = ()


class Disruption(ComponentOfSeveral):
    """The disruption controller. Keys are those of budgets, and of pods in the second queue."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self._client = client.for_controller(NAME)
        self._observed = options.features.enabled("PodObservedGenerationTracking")
        self._budgets, self._pods = informers.of(DISRUPTION_BUDGETS), informers.of(PODS)
        namespace = lambda obj: (obj["metadata"]["namespace"],)  # noqa: E731
        self._budgets_in = self._budgets.index("namespace", namespace)
        self._pods_in = self._pods.index("namespace", namespace)
        self._scales = Scales(self._client, informers)
        self._recorder = CoreEventRecorder(self._client, "controllermanager")
        self._budget_controller = Controller(NAME, self.reconcile, queue="disruption")
        self._pod_controller = Controller(NAME, self.reset_stale, queue="stale_pod_disruption")
        self._controllers, self._beside = (self._budget_controller, self._pod_controller), (self._recorder.run,)
        self._budget_controller.follow(self._budgets)
        self._budget_controller.require(self._pods)
        self._scales.require(self._budget_controller)
        self._pod_controller.require(self._pods)
        self._pods.on(self._pod, lambda _, pod: self._pod(pod), self._enqueue_budget)

    def _pod(self, pod: Json) -> None:
        self._enqueue_budget(pod)
        if (left := _stale_in(pod)) is not None:
            self._pod_controller.queue.add_after(key_of(pod), left)

    def _enqueue_budget(self, pod: Json) -> None:
        """Enqueue the budget of a pod; only the first of several, as upstream."""
        budgets = [each for each in self._budgets_in.get(pod["metadata"]["namespace"]) if _selects(each, pod)]
        if len(budgets) > 1:
            where, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            chosen = budgets[0]["metadata"]["name"]
            text = f'Pod "{where}"/"{name}" matches multiple PodDisruptionBudgets.  Chose "{chosen}" arbitrarily.'
            self._recorder.record(pod, "Warning", "MultiplePodDisruptionBudgets", text)
        if budgets:
            self._budget_controller.queue.add(key_of(budgets[0]))

    async def reconcile(self, key: str) -> timedelta | None:
        budget = self._budgets.get(key)
        if budget is None:
            return None
        try:
            return await self._count(budget)
        except (ScaleError, StatusError, SelectorError, ValueError) as error:
            if isinstance(error, StatusError) and error.code == 409:
                raise
            await self._forbid_disruptions(budget, str(error))
            return None

    async def _count(self, budget: Json) -> timedelta | None:
        try:
            selector = from_object(budget["spec"].get("selector"))
        except SelectorError as error:
            self._recorder.record(budget, "Warning", "NoPods", f"Failed to get pods: {error}")
            raise
        pods = [
            pod
            for pod in self._pods_in.get(budget["metadata"]["namespace"])
            if selector.matches(pod["metadata"].get("labels"))
        ]
        if not pods:
            self._recorder.record(budget, "Normal", "NoPods", "No matching pods found")
        try:
            expected = await self._compute_expected(budget["spec"], pods)
        except (ScaleError, StatusError, ValueError) as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            self._recorder.record(budget, "Warning", "CalculateExpectedPodCountFailed", text)
            raise
        if expected.unmanaged:
            text = _UNMANAGED.format(label_selector_text(budget["spec"].get("selector")))
            self._recorder.record(budget, "Warning", "UnmanagedPods", text)
        now = clock.now()
        disrupted, again = self._find_disrupted(budget, pods, now)
        healthy = sum(_is_healthy(pod) and pod["metadata"]["name"] not in disrupted for pod in pods)
        await self._write(budget, expected, healthy, disrupted)
        return again

    async def _compute_expected(self, spec: Json, pods: list[Json]) -> ExpectedCounts:
        most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
        if most is not None:
            count, unmanaged = await self._sum_scales(pods)
            return ExpectedCounts(count, max(0, count - scaled(most, count, up=True)), unmanaged)
        if isinstance(least, str):
            count, unmanaged = await self._sum_scales(pods)
            return ExpectedCounts(count, scaled(least, count, up=True), unmanaged)
        return ExpectedCounts(len(pods), least) if least is not None else ExpectedCounts(0, 0)

    async def _sum_scales(self, pods: list[Json]) -> tuple[int, tuple[str, ...]]:
        """Return the total desired replicas of the pods' controllers, and the pods without controller."""
        found: dict[str, int] = {}
        unmanaged = []
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                unmanaged.append(pod["metadata"]["name"])
            elif owner["uid"] not in found:
                scale: Scale | None = await self._scales.of(owner, pod["metadata"]["namespace"])
                if scale is None:
                    raise ScaleError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
                found[scale.uid] = scale.replicas
        return sum(found.values()), tuple(unmanaged)

    def _find_disrupted(self, budget: Json, pods: list[Json], now: datetime) -> tuple[dict[str, str], timedelta | None]:
        """Return the pods with a granted eviction before their deletion, and the delay until the next is overdue."""
        granted = (budget.get("status") or {}).get("disruptedPods") or {}
        kept: dict[str, str] = {}
        left: list[timedelta] = []
        for pod in pods:
            name = pod["metadata"]["name"]
            if name not in granted or pod["metadata"].get("deletionTimestamp"):
                continue
            rest = parse_time(granted[name]) + DELETION_TIMEOUT - now
            if rest < timedelta():
                # Upstream repeats the namespace instead of naming the budget.
                namespace = budget["metadata"]["namespace"]
                text = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
                self._recorder.record(pod, "Warning", "NotDeleted", text)
            else:
                kept[name] = granted[name]
                left.append(rest)
        # Half a second more, because the pod still counts at the exact end of the timeout.
        return kept, min(left) + timedelta(milliseconds=500) if left else None

    async def _write(self, budget: Json, expected: ExpectedCounts, healthy: int, disrupted: dict[str, str]) -> None:
        generation = budget["metadata"]["generation"]
        allowed = max(0, healthy - expected.healthy) if expected.pods > 0 else 0
        wanted = {
            "currentHealthy": healthy,
            "desiredHealthy": expected.healthy,
            "expectedPods": expected.pods,
            "disruptionsAllowed": allowed,
            "observedGeneration": generation,
        }
        status = budget.get("status") or {}
        condition = condition_of(budget, "DisruptionAllowed")
        state, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
        known = {name: status.get(name, 0) for name in wanted}
        if (
            known == wanted
            and (status.get("disruptedPods") or {}) == disrupted
            and condition is not None
            and (condition["status"], condition["reason"]) == (state, reason)
        ):
            return
        conditions = with_condition(
            status.get("conditions") or (),
            {
                "type": "DisruptionAllowed", "status": state, "observedGeneration": generation,
                "lastTransitionTime": go_time(clock.now()), "reason": reason, "message": "",
            },
        )  # fmt: skip
        changed = {**wanted, "conditions": conditions, **({"disruptedPods": disrupted} if disrupted else {})}
        await self._client.update_status(DISRUPTION_BUDGETS, {**budget, "status": changed})

    async def _forbid_disruptions(self, budget: Json, message: str) -> None:
        """Forbid disruptions, because the pods cannot be counted."""
        status = budget.get("status") or {}
        conditions = with_condition(
            status.get("conditions") or (),
            {
                "type": "DisruptionAllowed", "status": "False",
                "observedGeneration": status.get("observedGeneration", 0),
                "lastTransitionTime": go_time(clock.now()), "reason": "SyncFailed", "message": message,
            },
        )  # fmt: skip
        changed = {**status, "disruptionsAllowed": 0, "conditions": conditions}
        if changed != status:
            await self._client.update_status(DISRUPTION_BUDGETS, {**budget, "status": changed})

    async def reset_stale(self, key: str) -> timedelta | None:
        pod = self._pods.get(key)
        left = _stale_in(pod) if pod is not None else None
        if pod is None or left is None or left > timedelta():
            return left
        condition: Json = {
            "type": "DisruptionTarget", "status": "False", "lastProbeTime": None,
            "lastTransitionTime": go_time(clock.now()),
        }  # fmt: skip
        if self._observed:
            condition["observedGeneration"] = pod["metadata"].get("generation", 0)
        status = {**pod["status"], "conditions": with_condition(pod["status"]["conditions"], condition)}
        await self._client.update_status(PODS, {**pod, "status": status})
        return None


def _selects(budget: Json, pod: Json) -> bool:
    try:
        return from_object(budget["spec"].get("selector")).matches(pod["metadata"].get("labels"))
    except SelectorError:
        return False


def _is_healthy(pod: Json) -> bool:
    ready = condition_of(pod, "Ready")
    return not pod["metadata"].get("deletionTimestamp") and ready is not None and ready["status"] == "True"


def _stale_in(pod: Json) -> timedelta | None:
    """Return the time until a true DisruptionTarget condition is stale; None without one."""
    condition = condition_of(pod, "DisruptionTarget")
    if (
        condition is None
        or condition["status"] != "True"
        or condition.get("reason") == _BY_KUBELET
        or pod["metadata"].get("deletionTimestamp")
        or pod["status"].get("phase") in ("Succeeded", "Failed")
    ):
        return None
    since = condition.get("lastTransitionTime")
    return max(timedelta(), parse_time(since) + STALE_AFTER - clock.now()) if since else timedelta()
