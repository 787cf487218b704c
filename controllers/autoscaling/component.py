"""horizontal-pod-autoscaler-controller: looks at each autoscaler again and again, and scales what it points to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple, NoReturn

from apiserver import clock
from apiserver.api.selectors import LabelSelector, SelectorError, parse_labels
from apiserver.api.status import StatusError
from controllers.autoscaling import calculator
from controllers.autoscaling.calculator import Asked, Starting, Tolerances
from controllers.autoscaling.limits import Past, limit
from controllers.autoscaling.usage import MetricError, Usage, milli, shown
from controllers.options import AutoscalerOptions, Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.conditions import with_condition
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.discovery import served_at
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import AUTOSCALERS, PODS, Json, Kind, key_of
from controllers.runtime.times import go_time
from controllers.runtime.workqueue import Resync

NAME = "horizontal-pod-autoscaler-controller"
#: By the type of a metric: the field of its source, and the reason when it cannot be read.
_SOURCES: Final = {
    "Resource": ("resource", "FailedGetResourceMetric"),
    "ContainerResource": ("containerResource", "FailedGetContainerResourceMetric"),
    "Pods": ("pods", "FailedGetPodsMetric"),
    "Object": ("object", "FailedGetObjectMetric"),
    "External": ("external", "FailedGetExternalMetric"),
}
_NO_SELECTOR: Final = "the HPA target's scale is missing a selector"


def build(client: Client, informers: Informers, options: Options) -> Autoscalers:
    """The component, for the manager."""
    return Autoscalers(client, informers, options.autoscaler)


class _Proposal(NamedTuple):
    asked: Asked
    name: str
    status: Json


class _Stop(Exception):
    """Nothing can be done for now; conditions and events say why."""


class Autoscalers(ControllerComponent):
    """The component. Keys are those of autoscalers."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: AutoscalerOptions) -> None:
        self.options = options
        self._client = client.named("horizontal-pod-autoscaler")
        self._scalers, self._pods = informers.of(AUTOSCALERS), informers.of(PODS)
        self._pods_in = self._pods.index("namespace", lambda pod: (pod["metadata"]["namespace"],))
        self._recorder = CoreEventRecorder(self._client, "horizontal-pod-autoscaler")
        self._usage = Usage(self._client)
        self._past: dict[str, Past] = {}
        self._selectors: dict[str, LabelSelector] = {}
        self._controller = Controller(NAME, self.reconcile, workers=5, queue="horizontalpodautoscaler")
        self._controller.alongside(self._recorder.run)
        self._controller.require(self._scalers)
        self._controller.require(self._pods)
        self._scalers.on(self._changed, self._updated, self._changed)

    def _changed(self, scaler: Json) -> None:
        self._controller.queue.add(key_of(scaler))

    def _updated(self, before: Json, scaler: Json) -> None:
        """Our own writes can wait until its time comes."""
        old, new = before["metadata"].get("annotations"), scaler["metadata"].get("annotations")
        if before["spec"] != scaler["spec"] or old != new:
            self._changed(scaler)

    async def reconcile(self, key: str) -> timedelta | None:
        scaler = self._scalers.get(key)
        if scaler is None:
            self._past.pop(key, None)
            self._selectors.pop(key, None)
            return None
        look = _Look(self, scaler)
        try:
            await look.run()
        except _Stop:
            pass
        finally:
            await look.write()
        return Resync(seconds=self.options.sync_period.total_seconds())

    # What a look asks for.

    async def scale(self, namespace: str, reference: Json) -> tuple[Kind, Json]:
        """The scale of the target. Raises StatusError, MetricError."""
        version = reference.get("apiVersion") or "v1"
        kind = await served_at(self._client, version, reference["kind"])
        if kind is None:
            raise MetricError(f'no matches for kind "{reference["kind"]}" in group "{version.rpartition("/")[0]}"')
        return kind, await self._client.request("GET", kind.path(namespace, reference["name"], "scale"))

    async def set_scale(self, kind: Kind, namespace: str, scale: Json, replicas: int) -> None:
        """Raises StatusError."""
        path = kind.path(namespace, scale["metadata"]["name"], "scale")
        for again in (True, False):
            try:
                body = {**scale, "spec": {**(scale.get("spec") or {}), "replicas": replicas}}
                await self._client.request("PUT", path, "", body)
            except StatusError as error:
                if not again or not is_reason(error, "Conflict"):
                    raise
                scale = await self._client.request("GET", path)
            else:
                return

    def select(self, key: str, namespace: str, selector: LabelSelector) -> tuple[list[Json], list[str]]:
        """The pods, and the autoscalers that want them."""
        self._selectors[key] = selector
        pods = [pod for pod in self._pods_in.get(namespace) if selector.matches(pod["metadata"].get("labels"))]
        owners = [
            other
            for other, known in self._selectors.items()
            if other.startswith(f"{namespace}/") and any(known.matches(pod["metadata"].get("labels")) for pod in pods)
        ]
        return pods, owners

    def past(self, key: str, current: int) -> Past:
        known = self._past.get(key)
        if known is None:
            known = self._past[key] = Past([(clock.now(), current)])
        return known

    @property
    def usage(self) -> Usage:
        return self._usage

    def tell(self, scaler: Json, warning: bool, reason: str, message: str) -> None:
        self._recorder.record(scaler, "Warning" if warning else "Normal", reason, message)

    async def write_status(self, scaler: Json, status: Json) -> None:
        await self._client.update_status(AUTOSCALERS, {**scaler, "status": status})


class _Look:
    """One look at an autoscaler; its status is written once, at the end."""

    def __init__(self, owner: Autoscalers, scaler: Json) -> None:
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

    def _sizes(self, current: int, desired: int, metrics: Sequence[Json]) -> None:
        self._status |= {"currentReplicas": current, "desiredReplicas": desired}
        self._status.pop("currentMetrics", None)
        if metrics:
            self._status["currentMetrics"] = list(metrics)

    async def run(self) -> None:
        try:
            kind, scale = await self._owner.scale(self._namespace, self._spec["scaleTargetRef"])
        except (StatusError, MetricError) as error:
            self._owner.tell(self._scaler, True, "FailedGetScale", str(error))
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            self._set("AbleToScale", False, "FailedGetScale", text)
            raise _Stop from error
        text = "the HPA controller was able to get the target's current scale"
        self._set("AbleToScale", True, "SucceededGetScale", text)
        current = (scale.get("spec") or {}).get("replicas", 0)
        desired, reason, metrics = await self._desired(scale, current)
        if desired != current:
            await self._rescale(kind, scale, current, desired, reason, metrics)
        self._sizes(current, desired, metrics)

    async def _desired(self, scale: Json, current: int) -> tuple[int, str, list[Json]]:
        """The size that it should have, and why."""
        least, most = self._spec.get("minReplicas", 1), self._spec["maxReplicas"]
        past = self._owner.past(self._key, current)
        if current == 0 and least != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set("ScalingActive", False, "ScalingDisabled", text)
            return 0, "", []
        if current > most:
            return most, "Current number of replicas above Spec.MaxReplicas", []
        if current < least:
            return least, "Current number of replicas below Spec.MinReplicas", []
        wanted, name, metrics = await self._wanted(scale, current)
        reason = f"{name} above target" if wanted > current else "All metrics below target" if wanted < current else ""
        found = limit(past, self._now, self._spec, current, wanted, least, self._owner.options.downscale_stabilization)
        self._set("AbleToScale", True, *found.able)
        self._set("ScalingLimited", found.limited, *found.limit)
        return found.replicas, reason, metrics

    async def _rescale(
        self, kind: Kind, scale: Json, current: int, desired: int, reason: str, metrics: list[Json]
    ) -> None:
        try:
            await self._owner.set_scale(kind, self._namespace, scale, desired)
        except StatusError as error:
            text = f"New size: {desired}; reason: {reason}; error: {error}"
            self._owner.tell(self._scaler, True, "FailedRescale", text)
            text = f"the HPA controller was unable to update the target scale: {error}"
            self._set("AbleToScale", False, "FailedUpdateScale", text)
            self._sizes(current, self._status.get("desiredReplicas", 0), metrics)
            raise _Stop from error
        text = f"the HPA controller was able to update the target scale to {desired}"
        self._set("AbleToScale", True, "SucceededRescale", text)
        self._owner.tell(self._scaler, False, "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
        self._owner.past(self._key, current).scaled(self._now, current, desired, self._spec.get("behavior"))
        self._status["lastScaleTime"] = go_time(self._now)

    # Metrics.

    async def _wanted(self, scale: Json, current: int) -> tuple[int, str, list[Json]]:
        """The most that a metric asks for, and which it is."""
        selector = (scale.get("status") or {}).get("selector") or ""
        pods = self._selected(selector)
        counted = (scale.get("status") or {}).get("replicas", 0)
        best: _Proposal | None = None
        first: tuple[str, Exception] | None = None
        invalid, statuses = 0, list[Json]()
        specs = self._spec.get("metrics") or []
        for spec in specs:
            field, reason = _SOURCES.get(spec["type"], ("", "InvalidMetricSourceType"))
            try:
                found = await self._propose(spec, field, current, counted, pods, selector)
            except (MetricError, StatusError) as error:
                self._owner.tell(self._scaler, True, reason, str(error))
                first, invalid = first or (reason, error), invalid + 1
                statuses.append({"type": ""})
                continue
            statuses.append({"type": spec["type"], field: found.status})
            if best is None or found.asked.replicas > best.asked.replicas:
                best = found
        if first is not None and (best is None or best.asked.replicas < current):
            reason, why = first
            self._set("ScalingActive", False, reason, f"the HPA was unable to compute the replica count: {why}")
            self._sizes(current, self._status.get("desiredReplicas", 0), statuses)
            text = f"invalid metrics ({invalid} invalid out of {len(specs)}), first error is: {why}"
            self._owner.tell(self._scaler, True, "FailedComputeMetricsReplicas", text)
            raise _Stop
        if best is None:
            return current, "", statuses
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._set("ScalingActive", True, "ValidMetricFound", text)
        return best.asked.replicas, best.name, statuses

    def _selected(self, text: str) -> list[Json]:
        try:
            selector = parse_labels(text) if text else None
        except SelectorError as error:
            why = f"couldn't convert selector into a corresponding internal selector object: {error}"
            self._refuse("InvalidSelector", "InvalidSelector", why, why)
        if selector is None:
            self._refuse("SelectorRequired", "InvalidSelector", "selector is required", _NO_SELECTOR)
        pods, owners = self._owner.select(self._key, self._namespace, selector)
        if len(owners) > 1:
            names = " ".join(f"{{{each.partition('/')[2]} {self._namespace}}}" for each in sorted(owners))
            why = f"pods by selector {text} are controlled by multiple HPAs: [{names}]"
            self._refuse("AmbiguousSelector", "AmbiguousSelector", why, why)
        return pods

    def _refuse(self, event: str, reason: str, told: str, message: str) -> NoReturn:
        self._owner.tell(self._scaler, True, event, told)
        self._set("ScalingActive", False, reason, message)
        raise _Stop

    @property
    def _tolerances(self) -> Tolerances:
        behavior = self._spec.get("behavior") or {}
        given = [(behavior.get(rules) or {}).get("tolerance") for rules in ("scaleDown", "scaleUp")]
        down, up = (self._owner.options.tolerance if text is None else milli(str(text)) / 1000 for text in given)
        return Tolerances(down, up)

    async def _propose(
        self, spec: Json, field: str, current: int, counted: int, pods: list[Json], selector: str
    ) -> _Proposal:
        source = spec[field]
        if field in ("resource", "containerResource"):
            return await self._of_resource(source, current, pods, selector)
        metric, target = source["metric"], source["target"]
        if field == "pods":
            values = self._owner.usage.of_pods(self._scaler, pods, metric["name"])
            asked = calculator.of_pods(
                current, milli(target["averageValue"]), values, pods, self._tolerances, self._now
            )
            status = {"metric": metric, "current": {"averageValue": shown(asked.value)}}
            return _Proposal(asked, f"pods metric {metric['name']}", status)
        if field == "object":
            reference = source["describedObject"]
            value = await self._owner.usage.of_object(self._namespace, reference, metric["name"])
            name, more = f"{reference['kind']} metric {metric['name']}", {"describedObject": reference}
        else:
            value = self._owner.usage.external(self._scaler, metric["name"])
            name, more = f"external metric {metric['name']}(nil)", dict[str, Json]()
        if target.get("averageValue") is not None:
            asked = calculator.of_average(counted, milli(target["averageValue"]), value, self._tolerances)
            measured = {"averageValue": shown(asked.value)}
        else:
            asked = calculator.of_value(current, milli(target["value"]), value, pods, self._tolerances)
            measured = {"value": shown(asked.value)}
        return _Proposal(asked, name, {"metric": metric, **more, "current": measured})

    async def _of_resource(self, source: Json, current: int, pods: list[Json], selector: str) -> _Proposal:
        resource, container, target = source["name"], source.get("container", ""), source["target"]
        binary, cpu = resource == "memory", resource == "cpu"
        try:
            values = await self._owner.usage.of_resource(self._scaler, pods, resource, container, selector)
        except MetricError as error:
            raise MetricError(f"unable to get metrics for resource {resource}: {error}") from error
        options = self._owner.options
        starting = Starting(options.cpu_initialization, options.initial_readiness)
        known = {"name": resource, **({"container": container} if container else {})}
        if target.get("averageValue") is not None:
            wanted = milli(target["averageValue"])
            asked = calculator.of_pods(
                current, wanted, values, pods, self._tolerances, self._now, cpu=cpu, starting=starting
            )
            status = {**known, "current": {"averageValue": shown(asked.value, binary=binary)}}
            return _Proposal(asked, f"{resource} resource", status)
        requests = calculator.requests_of(pods, resource, container)
        asked = calculator.of_pods(
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
        measured = {"averageUtilization": asked.percent, "averageValue": shown(asked.value, binary=binary)}
        name = f"{resource} {of} utilization (percentage of request)"
        return _Proposal(asked, name, {**known, "current": measured})
