"""Gang scheduling of Jobs: creates a Workload and a PodGroup for each Job whose pods start together.

Facts: upstream's pkg/controller/job (job_scheduling_manager.go), gate `WorkloadWithJob`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import JOBS, POD_GROUPS, WORKLOADS, Kind
from controllers.workloads.common.conditions import condition_of
from controllers.workloads.common.references import controller_reference, is_controlled_by
from controllers.workloads.common.templates import text_hash
from controllers.workloads.jobs.indexes import is_indexed

log = logging.getLogger(__name__)
GATE: Final = "WorkloadWithJob"
#: Maximum length of an object's name.
_LONGEST: Final = 253


class Gangs:
    """The groups of all Jobs. `record_write` records an object created for a Job, and returns it."""

    def __init__(
        self,
        client: Client,
        recorder: CoreEventRecorder,
        informers: Informers,
        record_write: Callable[[Json, Kind, Json], Json],
    ) -> None:
        self._client, self._recorder, self._record_write = client, recorder, record_write
        self.workloads, self.groups = informers.of(WORKLOADS), informers.of(POD_GROUPS)
        self._by_job = self.workloads.index("job", _job_of)
        self._by_workload = self.groups.index("workload", _workload_of)

    async def group_of(self, job: Json, pods: list[Json]) -> Json | None:
        """Return the PodGroup of the Job's pods, created if missing; None without gang scheduling.

        Raise StatusError.
        """
        if not is_gang(job):
            return None
        for informer in (self.workloads, self.groups):
            await informer.wait_answered()
            if not informer.synced:
                # The server does not serve this kind.
                return None
        workload = await self._workload(job, pods)
        if workload is None:
            return None
        return await self._group(job, workload)

    async def _workload(self, job: Json, pods: list[Json]) -> Json | None:
        found = self._by_job.get(_key(job, job["metadata"]["name"]))
        if not found:
            return await self._new_workload(job) if _is_new(job, pods) else None
        if len(found) > 1 or not is_controlled_by(found[0], job) or len(_templates(found[0])) != 1:
            log.info("Job %s: no gang scheduling: its Workload has other owners or templates", _name(job))
            return None
        return found[0]

    async def _group(self, job: Json, workload: Json) -> Json | None:
        found = self._by_workload.get(_key(workload, workload["metadata"]["name"]))
        if not found:
            return self._record_write(job, POD_GROUPS, await self._client.create(POD_GROUPS, new_group(job, workload)))
        if len(found) > 1 or not is_controlled_by(found[0], job):
            log.info("Job %s: no gang scheduling: its PodGroup has other owners", _name(job))
            return None
        return found[0]

    async def _new_workload(self, job: Json) -> Json:
        made = self._record_write(job, WORKLOADS, await self._client.create(WORKLOADS, new_workload(job)))
        name = made["metadata"]["name"]
        message = f"Created Workload {name} for Job {job['metadata']['name']}"
        self._recorder.record(job, "Normal", "WorkloadCreated", message)
        return made


def is_gang(job: Json) -> bool:
    """Return whether all pods of an Indexed Job run together without a user-defined group."""
    spec = job["spec"]
    together = spec.get("parallelism", 1)
    chosen = spec["template"]["spec"].get("schedulingGroup")
    return together > 1 and is_indexed(job) and spec.get("completions") == together and chosen is None


def new_workload(job: Json) -> Json:
    """Build the Workload with one group template for all pods of the Job."""
    name = job["metadata"]["name"]
    policy = {"gang": {"minCount": job["spec"]["parallelism"]}}
    return {
        "metadata": {
            "name": workload_name(job),
            "namespace": job["metadata"]["namespace"],
            "ownerReferences": [controller_reference(job, JOBS)],
        },
        "spec": {
            "controllerRef": {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": name},
            "podGroupTemplates": [{"name": f"{name}-pgt-0", "schedulingPolicy": policy}],
        },
    }


def new_group(job: Json, workload: Json) -> Json:
    """Build the PodGroup from the Workload's only template. It is deleted with the Workload."""
    metadata, template = workload["metadata"], _templates(workload)[0]
    owner = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    reference = {"workloadName": metadata["name"], "podGroupTemplateName": template["name"]}
    return {
        "metadata": {
            "name": group_name(metadata["name"], template["name"]),
            "namespace": metadata["namespace"],
            "ownerReferences": [controller_reference(job, JOBS), owner],
        },
        "spec": {"podGroupTemplateRef": {"workload": reference}, "schedulingPolicy": template["schedulingPolicy"]},
    }


def workload_name(job: Json) -> str:
    """Return the Workload's name, which is stable for a Job and unique among Jobs of the same name."""
    hashed = text_hash(f"(types.UID){job['metadata']['uid']}")
    return f"{job['metadata']['name'][: _LONGEST - len(hashed) - 1]}-{hashed}"


def group_name(workload: str, template: str) -> str:
    """Return the PodGroup's name with both names, each truncated to no less than half the space."""
    hashed = text_hash(workload + template)
    room = _LONGEST - len(hashed) - 2
    if len(workload) + len(template) > room:
        half = room // 2
        # Space unused by the shorter name goes to the other one; an odd character goes to the Workload.
        for_workload = max(room - len(template), room - half)
        workload = workload[:for_workload]
        template = template[: room - len(workload)]
    return f"{workload}-{template}-{hashed}"


def _is_new(job: Json, pods: list[Json]) -> bool:
    """Return whether a Job has never started. Older Jobs continue without a group."""
    status = job.get("status") or {}
    begun = pods or status.get("startTime") or status.get("succeeded") or status.get("failed")
    return not begun and condition_of(status, "Suspended") is None


def _job_of(workload: Json) -> Iterator[str]:
    reference = workload["spec"].get("controllerRef") or {}
    if (reference.get("apiGroup"), reference.get("kind")) == (JOBS.group, JOBS.kind) and reference.get("name"):
        yield _key(workload, reference["name"])


def _workload_of(group: Json) -> Iterator[str]:
    name = ((group["spec"].get("podGroupTemplateRef") or {}).get("workload") or {}).get("workloadName")
    if name:
        yield _key(group, name)


def _templates(workload: Json) -> list[Json]:
    templates: list[Json] = workload["spec"].get("podGroupTemplates") or []
    return templates


def _key(obj: Json, name: str) -> str:
    return f"{obj['metadata']['namespace']}/{name}"


def _name(job: Json) -> str:
    return _key(job, job["metadata"]["name"])
