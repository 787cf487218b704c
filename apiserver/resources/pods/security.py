"""Security contexts of pods and of their containers (pkg/apis/core/validation, validatePodSpecSecurityContext and
ValidateSecurityContext).
"""

from __future__ import annotations

import re
from typing import Any, Final

from apiserver.api.fielderrors import FieldError, Named, Path, duplicate, invalid, not_supported, required, too_long
from apiserver.api.internal import internal
from apiserver.api.types.core.security import SeccompProfile, SecurityContext
from apiserver.resources.pods.mounts import descending

__all__ = ["validate_container_security", "validate_pod_security"]

Json = dict[str, Any]

_MAX_ID: Final = 2147483647
_ID_RANGE: Final = f"must be between 0 and {_MAX_ID}, inclusive"
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_PATH_LENGTH: Final = 4095
_SYSCTL_LENGTH: Final = 253
_SYSCTL: Final = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_SYSCTL_PATTERN: Final = re.compile(_SYSCTL, re.ASCII)
#: Kernel parameters of the pod's own namespaces: those of the host cannot be set.
_OWN_SYSCTLS: Final = (
    ("net.", "hostNetwork"),
    ("kernel.shm", "hostIPC"),
    ("kernel.msg", "hostIPC"),
    ("kernel.sem", "hostIPC"),
    ("fs.mqueue.", "hostIPC"),
)
#: Policies by field, with what they may be (MountOption of seLinuxChangePolicy has a gate that no release turns on).
_POLICIES: Final = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("Recursive",),
}


def _id(path: Path, value: int | None) -> list[FieldError]:
    return [] if value is None or 0 <= value <= _MAX_ID else [invalid(path, value, _ID_RANGE)]


def validate_pod_security(path: Path, context: Json, spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        errors += _id(path / field, context.get(field))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        errors += _id((path / "supplementalGroups")[index], group)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        errors.append(
            invalid(path / "shareProcessNamespace", True, "ShareProcessNamespace and HostPID cannot both be enabled")
        )
    errors += _sysctls(path / "sysctls", context.get("sysctls") or [], spec)
    errors += _policy(path, context, "fsGroupChangePolicy") + _seccomp(
        path / "seccompProfile", context.get("seccompProfile")
    )
    errors += _app_armor(path / "appArmorProfile", context.get("appArmorProfile"))
    return errors + _policy(path, context, "supplementalGroupsPolicy") + _policy(path, context, "seLinuxChangePolicy")


def _policy(path: Path, context: Json, field: str) -> list[FieldError]:
    policy = context.get(field)
    return (
        []
        if policy is None or policy in _POLICIES[field]
        else [not_supported(path / field, Named(policy), _POLICIES[field])]
    )


def _sysctls(path: Path, sysctls: list[Json], spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        at, name = path[index] / "name", sysctl.get("name", "")
        if not name:
            errors.append(required(at))
        elif len(name) > _SYSCTL_LENGTH or not _SYSCTL_PATTERN.match(name):
            errors.append(invalid(at, name, f"must have at most {_SYSCTL_LENGTH} characters and match regex {_SYSCTL}"))
        elif name in seen:
            errors.append(duplicate(at, name))
        host = next(
            (field for prefix, field in _OWN_SYSCTLS if name.replace("/", ".").startswith(prefix) and spec.get(field)),
            "",
        )
        if host:
            errors.append(invalid(at, name, f"may not be specified when '{host}' is true"))
        seen.add(name)
    return errors


def _seccomp(path: Path, profile: Json | None) -> list[FieldError]:
    if profile is None:
        return []
    kind, file = profile.get("type", ""), profile.get("localhostProfile")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(path / "type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(not_supported(path / "type", Named(kind), _PROFILES))
    at = path / "localhostProfile"
    if kind == "Localhost":
        return errors + (
            descending(at, file) if file is not None else [required(at, "must be set when seccomp type is Localhost")]
        )
    return (
        errors
        if file is None
        else [*errors, invalid(at, internal(SeccompProfile, profile), "can only be set when seccomp type is Localhost")]
    )


def _app_armor(path: Path, profile: Json | None) -> list[FieldError]:
    if profile is None:
        return []
    kind, name, at = profile.get("type", ""), profile.get("localhostProfile"), path / "localhostProfile"
    if not kind:
        return [required(path / "type", "type is required when appArmorProfile is set")]
    if kind not in _PROFILES:
        return [not_supported(path / "type", Named(kind), _PROFILES)]
    if kind != "Localhost":
        return [] if name is None else [invalid(at, name, "can only be set when AppArmor type is Localhost")]
    if name is None:
        return [required(at, "must be set when AppArmor type is Localhost")]
    errors: list[FieldError] = []
    if name.strip() != name:
        errors.append(invalid(at, name, "must not be padded with whitespace"))
    elif not name:
        errors.append(required(at, "must be set when AppArmor type is Localhost"))
    return [*errors, too_long(at, _PATH_LENGTH)] if len(name.encode()) > _PATH_LENGTH else errors


def validate_container_security(path: Path, context: Json, *, host_users: bool) -> list[FieldError]:
    """`host_users`: the pod has no user namespace of its own."""
    errors = _id(path / "runAsUser", context.get("runAsUser")) + _id(path / "runAsGroup", context.get("runAsGroup"))
    mount = context.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        errors.append(not_supported(path / "procMount", Named(mount), ("Default", "Unmasked")))
    if mount == "Unmasked" and host_users:
        errors.append(invalid(path / "procMount", Named(mount), "`hostUsers` must be false to use `Unmasked`"))
    errors += _seccomp(path / "seccompProfile", context.get("seccompProfile"))
    if context.get("allowPrivilegeEscalation") is False:
        shown = internal(SecurityContext, context)
        if context.get("privileged"):
            errors.append(
                invalid(path, shown, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
            )
        for capability in (context.get("capabilities") or {}).get("add") or ():
            if capability == "CAP_SYS_ADMIN":
                errors.append(
                    invalid(
                        path,
                        shown,
                        "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
                    )
                )
    return errors + _app_armor(path / "appArmorProfile", context.get("appArmorProfile"))
