"""Objects on which nothing acts: which component acts on a kind, and what stays undone where it does not run.

A server with components in it tells whoever creates such an object, in a Warning header. Objects that a controller made
are its own affair. `kubedra serve` runs none and says nothing: others are expected to act.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controllers.options.names import UNBUILT

Json = dict[str, Any]
#: What is said of a new object.
Judge = Callable[[Json], list[str]]


@dataclass(frozen=True, slots=True)
class Part:
    """A component's part in the life of a kind's objects."""

    component: str
    #: What does not happen without it.
    undone: str
    #: Whether this object waits for it.
    concerns: Callable[[Json], bool] = lambda obj: True


def _unbound(pod: Json) -> bool:
    return not pod.get("spec", {}).get("nodeName")


def _has_selector(service: Json) -> bool:
    return bool(service.get("spec", {}).get("selector"))


def _of_kubernetes(request: Json) -> bool:
    return str(request.get("spec", {}).get("signerName", "")).startswith("kubernetes.io/")


def _pods(component: str) -> tuple[Part, ...]:
    return (Part(component, "no pods are made of its template"),)


#: By group and resource.
PARTS: Final[Mapping[tuple[str, str], tuple[Part, ...]]] = {
    ("", "pods"): (
        Part("scheduler", "it is bound to no node", _unbound),
        Part("node-agent", "it does not start"),
    ),
    ("", "services"): (
        Part("endpointslice-controller", "its selector makes no EndpointSlices", _has_selector),
        Part("endpoints-controller", "its selector makes no Endpoints", _has_selector),
    ),
    ("", "replicationcontrollers"): _pods("replicationcontroller-controller"),
    ("", "persistentvolumeclaims"): (Part("persistentvolume-binder-controller", "it is bound to no volume"),),
    ("", "resourcequotas"): (Part("resourcequota-controller", "nothing is counted"),),
    ("apps", "deployments"): (Part("deployment-controller", "no ReplicaSets and no pods are made of it"),),
    ("apps", "replicasets"): _pods("replicaset-controller"),
    ("apps", "statefulsets"): _pods("statefulset-controller"),
    ("apps", "daemonsets"): _pods("daemonset-controller"),
    ("autoscaling", "horizontalpodautoscalers"): (Part("horizontal-pod-autoscaler-controller", "nothing is scaled"),),
    ("batch", "jobs"): _pods("job-controller"),
    ("batch", "cronjobs"): (Part("cronjob-controller", "no Jobs are made of its template"),),
    ("policy", "poddisruptionbudgets"): (
        Part("disruption-controller", "its status is not kept, and evictions follow what is written there"),
    ),
    ("certificates.k8s.io", "certificatesigningrequests"): (
        Part("certificatesigningrequest-signing-controller", "it is not signed", _of_kubernetes),
    ),
    ("storage.k8s.io", "volumeattachments"): (
        Part("persistentvolume-attach-detach-controller", "nothing is attached"),
    ),
    ("resource.k8s.io", "resourceclaimtemplates"): (
        Part("resourceclaim-controller", "pods that name it get no claims"),
    ),
    ("resource.k8s.io", "devicetaintrules"): (
        Part("device-taint-eviction-controller", "no pods are evicted, and its status stays empty"),
    ),
    ("resource.k8s.io", "resourcepoolstatusrequests"): (
        Part("resourcepoolstatusrequest-controller", "it is not answered"),
    ),
    ("scheduling.k8s.io", "podgroups"): (Part("scheduler", "its pods are bound to no nodes"),),
}


def unattended(running: Collection[str]) -> Mapping[tuple[str, str], Judge]:
    """Who judges new objects, by group and resource, where these components run."""
    missing = {
        key: lacking
        for key, parts in PARTS.items()
        if (lacking := [part for part in parts if part.component not in running])
    }
    return {key: _judge(lacking) for key, lacking in missing.items()}


def _judge(lacking: list[Part]) -> Judge:
    def judge(obj: Json) -> list[str]:
        owners = obj.get("metadata", {}).get("ownerReferences", ())
        return [] if any(owner.get("controller") for owner in owners) else list(said(obj))

    def said(obj: Json) -> Iterator[str]:
        for part in lacking:
            if part.concerns(obj):
                why = "kubedra has none" if part.component in UNBUILT else "see --controllers"
                yield f"this server runs no {part.component} ({why}): the object is kept, but {part.undone}"

    return judge
