"""Builders of a Job and its pods, and one call that reconciles it."""

from __future__ import annotations

from typing import Any

from apiserver.api.objects import Json
from apiserver.runtime.metrics import lines_of
from controllers.workloads.jobs.component import Jobs
from controllers.workloads.jobs.indexes import ANNOTATION
from tests.controllers.jobobjects import FINALIZER
from tests.support import recording
from tests.support.objects import make_pod
from tests.support.recording import RecordingClient

#: The start of virtual time.
NOW, BEFORE = "2026-01-01T00:00:00Z", "2025-12-31T23:59:00Z"
FAILURES, IGNORED = "batch.kubernetes.io/job-index-failure-count", "batch.kubernetes.io/job-index-ignored-failure-count"


def job(status: Json | None = None, **spec: Any) -> Json:
    """Build the Job `ns/j`, started a minute ago."""
    template = {"metadata": {"labels": {"j": "j"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    spec = {"template": template, "selector": {"matchLabels": {"j": "j"}}, **spec}
    metadata = {"name": "j", "namespace": "ns", "uid": "u", "generation": 1}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec,
            "status": {"startTime": BEFORE, **(status or {})}}  # fmt: skip


def pod(
    name: str, phase: str = "Running", index: int | None = None, *, held: bool = True, ready: bool = False,
    going: bool = False, at: str = "2025-12-31T23:00:00Z", failures: int = 0, ignored: int = 0, code: int = 1,
) -> Json:  # fmt: skip
    """Build a pod of the Job. `held`: with our finalizer; `at`: when it ended; `failures`: earlier ones of its index."""
    annotations = {} if index is None else {ANNOTATION: str(index), FAILURES: str(failures), IGNORED: str(ignored)}
    ended = phase in ("Succeeded", "Failed")
    state = {"terminated": {"exitCode": code, "finishedAt": at}} if ended else {"running": {}}
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}] if ready else []
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [{"name": "c", "state": state}]}
    return make_pod(
        name, uid=f"u-{name}", created=BEFORE, labels={"j": "j"}, annotations=annotations, owner=job(), node="n",
        finalizers=[FINALIZER] if held else [], deleted=NOW if going else "", status=status,
    )  # fmt: skip


class JobClient(RecordingClient):
    """Records the writes for the Job `ns/j`."""

    @property
    def made(self) -> list[int | None]:
        """The indexes of the new pods."""
        found = [each["metadata"].get("annotations", {}).get(ANNOTATION) for each in self.bodies("create", "Pod")]
        return [None if each is None else int(each) for each in found]

    @property
    def gone(self) -> list[str]:
        return sorted(name.removeprefix("ns/") for name, _ in self.bodies("delete", "Pod"))

    @property
    def let_go(self) -> list[str]:
        return sorted(name for name, _ in self.bodies("patch", "Pod"))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The active, succeeded and failed pods."""
        return tuple(self.status.get(name, 0) for name in ("active", "succeeded", "failed"))

    @property
    def conditions(self) -> list[tuple[str, str]]:
        return [(each["type"], each.get("reason", "")) for each in self.status.get("conditions", ())]

    def samples(self, name: str) -> list[str]:
        lines = lines_of(self.component.metrics)
        return [line.removeprefix("job_controller_") for line in lines if line.startswith(f"job_controller_{name}")]


def build(of: Json, *pods: Json, **more: Any) -> JobClient:
    """Build the component over a Job and its pods."""
    return recording.build(Jobs, JobClient(), of, *pods, **more)


async def reconcile(of: Json, *pods: Json, **more: Any) -> JobClient:
    """Reconcile a Job with its pods once."""
    return await build(of, *pods, **more).reconcile("ns/j")
