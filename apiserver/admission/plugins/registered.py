"""All of upstream's admission plugins by name in upstream's order, and the implemented ones.

`build` makes a chain from the names of --enable-admission-plugins and --disable-admission-plugins: upstream's default
set, plus those enabled, minus those disabled. Names are kube-apiserver's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.admission.plugins.always_pull_images import AlwaysPullImages
from apiserver.admission.plugins.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
)
from apiserver.admission.plugins.default_ingress_class import DefaultIngressClass
from apiserver.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from apiserver.admission.plugins.event_rate_limit import EventRateLimit
from apiserver.admission.plugins.job_validation import JobValidation
from apiserver.admission.plugins.limit_ranger import LimitRanger
from apiserver.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.plugins.node_restriction import NodeRestriction
from apiserver.admission.plugins.pod_groups import PodGroupProtection, PodGroupWorkloadExists
from apiserver.admission.plugins.pod_resize import NodeDeclaredFeatureValidator, PodResizeValidator
from apiserver.admission.plugins.pod_topology_labels import PodTopologyLabels
from apiserver.admission.plugins.priority import Priority
from apiserver.admission.plugins.resource_quota import ResourceQuota
from apiserver.admission.plugins.runtime_class import RuntimeClass
from apiserver.admission.plugins.service_accounts import ServiceAccount
from apiserver.admission.plugins.storage_classes import DefaultStorageClass, PersistentVolumeClaimResize
from apiserver.admission.plugins.storage_objects import StorageObjectInUseProtection
from apiserver.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from apiserver.admission.podsecurity import PodSecurity
from apiserver.admission.policies.mutating_policy import MutatingAdmissionPolicy
from apiserver.admission.policies.validating_policy import ValidatingAdmissionPolicy
from apiserver.admission.webhooks.mutating import MutatingAdmissionWebhook
from apiserver.admission.webhooks.validating import ValidatingAdmissionWebhook
from apiserver.registry.store.admission import Chain, Plugin

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry

__all__ = ["BUILT", "DEFAULT_ON", "ORDER", "Make", "PluginSelection", "build", "select"]

#: All of upstream's plugins, in the order of their calls.
ORDER: Final = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)

DEFAULT_ON: Final = frozenset(
    {
        "NamespaceLifecycle",
        "LimitRanger",
        "ServiceAccount",
        "DefaultStorageClass",
        "PersistentVolumeClaimResize",
        "DefaultTolerationSeconds",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
        "StorageObjectInUseProtection",
        "PodGroupProtection",
        "Priority",
        "TaintNodesByCondition",
        "RuntimeClass",
        "CertificateApproval",
        "CertificateSigning",
        "ClusterTrustBundleAttest",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "PodSecurity",
        "PodTopologyLabels",
        "MutatingAdmissionPolicy",
        "ValidatingAdmissionPolicy",
        "PodGroupWorkloadExists",
        "NodeDeclaredFeatureValidator",
        "JobValidation",
        "PodResizeValidator",
    }
)

#: Builds a plugin for the server's registry before it has any stores.
Make = Callable[["Registry"], Plugin]


def _by_context(plugin: type[Plugin]) -> Make:
    return lambda registry: plugin()


#: The plugins that read only the context of a request.
_BY_CONTEXT: Final[tuple[type[Plugin], ...]] = (
    NamespaceLifecycle, LimitRanger, ServiceAccount, NodeRestriction, TaintNodesByCondition, AlwaysPullImages, Priority,
    DefaultTolerationSeconds, EventRateLimit, DefaultStorageClass, StorageObjectInUseProtection,
    PersistentVolumeClaimResize, PodGroupProtection, RuntimeClass, CertificateApproval, CertificateSigning,
    ClusterTrustBundleAttest, CertificateSubjectRestriction, DefaultIngressClass, PodTopologyLabels,
    PodGroupWorkloadExists, NodeDeclaredFeatureValidator, JobValidation, PodResizeValidator, ResourceQuota,
)  # fmt: skip

BUILT: Final[Mapping[str, Make]] = {
    **{plugin.name: _by_context(plugin) for plugin in _BY_CONTEXT},
    "PodSecurity": PodSecurity,
    "MutatingAdmissionPolicy": MutatingAdmissionPolicy,
    "ValidatingAdmissionPolicy": ValidatingAdmissionPolicy,
    "MutatingAdmissionWebhook": MutatingAdmissionWebhook,
    "ValidatingAdmissionWebhook": ValidatingAdmissionWebhook,
}


class PluginSelection(NamedTuple):
    """The enabled plugins, and the problems of the selection.

    `missing` are the explicitly enabled plugins that are not implemented. `unknown` are names that upstream does not
    have.
    """

    on: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]


def select(enable: Iterable[str] = (), disable: Iterable[str] = ()) -> PluginSelection:
    """Select the plugins that the two flags enable.

    A plugin that is both enabled and disabled is upstream's error: see `conflicting`.
    """
    enabled, disabled = list(enable), set(disable)
    on = (DEFAULT_ON | set(enabled)) - disabled
    unknown = [name for name in (*enabled, *sorted(disabled)) if name not in ORDER]
    missing = [name for name in enabled if name in ORDER and name not in BUILT and name not in disabled]
    return PluginSelection(
        tuple(name for name in ORDER if name in on), tuple(dict.fromkeys(missing)), tuple(dict.fromkeys(unknown))
    )


def conflicting(enable: Iterable[str], disable: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are in both flags."""
    disabled = set(disable)
    return tuple(name for name in dict.fromkeys(enable) if name in disabled)


def build(
    registry: Registry,
    *,
    enable: Iterable[str] = (),
    disable: Iterable[str] = (),
    configured: Mapping[str, Make] | None = None,
) -> Chain:
    """Build the chain of the enabled and implemented plugins. `configured` builds those with a configuration."""
    made = {**BUILT, **(configured or {})}
    return Chain(made[name](registry) for name in select(enable, disable).on if name in BUILT)
