"""horizontal-pod-autoscaler-controller: reconciles each autoscaler periodically and scales its target."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector
from apiserver.runtime import clock
from apiserver.runtime.metrics import Family
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.discovery import served_at
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import AUTOSCALERS, PODS, Kind, key_of, split_key
from controllers.runtime.workqueue import Resync
from controllers.workloads.autoscaling.limits import ScalingHistory
from controllers.workloads.autoscaling.metrics import AutoscalerMetrics
from controllers.workloads.autoscaling.reconcile import CannotScaleError, ReconcilePass
from controllers.workloads.autoscaling.usage import MetricError, Usage

NAME = "horizontal-pod-autoscaler-controller"


def build(client: Client, informers: Informers, options: Options) -> Autoscalers:
    """Build the component for the manager."""
    return Autoscalers(client, informers, options)


class Autoscalers(ControllerComponent):
    """The autoscaling controller. Keys are those of autoscalers."""

    name = NAME

    def __init__(self, client: Client, informers: Informers, options: Options) -> None:
        self.options = options.autoscaler
        self._client = client.for_controller("horizontal-pod-autoscaler")
        self._scalers, self._pods = informers.of(AUTOSCALERS), informers.of(PODS)
        self._pods_in = self._pods.index("namespace", lambda pod: (pod["metadata"]["namespace"],))
        self._recorder = CoreEventRecorder(self._client, "horizontal-pod-autoscaler")
        self._usage = Usage(self._client)
        self._past: dict[str, ScalingHistory] = {}
        self._metrics = AutoscalerMetrics(lambda: len(self._scalers.objects))
        self._selectors: dict[str, LabelSelector] = {}
        self._controller = Controller(
            NAME, self.reconcile, workers=options.workers(NAME), queue="horizontalpodautoscaler"
        )
        self._controller.alongside(self._recorder.run)
        self._controller.require(self._scalers)
        self._controller.require(self._pods)
        self._scalers.on(self._scaler_changed, self._scaler_updated, self._scaler_changed)

    @property
    def metrics(self) -> Sequence[Family]:
        return (*super().metrics, *self._metrics.families)

    def _scaler_changed(self, scaler: Json) -> None:
        self._controller.queue.add(key_of(scaler))

    def _scaler_updated(self, before: Json, scaler: Json) -> None:
        """Enqueue a changed autoscaler; its own status writes wait for the next period."""
        old, new = before["metadata"].get("annotations"), scaler["metadata"].get("annotations")
        if before["spec"] != scaler["spec"] or old != new:
            self._scaler_changed(scaler)

    async def reconcile(self, key: str) -> timedelta | None:
        scaler = self._scalers.get(key)
        if scaler is None:
            self._past.pop(key, None)
            self._selectors.pop(key, None)
            self._metrics.desired.pop(split_key(key), None)
            return None
        this = ReconcilePass(self, scaler, self._metrics)
        error = "internal"
        try:
            try:
                await this.run()
                found = "internal" if this.partly else "none"
            except CannotScaleError:
                found = "internal"
            finally:
                await this.write()
            error = found
        finally:
            this.outcome.error = error
            self._metrics.record_pass(this.outcome)
        return Resync(seconds=self.options.sync_period.total_seconds())

    async def scale(self, namespace: str, reference: Json) -> tuple[Kind, Json]:
        """Read the scale of the target. Raise StatusError or MetricError."""
        version = reference.get("apiVersion") or "v1"
        kind = await served_at(self._client, version, reference["kind"])
        if kind is None:
            raise MetricError(f'no matches for kind "{reference["kind"]}" in group "{version.rpartition("/")[0]}"')
        return kind, await self._client.request("GET", kind.path(namespace, reference["name"], "scale"))

    async def set_scale(self, kind: Kind, namespace: str, scale: Json, replicas: int) -> None:
        """Write the scale, once more after a conflict. Raise StatusError."""
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
        """Return the selected pods, and the keys of the autoscalers that select any of them."""
        self._selectors[key] = selector
        pods = [pod for pod in self._pods_in.get(namespace) if selector.matches(pod["metadata"].get("labels"))]
        owners = [
            other
            for other, known in self._selectors.items()
            if other.startswith(f"{namespace}/") and any(known.matches(pod["metadata"].get("labels")) for pod in pods)
        ]
        return pods, owners

    def history(self, key: str, current: int) -> ScalingHistory:
        known = self._past.get(key)
        if known is None:
            known = self._past[key] = ScalingHistory([(clock.now(), current)])
        return known

    @property
    def usage(self) -> Usage:
        return self._usage

    def record_event(self, scaler: Json, warning: bool, reason: str, message: str) -> None:
        self._recorder.record(scaler, "Warning" if warning else "Normal", reason, message)

    async def write_status(self, scaler: Json, status: Json) -> None:
        await self._client.update_status(AUTOSCALERS, {**scaler, "status": status})
