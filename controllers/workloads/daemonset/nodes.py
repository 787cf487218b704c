"""The eligibility of nodes for a DaemonSet, and the pod for a node. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from apiserver.api.helpers.tolerations import has_untolerated
from apiserver.api.objects import Json
from apiserver.api.selectors.node_selectors import InvalidNodeSelector, RequiredNodeAffinity
from controllers.scheduler.state.terms import blocking_taints

HASH_LABEL: Final = "controller-revision-hash"
_GENERATION_LABEL: Final = "pod-template-generation"
_GENERATION: Final = "deprecated.daemonset.template.generation"
#: Taints tolerated by every pod of a DaemonSet, in order; `_ON_HOST` only with hostNetwork.
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ON_HOST: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


class Verdict(NamedTuple):
    """Whether a node needs a pod (`run`), and whether an existing pod may stay."""

    run: bool
    stay: bool


class Eligibility:
    """The eligibility of nodes for one DaemonSet."""

    def __init__(self, owner: Json, comparing: bool) -> None:
        """Read the owner's template. `comparing` enables numeric comparison in tolerations."""
        self._comparing = comparing
        spec = owner["spec"]["template"]["spec"]
        self._node = spec.get("nodeName", "")
        self._affinity = RequiredNodeAffinity.of_pod({"spec": spec})
        self._tolerations = tolerations(spec)

    def of(self, node: Json) -> Verdict:
        if self._node and self._node != node["metadata"]["name"]:
            return Verdict(run=False, stay=False)
        try:
            if not self._affinity.match(node):
                return Verdict(run=False, stay=False)
        except InvalidNodeSelector:
            return Verdict(run=False, stay=False)
        taints = blocking_taints(node["spec"].get("taints") or ())
        if not has_untolerated(taints, self._tolerations, self._comparing):
            return Verdict(run=True, stay=True)
        evicting = [taint for taint in taints if taint["effect"] == "NoExecute"]
        return Verdict(run=False, stay=not has_untolerated(evicting, self._tolerations, self._comparing))


def tolerations(spec: Json) -> list[Json]:
    """Return the tolerations of a pod's spec plus those of all DaemonSet pods."""
    found = list(spec.get("tolerations") or ())
    for key, effect in (*_TOLERATED, *((_ON_HOST,) if spec.get("hostNetwork") else ())):
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        same = [number for number, each in enumerate(found) if _is_same(each, wanted)]
        for number in same:
            found[number] = wanted
        if not same:
            found.append(wanted)
    return found


def _is_same(one: Json, other: Json) -> bool:
    return all(one.get(name, "") == other.get(name, "") for name in ("key", "operator", "value", "effect"))


def template_generation(owner: Json) -> str | None:
    """Return the deprecated template generation, or None."""
    text = (owner["metadata"].get("annotations") or {}).get(_GENERATION)
    try:
        return None if text is None else str(int(text))
    except ValueError:
        return None


def pod_template(owner: Json, code: str) -> Json:
    """Return the template of the pods; `code` is the hash of its revision."""
    template = owner["spec"]["template"]
    metadata = template.get("metadata") or {}
    labels = dict(metadata.get("labels") or {})
    generation = template_generation(owner)
    if generation is not None:
        labels[_GENERATION_LABEL] = generation
    if code:
        labels[HASH_LABEL] = code
    spec = {**template["spec"], "tolerations": tolerations(template["spec"])}
    return {**template, "metadata": {**metadata, "labels": labels}, "spec": spec}


def bind_to_node(template: Json, node: str) -> Json:
    """Return the template bound to a node by node affinity."""
    name = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = template["spec"].get("affinity") or {}
    of_node = affinity.get("nodeAffinity") or {}
    required = of_node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    required = {**required, "nodeSelectorTerms": [{"matchFields": [name]}]}
    of_node = {**of_node, "requiredDuringSchedulingIgnoredDuringExecution": required}
    return {**template, "spec": {**template["spec"], "affinity": {**affinity, "nodeAffinity": of_node}}}


def target_node(pod: Json) -> str:
    """Return the node of a pod, or the node in its affinity; "" if there is neither."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    of_node = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (of_node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name" and field["operator"] == "In":
                return str(field["values"][0]) if len(field.get("values") or ()) == 1 else ""
    return ""


def is_updated(owner: Json, pod: Json, code: str) -> bool:
    """Return whether a pod has the current template."""
    labels, generation = pod["metadata"].get("labels") or {}, template_generation(owner)
    if generation is not None and labels.get(_GENERATION_LABEL) == generation:
        return True
    return bool(code) and labels.get(HASH_LABEL) == code


def sort_pods(pods: Iterable[Json]) -> list[Json]:
    """Sort pods: bound ones first, then by age."""

    def order(pod: Json) -> tuple[bool, str, str]:
        metadata = pod["metadata"]
        return not pod["spec"].get("nodeName"), metadata["creationTimestamp"], metadata["name"]

    return sorted(pods, key=order)
