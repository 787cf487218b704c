"""Validate security contexts of pods and containers. The types define the rules of single fields.

Facts: pkg/apis/core/validation, validatePodSpecSecurityContext and ValidateSecurityContext. `env` are the facts about
the pod (`PodFacts`).
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, duplicate, invalid, not_supported, required
from apiserver.api.schema.markers import Invalid, equals, knows
from apiserver.api.types.core.security import (
    AppArmorProfile,
    SeccompProfile,
    SecurityContext,
    Sysctl,
)
from apiserver.api.validation.compile import At
from apiserver.api.validation.formats import FORMATS
from apiserver.api.validation.internal_values import internal
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.pods.systems import windows_options

__all__ = ["CONTAINER_SECURITY", "POD_SECURITY"]


#: Namespaced kernel parameters. Those of the host cannot be set.
_OWN_SYSCTLS: Final = (
    ("net.", "hostNetwork"),
    ("kernel.shm", "hostIPC"),
    ("kernel.msg", "hostIPC"),
    ("kernel.sem", "hostIPC"),
    ("fs.mqueue.", "hostIPC"),
)


def _shared_processes(at: At) -> list[FieldError]:
    spec = at.env.spec
    if not (spec.get("shareProcessNamespace") and spec.get("hostPID")):
        return []
    detail = "ShareProcessNamespace and HostPID cannot both be enabled"
    return [invalid(at.path / "shareProcessNamespace", True, detail)]


def _sysctls(at: At) -> list[FieldError]:
    """Validate kernel parameters: unique, and none of a namespace that the pod shares with the host."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(at.value.get("sysctls") or ()):
        here, name = RULES.of(Sysctl).at((at.path / "sysctls")[index], sysctl), sysctl.get("name", "")
        wrong, path = here.field("name"), here.path / "name"
        errors += wrong
        if not wrong and name in seen:
            errors.append(duplicate(path, name))
        host = next(
            (
                field
                for prefix, field in _OWN_SYSCTLS
                if name.replace("/", ".").startswith(prefix) and at.env.spec.get(field)
            ),
            "",
        )
        if host:
            errors.append(invalid(path, name, f"may not be specified when '{host}' is true"))
        seen.add(name)
    return errors


def _seccomp(at: At) -> list[FieldError]:
    """Require the profile's file for type Localhost, and reject it for other types."""
    kind, file, path = at.value.get("type", ""), at.value.get("localhostProfile"), at.path / "localhostProfile"
    if kind == "Localhost":
        if file is None:
            return [required(path, "must be set when seccomp type is Localhost")]
        return FORMATS["relative-path"].errors(path, file)
    if file is None:
        return []
    return [invalid(path, internal(SeccompProfile, at.value), "can only be set when seccomp type is Localhost")]


def _app_armor(at: At) -> list[FieldError]:
    if errors := at.field("type"):
        return errors
    name, path = at.value.get("localhostProfile"), at.path / "localhostProfile"
    if at.value["type"] != "Localhost":
        return [] if name is None else [invalid(path, name, "can only be set when AppArmor type is Localhost")]
    if name is None:
        return [required(path, "must be set when AppArmor type is Localhost")]
    if name.strip() != name:
        errors.append(invalid(path, name, "must not be padded with whitespace"))
    elif not name:
        errors.append(required(path, "must be set when AppArmor type is Localhost"))
    return errors + at.field("localhostProfile")


def _selinux_policy(at: At) -> list[FieldError]:
    policy = at.value.get("seLinuxChangePolicy")
    known = ["MountOption", "Recursive"] if at.env.gates.mounts_labels else ["Recursive"]
    wrong = policy is not None and policy not in known
    return [not_supported(at.path / "seLinuxChangePolicy", policy, known)] if wrong else []


def _escalation(at: At) -> list[FieldError]:
    """Reject privileges beside a forbidden privilege escalation."""
    if at.value.get("allowPrivilegeEscalation") is not False:
        return []
    shown, prefix = internal(SecurityContext, at.value), "cannot set `allowPrivilegeEscalation` to false and"
    errors = [invalid(at.path, shown, f"{prefix} `privileged` to true")] if at.value.get("privileged") else []
    added = (at.value.get("capabilities") or {}).get("add") or ()
    return errors + [
        invalid(at.path, shown, f"{prefix} `capabilities.Add` CAP_SYS_ADMIN")
        for capability in added
        if capability == "CAP_SYS_ADMIN"
    ]


RULES.set(Sysctl, by_rules=("name",))
RULES.set(SeccompProfile, "type", _seccomp)
RULES.set(AppArmorProfile, _app_armor, by_rules=("type", "localhostProfile"))
_UNMASKED: Final = Invalid(
    "procMount", "`hostUsers` must be false to use `Unmasked`",
    when=(equals("procMount", "Unmasked"), knows(lambda env: env.host_users)),
)  # fmt: skip
#: Rules of both the pod's and the container's security context.
POD_SECURITY: Final = (
    "fsGroup", "runAsUser", "runAsGroup", "supplementalGroups", _shared_processes, _sysctls, "fsGroupChangePolicy",
    "seccompProfile", windows_options, "appArmorProfile", "supplementalGroupsPolicy", _selinux_policy,
)  # fmt: skip
CONTAINER_SECURITY: Final = (
    "runAsUser", "runAsGroup", "procMount", _UNMASKED, "seccompProfile", _escalation, windows_options,
    "appArmorProfile",
)  # fmt: skip
