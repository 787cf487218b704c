"""PodTopologyLabels: a pod has its node's zone and region as labels.

The plugin sets the labels in the binding, which copies them to the pod. A pod created on a node gets them directly.
Facts: plugin/pkg/admission/podtopologylabels.
"""

from __future__ import annotations

from typing import Final

from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin

__all__ = ["PodTopologyLabels"]

GATE: Final = "PodTopologyLabelsAdmission"
_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels(Plugin):
    name = "PodTopologyLabels"
    operations = frozenset({"CREATE"})

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) == ("", "pods")

    def admit(self, attributes: Attributes) -> None:
        obj, ctx = attributes.obj, attributes.ctx
        if obj is None or not ctx.features.enabled(GATE):
            return
        if attributes.subresource == "binding":
            target = obj.get("target") or {}
            node = target.get("name") if target.get("kind") == "Node" else ""
        elif attributes.subresource:
            return
        else:
            node = (obj.get("spec") or {}).get("nodeName")
        found = ctx.lookup("", "nodes", "", node) if node else None
        given = (found["metadata"].get("labels") or {}) if found is not None else {}
        labels = {key: given[key] for key in _LABELS if key in given}
        if labels:
            metadata = obj.setdefault("metadata", {})
            metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
