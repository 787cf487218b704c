"""TaintNodesByCondition: adds the not-ready taint to a new node; the node controller removes it.

Facts: plugin/pkg/admission/nodetaint.
"""

from __future__ import annotations

from typing import Final

from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin

__all__ = ["TaintNodesByCondition"]

NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition(Plugin):
    name = "TaintNodesByCondition"
    operations = frozenset({"CREATE"})

    def handles(self, resource: Resource) -> bool:
        return resource.plural == "nodes" and not resource.group

    def admit(self, attributes: Attributes) -> None:
        if attributes.subresource or attributes.obj is None:
            return
        spec = attributes.obj.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(
            taint.get("key") == NOT_READY["key"] and taint.get("effect") == NOT_READY["effect"] for taint in taints
        ):
            spec["taints"] = [*taints, dict(NOT_READY)]
