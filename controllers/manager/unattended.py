"""Warnings about new objects whose component does not run.

A server with components returns them as a Warning header to the creating client. Objects with a controlling owner get
no warning. `kubedra serve` without components returns none: separate controllers are expected to act.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from apiserver.api.objects import Json
from controllers.options.names import UNSUPPORTED

#: Returns the warnings about a new object.
WarningSource = Callable[[Json], list[str]]


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one component on the objects of a kind."""

    component: str
    #: The consequence of the component not running.
    consequence: str
    #: True for objects that need the component.
    is_needed: Callable[[Json], bool] = lambda obj: True


def _is_unbound(pod: Json) -> bool:
    return not pod.get("spec", {}).get("nodeName")


def _has_selector(service: Json) -> bool:
    return bool(service.get("spec", {}).get("selector"))


def _is_kubernetes_signer(request: Json) -> bool:
    return str(request.get("spec", {}).get("signerName", "")).startswith("kubernetes.io/")


def _pods(component: str) -> tuple[Effect, ...]:
    return (Effect(component, "no pods are created from its template"),)


#: By group and resource.
PARTS: Final[Mapping[tuple[str, str], tuple[Effect, ...]]] = {
    ("", "pods"): (
        Effect("scheduler", "it is not scheduled", _is_unbound),
        Effect("node-agent", "it does not start"),
    ),
    ("", "services"): (
        Effect("endpointslice-controller", "no EndpointSlices are created for its selector", _has_selector),
        Effect("endpoints-controller", "no Endpoints are created for its selector", _has_selector),
    ),
    ("", "replicationcontrollers"): _pods("replicationcontroller-controller"),
    ("", "persistentvolumeclaims"): (Effect("persistentvolume-binder-controller", "it is not bound to a volume"),),
    ("", "resourcequotas"): (Effect("resourcequota-controller", "usage is not counted"),),
    ("apps", "deployments"): (Effect("deployment-controller", "no ReplicaSets and no pods are created for it"),),
    ("apps", "replicasets"): _pods("replicaset-controller"),
    ("apps", "statefulsets"): _pods("statefulset-controller"),
    ("apps", "daemonsets"): _pods("daemonset-controller"),
    ("autoscaling", "horizontalpodautoscalers"): (Effect("horizontal-pod-autoscaler-controller", "nothing is scaled"),),
    ("batch", "jobs"): _pods("job-controller"),
    ("batch", "cronjobs"): (Effect("cronjob-controller", "no Jobs are created from its template"),),
    ("policy", "poddisruptionbudgets"): (
        Effect("disruption-controller", "its status is not updated, and evictions rely on it"),
    ),
    ("certificates.k8s.io", "certificatesigningrequests"): (
        Effect("certificatesigningrequest-signing-controller", "it is not signed", _is_kubernetes_signer),
    ),
    ("storage.k8s.io", "volumeattachments"): (
        Effect("persistentvolume-attach-detach-controller", "nothing is attached"),
    ),
    ("resource.k8s.io", "resourceclaimtemplates"): (
        Effect("resourceclaim-controller", "pods that reference it get no claims"),
    ),
    ("resource.k8s.io", "devicetaintrules"): (
        Effect("device-taint-eviction-controller", "no pods are evicted, and its status stays empty"),
    ),
    ("resource.k8s.io", "resourcepoolstatusrequests"): (
        Effect("resourcepoolstatusrequest-controller", "its status is not set"),
    ),
    ("scheduling.k8s.io", "podgroups"): (Effect("scheduler", "its pods are not scheduled"),),
}


def unattended(running: Collection[str]) -> Mapping[tuple[str, str], WarningSource]:
    """Return the warning functions by group and resource, given the running components."""
    missing = {
        key: lacking
        for key, parts in PARTS.items()
        if (lacking := [part for part in parts if part.component not in running])
    }
    return {key: _warning_source(lacking) for key, lacking in missing.items()}


def _warning_source(lacking: list[Effect]) -> WarningSource:
    def warn(obj: Json) -> list[str]:
        owners = obj.get("metadata", {}).get("ownerReferences", ())
        return [] if any(owner.get("controller") for owner in owners) else list(warnings(obj))

    def warnings(obj: Json) -> Iterator[str]:
        for part in lacking:
            if part.is_needed(obj):
                fix = "not part of kubedra" if part.component in UNSUPPORTED else "enable it with --controllers"
                missing = f"{part.component} does not run on this server ({fix})"
                yield f"{missing}: the object is stored, but {part.consequence}"

    return warn
