"""JobValidation: a Job with gang-scheduled pods keeps its parallelism.

Facts: plugin/pkg/admission/job.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin, forbidden

__all__ = ["JobValidation"]

_GROUPS: Final = ("scheduling.k8s.io", "podgroups")


class JobValidation(Plugin):
    name = "JobValidation"
    operations = frozenset({"UPDATE"})

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) == ("batch", "jobs")

    def validate(self, attributes: Attributes) -> None:
        if attributes.obj is None or attributes.subresource or not attributes.ctx.features.enabled("GenericWorkload"):
            return
        old = attributes.old
        assert old is not None
        if attributes.obj["spec"].get("parallelism") == old["spec"].get("parallelism"):
            return
        for group in _groups(attributes, old):
            if "gang" in (group["spec"].get("schedulingPolicy") or {}):
                named = f'referencing gang-scheduled PodGroup "{group["metadata"]["name"]}"'
                raise forbidden(attributes, f"cannot change parallelism for a Job {named}")


def _groups(attributes: Attributes, job: Json) -> list[Json]:
    """Return the group that the pod template names, or else the groups that the Job controls."""
    ctx, namespace = attributes.ctx, attributes.namespace
    name = (job["spec"]["template"]["spec"].get("schedulingGroup") or {}).get("podGroupName")
    if name is not None:
        group = ctx.lookup(*_GROUPS, namespace, name)
        return [] if group is None else [group]
    return [
        group
        for group in ctx.all_of(*_GROUPS)
        if group["metadata"]["namespace"] == namespace
        and any(
            owner.get("controller") and owner["uid"] == job["metadata"]["uid"]
            for owner in group["metadata"].get("ownerReferences") or ()
        )
    ]
