"""The pods of a Job."""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json
from controllers.runtime.kinds import JOBS
from controllers.workloads.common.references import controller_reference
from controllers.workloads.common.templates import build_pod
from controllers.workloads.jobs.indexes import ANNOTATION

#: The finalizer of pods that are not counted yet.
FINALIZER: Final = "batch.kubernetes.io/job-tracking"
#: Maximum length of a generateName used by the server.
_LONGEST_PREFIX: Final = 58
_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def has_finalizer(pod: Json) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def new_pod(job: Json, index: int | None, annotations: dict[str, str], group: Json | None = None) -> Json:
    """Build a pod from the Job's template.

    `annotations` are added. `index` is the completion index, `group` the PodGroup.
    """
    pod = build_pod(job["spec"]["template"], job, controller_reference(job, JOBS))
    metadata, spec = pod["metadata"], dict(pod["spec"])
    finalizers = metadata.get("finalizers") or []
    metadata["finalizers"] = finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]
    if index is not None:
        annotations = {**annotations, ANNOTATION: str(index)}
        metadata["labels"] = {**(metadata.get("labels") or {}), ANNOTATION: str(index)}
        metadata["generateName"] = _prefix(job["metadata"]["name"], index)
        spec["hostname"] = f"{job['metadata']['name']}-{index}"
        for field in ("initContainers", "containers"):
            if spec.get(field):
                spec[field] = [_with_index(container) for container in spec[field]]
    if group is not None:
        spec["schedulingGroup"] = {"podGroupName": group["metadata"]["name"]}
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    return {**pod, "spec": spec}


def _prefix(name: str, index: int) -> str:
    end = f"-{index}-"
    return f"{name[: _LONGEST_PREFIX - len(end)]}{end}"


def _with_index(container: Json) -> Json:
    env = container.get("env") or []
    if any(variable["name"] == _VARIABLE for variable in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{ANNOTATION}']"}}
    return {**container, "env": [*env, {"name": _VARIABLE, "valueFrom": source}]}
