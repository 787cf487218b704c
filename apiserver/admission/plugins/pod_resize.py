"""PodResizeValidator and NodeDeclaredFeatureValidator: what a pod on a node is changed to has to fit that node.

The first asks of a resize that the node runs Linux and could hold the new requests at all, the second that the node's
kubelet declares what the change needs. Neither looks at a change that makes no new generation. Facts:
plugin/pkg/admission/podresize, plugin/pkg/admission/nodedeclaredfeatures, component-helpers/nodedeclaredfeatures.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.status import StatusError
from apiserver.api.helpers.pod_requests import amount, pod_requests
from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin, forbidden

__all__ = ["NodeDeclaredFeatureValidator", "PodResizeValidator"]


_RESIZE_GATE: Final = "InPlacePodVerticalScaling"
_FEATURES_GATE: Final = "NodeDeclaredFeatures"
_POD_LEVEL: Final = "InPlacePodLevelResourcesVerticalScaling"
_INIT_CONTAINERS: Final = "InPlacePodVerticalScalingInitContainers"
_OS: Final = "kubernetes.io/os"


class _OfPodsOnNodes(Plugin):
    """What is asked of changes of bound pods."""

    operations = frozenset({"UPDATE"})
    subresources: frozenset[str]
    gate: str

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) == ("", "pods")

    def validate(self, attributes: Attributes) -> None:
        obj, old = attributes.obj, attributes.old
        if attributes.subresource not in self.subresources or obj is None or old is None:
            return
        name = obj["spec"].get("nodeName")
        if not name or obj["metadata"].get("generation") == old["metadata"].get("generation"):
            return
        if attributes.ctx.features.enabled(self.gate):
            self.check(attributes, obj, old, name)

    def check(self, attributes: Attributes, obj: Json, old: Json, node: str) -> None:
        raise NotImplementedError

    def node(self, attributes: Attributes, name: str) -> Json:
        found = attributes.ctx.lookup("", "nodes", "", name)
        if found is None:
            raise forbidden(attributes, f'node "{name}" not found')
        return found


class PodResizeValidator(_OfPodsOnNodes):
    name = "PodResizeValidator"
    subresources = frozenset({"resize"})
    gate = _RESIZE_GATE

    def check(self, attributes: Attributes, obj: Json, old: Json, node: str) -> None:
        found = self.node(attributes, node)
        system = (found["metadata"].get("labels") or {}).get(_OS, "linux")
        if system != "linux":
            text = f'pod resize is only supported on linux nodes, node "{node}" is "{system}"'
            raise _with_cause(forbidden(attributes, text), "UnsupportedPlatform")
        allocatable = (found.get("status") or {}).get("allocatable") or {}
        requests = pod_requests({"spec": obj["spec"]})
        lacking = []
        for name in ("cpu", "memory"):
            wanted, there = requests.get(name, 0), amount(name, allocatable.get(name, 0))
            if wanted > there:
                lacking.append(f"{name}, requested: {wanted}, allocatable: {there}")
        if lacking:
            text = f"node didn't have enough allocatable resources: {'; '.join(lacking)}"
            raise _with_cause(forbidden(attributes, text), "NodeCapacity")


def _with_cause(error: StatusError, reason: str) -> StatusError:
    error.details = {**(error.details or {}), "causes": [{"reason": reason}]}
    return error


class NodeDeclaredFeatureValidator(_OfPodsOnNodes):
    name = "NodeDeclaredFeatureValidator"
    subresources = frozenset({"", "resize"})
    gate = _FEATURES_GATE

    def check(self, attributes: Attributes, obj: Json, old: Json, node: str) -> None:
        needed = _needed(obj["spec"], old["spec"])
        if not needed:
            return
        declared = (self.node(attributes, node).get("status") or {}).get("declaredFeatures") or ()
        missing = [name for name in needed if name not in declared]
        if missing:
            text = f'pod update requires features {", ".join(missing)} which are not available on node "{node}"'
            raise forbidden(attributes, text)


def _needed(new: Json, old: Json) -> list[str]:
    """The features that a kubelet has to have to follow a change of a pod, by name."""
    # Resources are compared here rather than with the rules of kinds: those stand above admission.
    found = []
    if _resources(new) != _resources(old):
        found.append(_POD_LEVEL)
    pairs = zip(new.get("initContainers") or (), old.get("initContainers") or (), strict=False)
    if any(before.get("restartPolicy") != "Always" and _resources(c) != _resources(before) for c, before in pairs):
        found.append(_INIT_CONTAINERS)
    return found


def _resources(part: Json) -> Json:
    """Requests and limits as amounts, claims as they stand."""
    resources = part.get("resources") or {}
    known = {
        name: {key: amount(key, text) for key, text in (resources.get(name) or {}).items()}
        for name in ("limits", "requests")
    }
    return {**known, "claims": resources.get("claims") or []}
