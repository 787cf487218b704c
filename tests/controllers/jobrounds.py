"""A Job that is looked at once, with pods that are make_informers."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime.metrics import lines_of
from controllers.options.options import Options
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import JOBS, PODS
from controllers.workloads.jobs.component import Jobs
from controllers.workloads.jobs.indexes import ANNOTATION
from tests.controllers.jobobjects import FINALIZER
from tests.support.recording import FakeRecorder, RecordingClient, make_informers
from tests.support.virtual import run

#: Where virtual time begins.
NOW, BEFORE = "2026-01-01T00:00:00Z", "2025-12-31T23:59:00Z"
FAILURES, IGNORED = "batch.kubernetes.io/job-index-failure-count", "batch.kubernetes.io/job-index-ignored-failure-count"


def job(status: Json | None = None, **spec: Any) -> Json:
    template = {"metadata": {"labels": {"j": "j"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    spec = {"template": template, "selector": {"matchLabels": {"j": "j"}}, **spec}
    metadata = {"name": "j", "namespace": "ns", "uid": "u", "generation": 1}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec,
            "status": {"startTime": BEFORE, **(status or {})}}  # fmt: skip


def pod(
    name: str, phase: str = "Running", index: int | None = None, *, held: bool = True, ready: bool = False,
    going: bool = False, at: str = "2025-12-31T23:00:00Z", failures: int = 0, ignored: int = 0, code: int = 1,
) -> Json:  # fmt: skip
    """`at`: when it ended; `failures` of its index before it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    said = {} if index is None else {ANNOTATION: str(index), FAILURES: str(failures), IGNORED: str(ignored)}
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "creationTimestamp": BEFORE, "labels": {"j": "j"},
                "annotations": said, "ownerReferences": [owner], "finalizers": [FINALIZER] if held else [],
                **({"deletionTimestamp": NOW} if going else {})}  # fmt: skip
    ended = phase in ("Succeeded", "Failed")
    state = {"terminated": {"exitCode": code, "finishedAt": at}} if ended else {"running": {}}
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}] if ready else []
    return {"metadata": metadata, "spec": {"nodeName": "n"},
            "status": {"phase": phase, "conditions": conditions, "containerStatuses": [{"name": "c", "state": state}]}}  # fmt: skip


class Look:
    """One look at a Job with these pods."""

    options = Options()

    def __init__(self, of: Json, *pods: Json, **refuses: tuple[int, str]) -> None:
        self.client, self.told, self.of = RecordingClient(), FakeRecorder(), of
        self.client._answers["Pod"] = _made
        self.client.refuses = refuses
        self.client._answers["Job"] = self._written
        #: As they were written, one after the other.
        self.statuses: list[Json] = []
        informers = make_informers(JOBS, of, informers=make_informers(PODS, *pods))
        self.component = run(lambda: self._build(informers))
        for part in (self.component._control._control, self.component._tracker):
            part._recorder = self.told  # type: ignore[assignment]
        self.component.recorder = self.told  # type: ignore[assignment]
        self.again: timedelta | None = None
        self.error: StatusError | None = None

    async def _build(self, informers: Informers) -> Jobs:
        return Jobs(self.client, informers, self.options)  # type: ignore[arg-type]

    def _written(self, of: Json) -> Json:
        self.statuses.append(copy.deepcopy(of["status"]))
        return of

    def __call__(self) -> Look:
        async def scenario() -> None:
            try:
                self.again = await self.component.reconcile("ns/j")
            except StatusError as error:
                self.error = error

        run(scenario)
        return self

    def pods(self, verb: str) -> list[Any]:
        return [what for done, kind, what in self.client.writes if (done, kind) == (verb, "Pod")]

    @property
    def made(self) -> list[int | None]:
        """The indexes of the pods that are made."""
        found = [each["metadata"].get("annotations", {}).get(ANNOTATION) for each in self.pods("create")]
        return [None if each is None else int(each) for each in found]

    @property
    def gone(self) -> list[str]:
        return sorted(what[0].removeprefix("ns/") for what in self.pods("delete"))

    @property
    def let_go(self) -> list[str]:
        return sorted(name for name, _ in self.pods("patch"))

    @property
    def status(self) -> Json:
        found: Json = self.statuses[-1] if self.statuses else self.of["status"]
        return found

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Active, succeeded, failed."""
        return tuple(self.status.get(name, 0) for name in ("active", "succeeded", "failed"))  # type: ignore[return-value]

    @property
    def conditions(self) -> list[tuple[str, str]]:
        return [(each["type"], each.get("reason", "")) for each in self.status.get("conditions", ())]

    def counted(self, name: str) -> list[str]:
        lines = lines_of(self.component.metrics)
        return [line.removeprefix("job_controller_") for line in lines if line.startswith(f"job_controller_{name}")]


def _made(what: Any) -> Any:
    return what if isinstance(what, tuple) else {**what, "metadata": {**what["metadata"], "name": "made"}}
