"""A Deployment that is looked at once, with ReplicaSets that are make_informers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.options.options import Options
from controllers.runtime.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from controllers.workloads.deployment.component import Deployments
from controllers.workloads.deployment.replicasets import DESIRED, HASH_LABEL, MAX_REPLICAS, REVISION
from tests.support.recording import FakeRecorder, RecordingClient, make_informers
from tests.support.virtual import run

#: Where virtual time begins.
NOW, BEFORE = "2026-01-01T00:00:00Z", "2025-12-31T23:58:00Z"
AVAILABLE = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
             "message": "Deployment has minimum availability."}  # fmt: skip


def template(image: str) -> Json:
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def deployment(
    image: str = "new", replicas: int = 4, surge: Any = 1, missing: Any = 0, status: Json | None = None,
    said: Json | None = None, **spec: Any,
) -> Json:  # fmt: skip
    """`missing`: how many may be."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template(image),
            "strategy": strategy, "progressDeadlineSeconds": 60, **spec}  # fmt: skip
    metadata = {"name": "d", "namespace": "ns", "uid": "u", "generation": 3, "annotations": said or {}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec, "status": status or {}}


def held(name: str, size: int, number: int, available: int | None = None, *, of: int = 0, **more: Any) -> Json:
    """The ReplicaSet of an image. `number` is its revision; `of`: the size of the whole that it remembers."""
    ready = size if available is None else available
    said = {
        REVISION: str(number),
        **({DESIRED: str(of), MAX_REPLICAS: str(of + 1)} if of else {}),
        **more.pop("said", {}),
    }
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": True}
    made = template(name)
    made["metadata"]["labels"][HASH_LABEL] = name
    counts = {"replicas": size, "availableReplicas": ready, "readyReplicas": ready, "observedGeneration": 1}
    metadata = {"name": f"d-{name}", "namespace": "ns", "uid": name, "generation": 1, "labels": {"app": "x"},
                "creationTimestamp": f"2025-12-0{number}T00:00:00Z", "annotations": said, "ownerReferences": [owner]}  # fmt: skip
    spec = {"replicas": size, "selector": {"matchLabels": {"app": "x"}}, "template": made}
    return {"metadata": metadata, "spec": spec, "status": {name: n for name, n in counts.items() if n} | more}


def progress(reason: str, status: str = "True", at: str = NOW) -> Json:
    return {"type": "Progressing", "status": status, "reason": reason, "lastUpdateTime": at, "lastTransitionTime": at}


class Look:
    """One look at a Deployment with these ReplicaSets."""

    def __init__(self, of: Json, *sets: Json, pods: tuple[Json, ...] = (), **refuses: tuple[int, str]) -> None:
        self.client, self.told, self.of = RecordingClient({"ReplicaSet": _made}), FakeRecorder(), of
        self.client.refuses = refuses
        informers = make_informers(
            REPLICA_SETS, *sets, informers=make_informers(PODS, *pods, informers=make_informers(DEPLOYMENTS, of))
        )
        self.pods = informers.of(PODS)
        self.component = Deployments(self.client, informers, Options())  # type: ignore[arg-type]
        self.component.recorder = self.told  # type: ignore[assignment]
        self.again: timedelta | None = None
        self.error: StatusError | None = None

    def __call__(self) -> Look:
        async def scenario() -> None:
            try:
                self.again = await self.component.reconcile("ns/d")
            except StatusError as error:
                self.error = error

        run(scenario)
        return self

    def of_kind(self, verb: str, kind: str) -> list[Any]:
        return [what for done, of, what in self.client.writes if (done, of) == (verb, kind)]

    @property
    def made(self) -> list[Json]:
        return self.of_kind("create", "ReplicaSet")

    @property
    def sizes(self) -> dict[str, int]:
        """What is asked of ReplicaSets that are there, by their images."""
        return {each["metadata"]["uid"]: each["spec"]["replicas"] for each in self.of_kind("update", "ReplicaSet")}

    @property
    def messages(self) -> list[str]:
        return [message for _, _, message in self.told.events]

    @property
    def gone(self) -> list[str]:
        return [what[0].removeprefix("ns/d-") for what in self.of_kind("delete", "ReplicaSet")]

    @property
    def status(self) -> Json:
        """The last that was written, or else the one that is there."""
        written = self.of_kind("update/status", "Deployment")
        found: Json = written[-1]["status"] if written else self.of["status"]
        return found

    @property
    def progress(self) -> tuple[str, str] | None:
        found = [each for each in self.status.get("conditions", ()) if each["type"] == "Progressing"]
        return (found[0]["status"], found[0]["reason"]) if found else None


def _made(what: Any) -> Any:
    """As a server answers: with a uid and a time."""
    if isinstance(what, tuple):
        return what
    return {**what, "metadata": {"uid": "made", "creationTimestamp": NOW, **what["metadata"]}}
