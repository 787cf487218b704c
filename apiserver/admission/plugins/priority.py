"""Priority: sets the value and the preemption policy of a priority class.

It sets them in pods and (WorkloadAwarePreemption) pod groups. One class may be the default.
Facts: plugin/pkg/admission/priority.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin, forbidden

__all__ = ["Priority"]


#: The default preemption policy of a class.
_PREEMPT: Final = "PreemptLowerPriority"
_PODS: Final = ("", "pods")
_GROUPS: Final = ("scheduling.k8s.io", "podgroups")
_CLASSES: Final = ("scheduling.k8s.io", "priorityclasses")


class Priority(Plugin):
    name = "Priority"
    operations = frozenset({"CREATE", "UPDATE"})

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) in (_PODS, _GROUPS, _CLASSES)

    def admit(self, attributes: Attributes) -> None:
        if attributes.subresource or attributes.obj is None:
            return
        plural = attributes.resource.plural
        if plural == "pods":
            spec = attributes.obj.setdefault("spec", {})
            if attributes.operation == "CREATE":
                _admit_pod(attributes, spec)
            else:
                old = (attributes.old or {}).get("spec", {})
                spec.update(
                    (name, old[name]) for name in ("priority", "preemptionPolicy") if name in old and name not in spec
                )
        elif (
            plural == "podgroups"
            and attributes.operation == "CREATE"
            and attributes.ctx.features.enabled("WorkloadAwarePreemption")
        ):
            _admit_group(attributes, attributes.obj["spec"])

    def validate(self, attributes: Attributes) -> None:
        """Refuse a second default class."""
        obj = attributes.obj
        if (
            attributes.resource.plural != "priorityclasses"
            or attributes.subresource
            or obj is None
            or not obj.get("globalDefault")
        ):
            return
        default = _default_class(attributes)
        name = default["metadata"]["name"] if default else ""
        if name and (attributes.operation == "CREATE" or name != obj["metadata"].get("name")):
            raise forbidden(
                attributes, f"PriorityClass {name} is already marked as default. Only one default can exist"
            )


def _admit_pod(attributes: Attributes, spec: Json) -> None:
    name, priority, policy = _class_of(attributes, spec.get("priorityClassName", ""))
    if name:
        spec["priorityClassName"] = name
    computed = "priority admission controller computed {} from the given PriorityClass name"
    if spec.get("priority", priority) != priority:
        given = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec"
        raise forbidden(attributes, f"{given}; {computed.format(priority)}")
    spec["priority"] = priority
    if spec.get("preemptionPolicy", policy) != policy:
        given = f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec"
        raise forbidden(attributes, f"{given}; {computed.format(policy)}")
    spec["preemptionPolicy"] = policy


def _admit_group(attributes: Attributes, spec: Json) -> None:
    name, priority, _ = _class_of(attributes, spec.get("priorityClassName", ""))
    if spec.get("priority", priority) != priority:
        text = f"priority set in the pod group ({spec['priority']}) must match the priority computed ({priority})"
        raise forbidden(attributes, f"{text} based on the priority class set in the spec")
    spec.pop("priority", None)
    if name:
        spec.pop("priorityClassName", None)
        spec["priorityClassName"] = name
    spec["priority"] = priority


def _class_of(attributes: Attributes, name: str) -> tuple[str, int, str]:
    """Return the name, value and policy of a class.

    Without a name they are those of the default class, if there is one.
    """
    found = attributes.ctx.lookup(*_CLASSES, "", name) if name else _default_class(attributes)
    if found is not None:
        return found["metadata"]["name"], found.get("value", 0), found.get("preemptionPolicy", _PREEMPT)
    if name:
        raise forbidden(attributes, f"no PriorityClass with name {name} was found")
    return "", 0, _PREEMPT


def _default_class(attributes: Attributes) -> Json | None:
    """Return the default class. Concurrent requests may create several; the lowest value wins."""
    defaults = (item for item in attributes.ctx.all_of(*_CLASSES) if item.get("globalDefault"))
    return min(defaults, key=lambda item: item.get("value", 0), default=None)
