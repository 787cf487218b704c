"""Priority: the number and the preemption policy that a pod's priority class stands for.

Two classes are the server's own; others are PriorityClass objects, of which one may be the default. Facts:
plugin/pkg/admission/priority, pkg/apis/scheduling/v1.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.admission.interface import Attributes, Plugin, forbidden
from apiserver.registry.resource import Resource

__all__ = ["SYSTEM_CLASSES", "Priority"]

Json = dict[str, Any]

PREEMPT: Final = "PreemptLowerPriority"
SYSTEM_CLASSES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


class Priority(Plugin):
    name = "Priority"
    operations = frozenset({"CREATE", "UPDATE"})

    def handles(self, resource: Resource) -> bool:
        return resource.plural == "pods" and not resource.group

    def admit(self, attributes: Attributes) -> None:
        if attributes.subresource or attributes.obj is None:
            return
        spec = attributes.obj.setdefault("spec", {})
        if attributes.operation == "UPDATE":
            old = (attributes.old or {}).get("spec", {})
            for name in ("priority", "preemptionPolicy"):
                if name in old:
                    spec.setdefault(name, old[name])
            return
        name, priority, policy = self._class_of(attributes, spec.get("priorityClassName", ""))
        if name:
            spec["priorityClassName"] = name
        if spec.get("priority", priority) != priority:
            raise forbidden(
                attributes,
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {priority} from the given PriorityClass name",
            )
        spec["priority"] = priority
        if spec.get("preemptionPolicy", policy) != policy:
            raise forbidden(
                attributes,
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name",
            )
        spec["preemptionPolicy"] = policy

    def _class_of(self, attributes: Attributes, name: str) -> tuple[str, int, str]:
        """Name, number and policy; without a name, those of the default class, if any."""
        if not name:
            return self._default_class(attributes)
        if name in SYSTEM_CLASSES:
            return name, SYSTEM_CLASSES[name], PREEMPT
        found = attributes.ctx.lookup("priorityclasses", "", name)
        if found is None:
            raise forbidden(attributes, f"no PriorityClass with name {name} was found")
        return name, found.get("value", 0), found.get("preemptionPolicy", PREEMPT)

    def _default_class(self, attributes: Attributes) -> tuple[str, int, str]:
        defaults = [item for item in attributes.ctx.all_of("priorityclasses") if item.get("globalDefault")]
        if not defaults:
            return "", 0, PREEMPT
        least = min(defaults, key=lambda item: item.get("value", 0))
        return least["metadata"]["name"], least.get("value", 0), least.get("preemptionPolicy", PREEMPT)
