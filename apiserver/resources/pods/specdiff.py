"""Format forbidden updates in errors: a unified diff of both specs as JSON of upstream's internal type."""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json
from apiserver.api.types.core.pods import PodSpec
from apiserver.api.types.meta import ObjectMeta
from apiserver.api.validation.internal_values import internal, shown_diff

__all__ = ["internal_spec", "internal_template", "spec_diff"]


#: Fields that begin the security context in the internal type.
_MOVED: Final = ("HostNetwork", "HostPID", "HostIPC", "ShareProcessNamespace", "HostUsers")
#: The field order of the internal type, where it differs.
_ORDER: Final = (
    "Hostname",
    "Subdomain",
    "SetHostnameAsFQDN",
    "Affinity",
    "SchedulerName",
    "Tolerations",
    "HostAliases",
    "PriorityClassName",
    "Priority",
    "PreemptionPolicy",
    "DNSConfig",
    "ReadinessGates",
    "RuntimeClassName",
    "Overhead",
    "EnableServiceLinks",
    "TopologySpreadConstraints",
)
_ALIAS: Final = "ServiceAccount"


def internal_spec(spec: Json) -> Json:
    """Convert a pod's spec to the internal type for errors."""
    shown: Json = internal(PodSpec, spec)
    shown.pop(_ALIAS, None)
    moved = {name: shown.pop(name, None) for name in _MOVED}
    if shown.get("SecurityContext") is not None:
        shown["SecurityContext"] = {**moved, **shown["SecurityContext"]}
    names = list(shown)
    start = names.index(_ORDER[0])
    rest = [name for name in names if name not in _ORDER]
    before = [name for name in names[:start] if name not in _ORDER]
    return {name: shown[name] for name in (*before, *_ORDER, *rest[len(before) :])}


def internal_template(template: Json) -> Json:
    """Convert a pod template to the internal type for errors. Metadata is inlined beside the spec."""
    return {**internal(ObjectMeta, template.get("metadata")), "Spec": internal_spec(template["spec"])}


def spec_diff(old: Json, new: Json) -> str:
    """Apply `shown_diff` to two pod specs."""
    return shown_diff(internal_spec(old), internal_spec(new))
