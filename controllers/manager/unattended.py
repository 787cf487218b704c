"""Warnings about objects that have no effect, because the part that acts on them is missing or switched off.

A part is a component, an admission plugin or a feature gate of its code. A server with components returns the warnings
as Warning headers: about a missing component to the client that creates the object, because the component may start
later, and about a plugin or gate to each client that writes it. Objects with a controlling owner get no warning.
`kubedra serve` without components returns none: separate controllers are expected to act.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from apiserver.api.features.gates import GATES, RELEASES, Features
from apiserver.api.objects import Json
from controllers.options.names import UNSUPPORTED

#: Returns the warnings about an object, given whether it is new.
WarningSource = Callable[[Json, bool], list[str]]


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one part on the objects of a kind."""

    #: The component; "" if only the gates or the plugin decide.
    component: str
    #: The consequence of the part not acting.
    consequence: str
    #: True for objects that need the part.
    is_needed: Callable[[Json], bool] = lambda obj: True
    #: The gates without which the part ignores the objects.
    gates: tuple[str, ...] = ()
    #: The admission plugin that acts.
    plugin: str = ""


def _is_unbound(pod: Json) -> bool:
    return not pod.get("spec", {}).get("nodeName")


def _has_selector(service: Json) -> bool:
    return bool(service.get("spec", {}).get("selector"))


def _is_kubernetes_signer(request: Json) -> bool:
    return str(request.get("spec", {}).get("signerName", "")).startswith("kubernetes.io/")


def _is_gang(group: Json) -> bool:
    return "gang" in (group.get("spec", {}).get("schedulingPolicy") or {})


def _pods(component: str) -> tuple[Effect, ...]:
    return (Effect(component, "no pods are created from its template"),)


_DRA: Final = ("DynamicResourceAllocation",)
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
    ("", "resourcequotas"): (
        Effect("resourcequota-controller", "usage is not counted"),
        Effect("", "it limits nothing", plugin="ResourceQuota"),
    ),
    ("", "limitranges"): (Effect("", "it limits nothing", plugin="LimitRanger"),),
    **{
        ("admissionregistration.k8s.io", plural): (Effect("", f"nothing is {verb}", gates=gates, plugin=plugin),)
        for plugin, verb, gates, plurals in (
            ("ValidatingAdmissionWebhook", "validated", (), ("validatingwebhookconfigurations",)),
            ("MutatingAdmissionWebhook", "changed", (), ("mutatingwebhookconfigurations",)),
            (
                "ValidatingAdmissionPolicy",
                "validated",
                (),
                ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
            ),
            (
                "MutatingAdmissionPolicy",
                "changed",
                ("MutatingAdmissionPolicy",),
                ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
            ),
        )
        for plural in plurals
    },
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
    ("certificates.k8s.io", "clustertrustbundles"): (
        Effect("", "pods cannot mount it", gates=("ClusterTrustBundleProjection",)),
    ),
    ("coordination.k8s.io", "leasecandidates"): (
        Effect("", "no leader is elected", gates=("CoordinatedLeaderElection",)),
    ),
    ("storage.k8s.io", "volumeattributesclasses"): (
        Effect("", "no volume gets its parameters", gates=("VolumeAttributesClass",)),
    ),
    ("storage.k8s.io", "volumeattachments"): (
        Effect("persistentvolume-attach-detach-controller", "nothing is attached"),
    ),
    ("resource.k8s.io", "deviceclasses"): (Effect("", "no claim can use it", gates=_DRA),),
    ("resource.k8s.io", "resourceslices"): (Effect("", "its devices are not allocated", gates=_DRA),),
    ("resource.k8s.io", "resourceclaims"): (Effect("", "it gets no devices", gates=_DRA),),
    ("resource.k8s.io", "resourceclaimtemplates"): (
        Effect("resourceclaim-controller", "pods that reference it get no claims", gates=_DRA),
    ),
    ("resource.k8s.io", "devicetaintrules"): (
        Effect("device-taint-eviction-controller", "no pods are evicted, and its status stays empty"),
        Effect(
            "", "its taint is ignored: its devices stay usable, and no pods are evicted",
            gates=(*_DRA, "DRADeviceTaints", "DRADeviceTaintRules"),
        ),
    ),
    ("resource.k8s.io", "resourcepoolstatusrequests"): (
        Effect("resourcepoolstatusrequest-controller", "its status is not set", gates=("DRAResourcePoolStatus",)),
    ),
    ("scheduling.k8s.io", "podgroups"): (
        Effect("scheduler", "its pods are not scheduled"),
        Effect("", "its pods are scheduled one by one", _is_gang, gates=("GangScheduling",)),
    ),
}  # fmt: skip


def unattended(
    running: Collection[str], features: Features | None = None, plugins: Collection[str] | None = None
) -> Mapping[tuple[str, str], WarningSource]:
    """Return the warning functions by group and resource.

    Args:
        running: The running components.
        features: The gates of the server and its components, by default those of the newest release.
        plugins: The enabled admission plugins; None if all are.
    """
    gates = features or Features()
    missing = {
        key: lacking
        for key, parts in PARTS.items()
        if (lacking := [(part, cause) for part in parts for cause in _causes(part, running, gates, plugins)])
    }
    return {key: _warning_source(lacking) for key, lacking in missing.items()}


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason for which a part does not act. `lasting` if it holds as long as the server runs."""

    text: str
    lasting: bool = True


def _causes(
    effect: Effect, running: Collection[str], features: Features, plugins: Collection[str] | None
) -> Iterator[Cause]:
    if effect.plugin and plugins is not None and effect.plugin not in plugins:
        yield Cause(f"admission plugin {effect.plugin} is disabled (with --disable-admission-plugins)")
    if effect.component and effect.component not in running:
        fix = "not part of kubedra" if effect.component in UNSUPPORTED else "enable it with --controllers"
        yield Cause(f"{effect.component} does not run on this server ({fix})", lasting=False)
    off = [gate for gate in effect.gates if not features.enabled(gate)]
    if not off:
        return
    newer = [gate for gate in off if GATES[gate].at(features.release) is None]
    if newer:
        first = next(release for release in RELEASES if all(GATES[gate].at(release) for gate in newer))
        names, release = ", ".join(newer), ".".join(map(str, features.release))
        yield Cause(
            f"release {release} has no feature gate {names} (emulate {first[0]}.{first[1]} or newer and enable it)"
        )
    else:
        settings = ",".join(f"{gate}=true" for gate in off)
        yield Cause(f"feature gate {', '.join(off)} is off (enable it with --feature-gates={settings})")


def _warning_source(lacking: list[tuple[Effect, Cause]]) -> WarningSource:
    def warn(obj: Json, is_new: bool) -> list[str]:
        owners = obj.get("metadata", {}).get("ownerReferences", ())
        if any(owner.get("controller") for owner in owners):
            return []
        return [
            f"{cause.text}: the object is stored, but {part.consequence}"
            for part, cause in lacking
            if (is_new or cause.lasting) and part.is_needed(obj)
        ]

    return warn
