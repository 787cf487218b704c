"""Admission plugins for PodGroups: a finalizer, and the check of the referenced Workload.

Facts: plugin/pkg/admission/scheduling/podgroupprotection, plugin/pkg/admission/podgroup.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin, forbidden

__all__ = ["PodGroupProtection", "PodGroupWorkloadExists"]

_FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"


def _is_group(resource: Resource) -> bool:
    return (resource.group, resource.plural) == ("scheduling.k8s.io", "podgroups")


class PodGroupProtection(Plugin):
    """Plugin that adds a finalizer. The podgroup-protection-controller removes it when no pod needs the group."""

    name = "PodGroupProtection"
    operations = frozenset({"CREATE"})

    def handles(self, resource: Resource) -> bool:
        return _is_group(resource)

    def admit(self, attributes: Attributes) -> None:
        if attributes.obj is None or attributes.subresource or not attributes.ctx.features.enabled("GenericWorkload"):
            return
        metadata = attributes.obj["metadata"]
        finalizers = metadata.get("finalizers") or []
        if _FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, _FINALIZER]


class PodGroupWorkloadExists(Plugin):
    """Plugin that refuses a group whose Workload, or the template in it, is missing."""

    name = "PodGroupWorkloadExists"
    operations = frozenset({"CREATE"})

    def handles(self, resource: Resource) -> bool:
        return _is_group(resource)

    def validate(self, attributes: Attributes) -> None:
        if attributes.obj is None or attributes.subresource or not attributes.ctx.features.enabled("GenericWorkload"):
            return
        reference = (attributes.obj["spec"].get("podGroupTemplateRef") or {}).get("workload")
        if reference is None:
            return
        name, template = go_quote(reference["workloadName"]), go_quote(reference["podGroupTemplateName"])
        workload = attributes.ctx.lookup(
            "scheduling.k8s.io", "workloads", attributes.ctx.namespace, reference["workloadName"]
        )
        if workload is None:
            raise forbidden(attributes, f"PodGroup rejected: Workload {name} not found")
        if workload["metadata"].get("deletionTimestamp"):
            raise forbidden(attributes, f"PodGroup rejected: Workload {name} is being deleted")
        if not any(
            item["name"] == reference["podGroupTemplateName"] for item in workload["spec"]["podGroupTemplates"] or ()
        ):
            raise forbidden(attributes, f"PodGroup rejected: PodGroupTemplate {template} not found in Workload {name}")
