"""Builders of autoscalers and their pods, and one call that reconciles an autoscaler of a given scale."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime.metrics import lines_of
from controllers.options.options import AutoscalerOptions
from controllers.workloads.autoscaling.component import Autoscalers
from tests.support import recording
from tests.support.objects import make_pod
from tests.support.recording import RecordingClient

#: The start of virtual time.
NOW, AT = datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"
SCALE, MEASURED = "/apis/apps/v1/namespaces/ns/deployments/web/scale", "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
BROKEN = StatusError(500, "InternalError", "broken")


class ServingClient(RecordingClient):
    """Serves answers by path: a list gives them in turn, an error is raised."""

    def __init__(self, **paths: Any) -> None:
        super().__init__()
        self.requests: list[tuple[str, str, str]] = []
        self.put: list[Json] = []
        resources = [{"name": "deployments/scale", "kind": "Scale", "namespaced": True},
                     {"name": "deployments", "kind": "Deployment", "namespaced": True}]  # fmt: skip
        core = [{"name": "nodes", "kind": "Node", "namespaced": False},
                {"name": "services", "kind": "Service", "namespaced": True}]  # fmt: skip
        self.paths: Json = {"/apis/apps/v1": {"resources": resources}, "/api/v1": {"resources": core}, **paths}

    async def request(self, method: str, path: str, query: str = "", body: Any = None, **_: Any) -> Any:
        self.requests.append((method, path, query))
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


def ago(**time: float) -> str:
    return (NOW - timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")


def rule(kind: str, value: int, **more: Any) -> Json:
    """Build scaling rules of one policy with a period of one minute."""
    return {"policies": [{"type": kind, "value": value, "periodSeconds": 60}], **more}


def scale(replicas: int = 2, counted: int | None = None, selector: str = "app=web") -> Json:
    status = {"replicas": replicas if counted is None else counted, "selector": selector}
    return {"metadata": {"name": "web", "resourceVersion": "7"}, "spec": {"replicas": replicas}, "status": status}


def pod(name: str, cpu: str = "", ready: str = "True", phase: str = "Running", **more: str) -> Json:
    """Build a pod of the target. `more`: its annotations, after kubedra.dev/."""
    usage = {"usage.cpu": cpu, **more} if cpu else more
    requests = {"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": ago(days=1)}
    return make_pod(
        name, uid=name, labels={"app": "web"}, annotations={f"kubedra.dev/{key}": value for key, value in usage.items()},
        containers=[{"name": "c", **requests}, {"name": "d", **requests}],
        status={"phase": phase, "startTime": ago(days=1), "conditions": [condition]},
    )  # fmt: skip


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
    return {"kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec, "status": status or {}}


class AutoscalerClient(ServingClient):
    """Records the writes for the autoscaler `ns/web`."""

    @property
    def condition(self) -> dict[str, tuple[str, str, str]]:
        return {each["type"]: (each["status"], each["reason"], each["message"]) for each in self.status["conditions"]}

    @property
    def size(self) -> int | None:
        """The new size, if any was written."""
        return self.put[-1]["spec"]["replicas"] if self.put else None

    def samples(self, name: str) -> list[str]:
        prefix = f"horizontal_pod_autoscaler_controller_{name}"
        return [line.removeprefix(prefix) for line in lines_of(self.component.metrics) if line.startswith(prefix)]


def build(
    of: Json, *objects: Json, size: Any = None, paths: Any = None, live: Any = (), **options: Any
) -> AutoscalerClient:
    """Build the component over an autoscaler of a scale, and pods. `options`: fields of AutoscalerOptions."""
    pods = sum(obj["kind"] == "Pod" for obj in objects)
    client = AutoscalerClient(**{SCALE: size or scale(pods), f"PUT {SCALE}": {}, **(paths or {})})
    return recording.build(Autoscalers, client, of, *objects, live=live, autoscaler=AutoscalerOptions(**options))


async def reconcile(of: Json, *objects: Json, **more: Any) -> AutoscalerClient:
    """Reconcile an autoscaler once."""
    return await build(of, *objects, **more).reconcile("ns/web")
