"""PodResizeValidator and NodeDeclaredFeatureValidator: a change of a bound pod must fit its node.

The first requires for a resize that the node runs Linux and has the capacity for the new requests. The second requires
that the node's kubelet declares the features of the change. Both ignore changes that keep the generation.
Facts: plugin/pkg/admission/podresize, plugin/pkg/admission/nodedeclaredfeatures,
component-helpers/nodedeclaredfeatures.
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


class _BoundPodPlugin(Plugin):
    """Base of the plugins for changes of bound pods."""

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


class PodResizeValidator(_BoundPodPlugin):
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


class NodeDeclaredFeatureValidator(_BoundPodPlugin):
    name = "NodeDeclaredFeatureValidator"
    subresources = frozenset({"", "resize"})
    gate = _FEATURES_GATE

    def check(self, attributes: Attributes, obj: Json, old: Json, node: str) -> None:
        needed = _get_required_features(obj["spec"], old["spec"])
        if not needed:
            return
        declared = (self.node(attributes, node).get("status") or {}).get("declaredFeatures") or ()
        missing = [name for name in needed if name not in declared]
        if missing:
            text = f'pod update requires features {", ".join(missing)} which are not available on node "{node}"'
            raise forbidden(attributes, text)


def _get_required_features(new: Json, old: Json) -> list[str]:
    """Return the names of the kubelet features that a change of a pod needs."""
    # Resources are compared here because the rules of kinds are above admission in the layers.
    found = []
    if _resources(new) != _resources(old):
        found.append(_POD_LEVEL)
    pairs = zip(new.get("initContainers") or (), old.get("initContainers") or (), strict=False)
    if any(before.get("restartPolicy") != "Always" and _resources(c) != _resources(before) for c, before in pairs):
        found.append(_INIT_CONTAINERS)
    return found


def _resources(part: Json) -> Json:
    """Return requests and limits as parsed amounts, and claims unchanged."""
    resources = part.get("resources") or {}
    known = {
        name: {key: amount(key, text) for key, text in (resources.get(name) or {}).items()}
        for name in ("limits", "requests")
    }
    return {**known, "claims": resources.get("claims") or []}
