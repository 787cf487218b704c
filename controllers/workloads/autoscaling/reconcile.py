"""One pass over a HorizontalPodAutoscaler: computes the replicas for its metrics, and writes conditions and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import SelectorError, parse_labels
from apiserver.runtime import clock
from controllers.runtime.conditions import with_condition
from controllers.runtime.gotext import label_selector_text
from controllers.runtime.kinds import Kind, key_of
from controllers.runtime.times import go_time
from controllers.workloads.autoscaling import calculator, texts
from controllers.workloads.autoscaling.calculator import Recommendation, StartupPeriods, Tolerances
from controllers.workloads.autoscaling.limits import limit
from controllers.workloads.autoscaling.metrics import AutoscalerMetrics, Outcome
from controllers.workloads.autoscaling.usage import MetricError, Values, format_quantity, milli

if TYPE_CHECKING:
    from controllers.workloads.autoscaling.component import Autoscalers

#: Source field and failure reason by metric type.
_SOURCES: Final = {
    "Resource": ("resource", "FailedGetResourceMetric"),
    "ContainerResource": ("containerResource", "FailedGetContainerResourceMetric"),
    "Pods": ("pods", "FailedGetPodsMetric"),
    "Object": ("object", "FailedGetObjectMetric"),
    "External": ("external", "FailedGetExternalMetric"),
}
_NO_SELECTOR: Final = "the HPA target's scale is missing a selector"


class _Proposal(NamedTuple):
    recommendation: Recommendation
    name: str
    status: Json


class CannotScaleError(Exception):
    """The pass cannot continue; conditions and events give the reason."""


class _UnusableError(Exception):
    """The target's pods are undefined. A condition gives the reason; the text is for an event."""


class ReconcilePass:
    """One pass over an autoscaler, which writes the status once, at its end. `partly` marks failed metrics."""

    def __init__(self, owner: Autoscalers, scaler: Json, metrics: AutoscalerMetrics) -> None:
        self.outcome, self.partly, self._metrics = Outcome(), False, metrics
        self._owner, self._scaler, self._spec = owner, scaler, scaler["spec"]
        self._key, self._namespace = key_of(scaler), scaler["metadata"]["namespace"]
        self._before: Json = scaler.get("status") or {}
        self._status: Json = {name: value for name, value in self._before.items() if name != "observedGeneration"}
        self._now = clock.now()

    async def write(self) -> None:
        if self._status != self._before:
            await self._owner.write_status(self._scaler, self._status)

    def _set(self, kind: str, holds: bool, reason: str, message: str) -> None:
        condition = {
            "type": kind, "status": "True" if holds else "False", "lastTransitionTime": go_time(self._now),
            "reason": reason, "message": message,
        }  # fmt: skip
        self._status["conditions"] = with_condition(self._status.get("conditions") or (), condition)

    def _set_sizes(self, current: int, desired: int, metrics: Sequence[Json]) -> None:
        self._status |= {"currentReplicas": current, "desiredReplicas": desired}
        self._status.pop("currentMetrics", None)
        if metrics:
            self._status["currentMetrics"] = list(metrics)

    async def run(self) -> None:
        try:
            kind, scale = await self._owner.scale(self._namespace, self._spec["scaleTargetRef"])
        except (StatusError, MetricError) as error:
            self._owner.record_event(self._scaler, True, "FailedGetScale", str(error))
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            self._set("AbleToScale", False, "FailedGetScale", text)
            raise CannotScaleError from error
        text = "the HPA controller was able to get the target's current scale"
        self._set("AbleToScale", True, "SucceededGetScale", text)
        current = (scale.get("spec") or {}).get("replicas", 0)
        desired, reason, metrics = await self._desired(scale, current)
        if desired != current:
            await self._rescale(kind, scale, current, desired, reason, metrics)
        self._set_sizes(current, desired, metrics)
        self._metrics.desired[self._namespace, self._scaler["metadata"]["name"]] = desired

    async def _desired(self, scale: Json, current: int) -> tuple[int, str, list[Json]]:
        """Return the desired size, its reason, and the metric statuses."""
        least, most = self._spec.get("minReplicas", 1), self._spec["maxReplicas"]
        history = self._owner.history(self._key, current)
        if current == 0 and least != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set("ScalingActive", False, "ScalingDisabled", text)
            return 0, "", []
        if current > most:
            return most, "Current number of replicas above Spec.MaxReplicas", []
        if current < least:
            return least, "Current number of replicas below Spec.MinReplicas", []
        desired, name, metrics = await self._recommend(scale, current)
        reason = (
            f"{name} above target" if desired > current else "All metrics below target" if desired < current else ""
        )
        found = limit(
            history, self._now, self._spec, current, desired, least, self._owner.options.downscale_stabilization
        )
        self._set("AbleToScale", True, *found.able_to_scale)
        self._set("ScalingLimited", found.is_limited, *found.limit)
        return found.replicas, reason, metrics

    async def _rescale(
        self, kind: Kind, scale: Json, current: int, desired: int, reason: str, metrics: list[Json]
    ) -> None:
        try:
            await self._owner.set_scale(kind, self._namespace, scale, desired)
        except StatusError as error:
            text = f"New size: {desired}; reason: {reason}; error: {error}"
            self._owner.record_event(self._scaler, True, "FailedRescale", text)
            text = f"the HPA controller was unable to update the target scale: {error}"
            self._set("AbleToScale", False, "FailedUpdateScale", text)
            self._set_sizes(current, self._status.get("desiredReplicas", 0), metrics)
            raise CannotScaleError from error
        text = f"the HPA controller was able to update the target scale to {desired}"
        self._set("AbleToScale", True, "SucceededRescale", text)
        self._owner.record_event(self._scaler, False, "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
        self._owner.history(self._key, current).record_change(self._now, current, desired, self._spec.get("behavior"))
        self._status["lastScaleTime"] = go_time(self._now)
        self.outcome.set_action(current, desired)

    async def _recommend(self, scale: Json, current: int) -> tuple[int, str, list[Json]]:
        """Return the highest recommendation, the name of its metric, and the metric statuses."""
        selector = (scale.get("status") or {}).get("selector") or ""
        try:
            pods = self._select_pods(selector)
        except _UnusableError as error:
            raise self._keep_size(current, [], str(error)) from error
        counted = (scale.get("status") or {}).get("replicas", 0)
        best: _Proposal | None = None
        first: tuple[str, str, str] | None = None
        invalid, statuses = 0, list[Json]()
        specs = self._spec.get("metrics") or []
        for spec in specs:
            field, reason = _SOURCES[spec["type"]]
            outcome = Outcome()
            try:
                found = await self._propose(spec[field], field, current, counted, pods, selector)
                outcome.set_action(self._before.get("currentReplicas", 0), found.recommendation.replicas)
            except (MetricError, StatusError) as error:
                outcome.error, why = "internal", texts.failure_message(field, spec[field], error)
                self._owner.record_event(self._scaler, True, reason, why)
                first, invalid = (
                    first or (reason, why, texts.list_failure_message(field, spec[field], why)),
                    invalid + 1,
                )
                statuses.append({"type": ""})
                continue
            finally:
                self._metrics.record_metric(outcome, spec["type"])
            statuses.append({"type": spec["type"], field: found.status})
            if best is None or found.recommendation.replicas > best.recommendation.replicas:
                best = found
        if first is not None and (best is None or best.recommendation.replicas < current):
            reason, why, among = first
            self._set("ScalingActive", False, reason, f"the HPA was unable to compute the replica count: {why}")
            text = f"invalid metrics ({invalid} invalid out of {len(specs)}), first error is: {among}"
            raise self._keep_size(current, statuses, text)
        self.partly = first is not None
        if best is None:
            return current, "", statuses
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._set("ScalingActive", True, "ValidMetricFound", text)
        return best.recommendation.replicas, best.name, statuses

    def _keep_size(self, current: int, statuses: list[Json], message: str) -> CannotScaleError:
        """Keep the current size, because the metrics give none."""
        self._set_sizes(current, self._status.get("desiredReplicas", 0), statuses)
        self._owner.record_event(self._scaler, True, "FailedComputeMetricsReplicas", message)
        return CannotScaleError()

    def _select_pods(self, text: str) -> list[Json]:
        try:
            selector = parse_labels(text) if text else None
        except SelectorError as error:
            why = f"couldn't convert selector into a corresponding internal selector object: {error}"
            self._refuse("InvalidSelector", "InvalidSelector", why, why)
        if selector is None:
            self._refuse("SelectorRequired", "InvalidSelector", "selector is required", _NO_SELECTOR)
        pods, owners = self._owner.select(self._key, self._namespace, selector)
        if len(owners) > 1:
            why = f"pods by selector {text} are controlled by multiple HPAs: [{' '.join(sorted(owners))}]"
            self._refuse("AmbiguousSelector", "AmbiguousSelector", why, why)
        return pods

    def _refuse(self, event: str, reason: str, text: str, message: str) -> NoReturn:
        self._owner.record_event(self._scaler, True, event, text)
        self._set("ScalingActive", False, reason, message)
        raise _UnusableError(text)

    @property
    def _tolerances(self) -> Tolerances:
        behavior = self._spec.get("behavior") or {}
        given = [(behavior.get(rules) or {}).get("tolerance") for rules in ("scaleDown", "scaleUp")]
        down, up = (self._owner.options.tolerance if text is None else milli(str(text)) / 1000 for text in given)
        return Tolerances(down, up)

    async def _propose(
        self, source: Json, field: str, current: int, counted: int, pods: list[Json], selector: str
    ) -> _Proposal:
        if field in ("resource", "containerResource"):
            return await self._of_resource(source, field, current, pods, selector)
        metric, target = source["metric"], source["target"]
        try:
            values, value = await self._read(source, field, pods)
        except (MetricError, StatusError) as error:
            raise MetricError(texts.unavailable_message(field, source, self._namespace, error)) from error
        if field == "pods":
            found = calculator.compute_for_pods(
                current, milli(target["averageValue"]), values, pods, self._tolerances, self._now
            )
            status = {"metric": metric, "current": {"averageValue": format_quantity(found.value)}}
            return _Proposal(found, f"pods metric {metric['name']}", status)
        name, more = (
            f"external metric {metric['name']}({label_selector_text(metric.get('selector'))})",
            dict[str, Json](),
        )
        if field == "object":
            more = {"describedObject": source["describedObject"]}
        if texts.is_average(source):
            found = calculator.compute_for_average(counted, milli(target["averageValue"]), value, self._tolerances)
            measured = {"averageValue": format_quantity(found.value)}
        else:
            found = calculator.compute_for_value(current, milli(target["value"]), value, pods, self._tolerances)
            measured = {"value": format_quantity(found.value)}
            if field == "object":
                name = f"{source['describedObject']['kind']} metric {metric['name']}"
        return _Proposal(found, name, {"metric": metric, **more, "current": measured})

    async def _read(self, source: Json, field: str, pods: list[Json]) -> tuple[Values, int]:
        """Return the values of pods, or the single value. Raise MetricError or StatusError."""
        name = source["metric"]["name"]
        if field == "pods":
            return self._owner.usage.of_pods(self._scaler, pods, name), 0
        if field == "object":
            return {}, await self._owner.usage.of_object(self._namespace, source["describedObject"], name)
        return {}, self._owner.usage.external(self._scaler, name)

    async def _of_resource(self, source: Json, field: str, current: int, pods: list[Json], selector: str) -> _Proposal:
        resource, container, target = source["name"], source.get("container", ""), source["target"]
        binary, cpu = resource == "memory", resource == "cpu"
        try:
            values = await self._owner.usage.of_resource(self._scaler, pods, resource, container, selector)
        except MetricError as error:
            raise MetricError(texts.unavailable_message(field, source, self._namespace, error)) from error
        options = self._owner.options
        starting = StartupPeriods(options.cpu_initialization, options.initial_readiness)
        known = {"name": resource, **({"container": container} if container else {})}
        if target.get("averageValue") is not None:
            desired = milli(target["averageValue"])
            found = calculator.compute_for_pods(
                current, desired, values, pods, self._tolerances, self._now, cpu=cpu, starting=starting
            )
            status = {**known, "current": {"averageValue": format_quantity(found.value, binary=binary)}}
            return _Proposal(found, f"{resource} resource", status)
        requests = calculator.requests_of(pods, resource, container)
        found = calculator.compute_for_pods(
            current,
            target["averageUtilization"],
            values,
            pods,
            self._tolerances,
            self._now,
            cpu=cpu,
            requests=requests,
            starting=starting,
        )
        of = "container resource" if container else "resource"
        measured = {
            "averageUtilization": found.percent,
            "averageValue": format_quantity(found.value, binary=binary),
        }
        name = f"{resource} {of} utilization (percentage of request)"
        return _Proposal(found, name, {**known, "current": measured})
