"""Autoscalers that are looked at once: what they know is make_informers, what answers by path is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime.metrics import lines_of
from controllers.options.options import AutoscalerOptions, Options
from controllers.runtime.kinds import AUTOSCALERS, PODS
from controllers.workloads.autoscaling.component import Autoscalers
from tests.controllers.test_autoscaling_rules import ago
from tests.support.recording import FakeRecorder, RecordingClient, make_informers
from tests.support.virtual import run

#: Where virtual time begins.
NOW, AT = datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"
SCALE, MEASURED = "/apis/apps/v1/namespaces/ns/deployments/web/scale", "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
BROKEN = StatusError(500, "InternalError", "broken")


class Served(RecordingClient):
    """With answers by path; an error is one, a list of answers is given in turn."""

    def __init__(self, **paths: Any) -> None:
        super().__init__()
        self.asked: list[tuple[str, str, str]] = []
        self.put: list[Json] = []
        resources = [{"name": "deployments/scale", "kind": "Scale", "namespaced": True},
                     {"name": "deployments", "kind": "Deployment", "namespaced": True}]  # fmt: skip
        core = [{"name": "nodes", "kind": "Node", "namespaced": False},
                {"name": "services", "kind": "Service", "namespaced": True}]  # fmt: skip
        self.paths: Json = {"/apis/apps/v1": {"resources": resources}, "/api/v1": {"resources": core}, **paths}

    async def request(self, method: str, path: str, query: str = "", body: Any = None, **_: Any) -> Any:
        self.asked.append((method, path, query))
        if method == "PUT":
            self.put.append(body)
        answer = self.paths.get(f"{method} {path}", self.paths.get(path))
        if isinstance(answer, list):
            answer = answer.pop(0)
        if answer is None:
            raise StatusError(404, "NotFound", f"nothing at {path}")
        if isinstance(answer, StatusError):
            raise answer
        return answer


def scale(replicas: int = 2, counted: int | None = None, selector: str = "app=web") -> Json:
    status = {"replicas": replicas if counted is None else counted, "selector": selector}
    return {"metadata": {"name": "web", "resourceVersion": "7"}, "spec": {"replicas": replicas}, "status": status}


def pod(name: str, cpu: str = "", ready: str = "True", phase: str = "Running", **more: str) -> Json:
    """`more` are annotations: what it says of itself, after kubedra.dev/."""
    said = {"usage.cpu": cpu, **more} if cpu else more
    containers = [
        {"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}},
        {"name": "d", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}},
    ]
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": ago(days=1)}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": "web"},
                     "annotations": {f"kubedra.dev/{key}": value for key, value in said.items()}},
        "spec": {"containers": containers},
        "status": {"phase": phase, "startTime": ago(days=1), "conditions": [condition]},
    }  # fmt: skip


def resource(name: str = "cpu", container: str = "", **target: Any) -> Json:
    kind, field = ("ContainerResource", "containerResource") if container else ("Resource", "resource")
    where = {"container": container} if container else {}
    return {"type": kind, field: {"name": name, **where, "target": target or {"averageUtilization": 50}}}


def external(name: str = "mail", **target: str) -> Json:
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


def scaler(
    *metrics: Json, said: Json | None = None, status: Json | None = None, name: str = "web", **spec: Any
) -> Json:
    said = {f"kubedra.dev/{key}": value for key, value in (said or {}).items()}
    spec = {"scaleTargetRef": DEPLOYMENT, "maxReplicas": 12, "metrics": list(metrics), **spec}
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "annotations": said}
    return {"metadata": metadata, "spec": spec, "status": status or {}}


class Look:
    """Looks at autoscalers of this scale with these pods."""

    def __init__(self, of: Json, *pods: Json, size: Any = None, others: tuple[Json, ...] = (), **options: Any) -> None:
        paths = options.pop("paths", {})
        self.client, self.told = (
            Served(**{SCALE: size or scale(len(pods)), f"PUT {SCALE}": {}, **paths}),
            FakeRecorder(),
        )
        informers = make_informers(AUTOSCALERS, of, *others, informers=make_informers(PODS, *pods))
        self.informer = informers.of(AUTOSCALERS)
        made = Options(autoscaler=AutoscalerOptions(**options))
        self.component = Autoscalers(self.client, informers, made)  # type: ignore[arg-type]
        self.component._recorder = self.told  # type: ignore[assignment]
        self.again: list[timedelta | None] = []
        self.error: StatusError | None = None

    def __call__(self, *names: str) -> Look:
        async def scenario() -> None:
            for name in names or ("web",):
                try:
                    self.again.append(await self.component.reconcile(f"ns/{name}"))
                except StatusError as error:
                    self.error = error

        run(scenario)
        return self

    @property
    def status(self) -> Json:
        written: Json = self.client.writes[-1][2]["status"]
        return written

    @property
    def condition(self) -> dict[str, tuple[str, str, str]]:
        return {each["type"]: (each["status"], each["reason"], each["message"]) for each in self.status["conditions"]}

    @property
    def size(self) -> int | None:
        """What is written; None where nothing is."""
        return self.client.put[-1]["spec"]["replicas"] if self.client.put else None

    def counted(self, name: str) -> list[str]:
        prefix = f"horizontal_pod_autoscaler_controller_{name}"
        return [line.removeprefix(prefix) for line in lines_of(self.component.metrics) if line.startswith(prefix)]
