"""Validate the rules of operating systems, Windows options, and user namespaces of pods.

Facts: pkg/apis/core/validation (validateLinux, validateWindows, validateHostUsers, validateWindowsHostProcessPod,
validateWindowsSecurityContextOptions).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid
from apiserver.api.objects import Json
from apiserver.api.validation.compile import At
from apiserver.api.values.names import dns_subdomain

__all__ = ["host_processes", "host_users", "system_rules", "windows_options"]

Errors = list[FieldError]

_FIELDS: Final = ("initContainers", "containers", "ephemeralContainers")
_NOT_ON_WINDOWS: Final = "cannot be set for a windows pod"
#: Fields of the security context and of the pod, in the order of their errors.
_POD_OF_LINUX: Final = (
    "securityContext.appArmorProfile", "securityContext.seLinuxOptions", "hostUsers", "hostPID", "hostIPC",
    "securityContext.seccompProfile", "securityContext.fsGroup", "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls", "shareProcessNamespace", "securityContext.runAsUser", "securityContext.runAsGroup",
    "securityContext.supplementalGroups", "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
)  # fmt: skip
_CONTAINER_OF_LINUX: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip
#: Fields that count as unset if they are false.
_FLAGS: Final = frozenset({"hostPID", "hostIPC"})
_SPEC_LIMIT: Final = 64 * 1024
_DOMAIN_LIMIT: Final = 256
_USER_LIMIT: Final = 104
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NET_BIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS: Final = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_ODD: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')


def _containers(spec: Json, root: Path) -> Iterator[tuple[Path, Json]]:
    for field in _FIELDS:
        for index, container in enumerate(spec.get(field) or ()):
            yield (root / field)[index], container


def _is_set(holder: Json, field: str) -> bool:
    value = holder.get(field)
    return bool(value) if field in _FLAGS or field == "sysctls" else value is not None


def system_rules(spec: Json, root: Path) -> Errors:
    """Reject fields that the pod's operating system does not support."""
    name = (spec.get("os") or {}).get("name")
    if name == "linux":
        places = [root, *(path for path, _ in _containers(spec, root))]
        holders = [spec, *(container for _, container in _containers(spec, root))]
        return [
            forbidden(path / "securityContext" / "windowsOptions", "windows options cannot be set for a linux pod")
            for path, holder in zip(places, holders, strict=True)
            if (holder.get("securityContext") or {}).get("windowsOptions") is not None
        ]
    return _on_windows(spec, root) if name == "windows" else []


def _on_windows(spec: Json, root: Path) -> Errors:
    errors: Errors = []
    for place in _POD_OF_LINUX:
        section, _, field = place.rpartition(".")
        if _is_set((spec.get(section) or {}) if section else spec, field):
            errors.append(forbidden((root / section if section else root) / field, _NOT_ON_WINDOWS))
    return errors + [
        forbidden(path / "securityContext" / field, _NOT_ON_WINDOWS)
        for path, container in _containers(spec, root)
        for field in _CONTAINER_OF_LINUX
        if (container.get("securityContext") or {}).get(field) is not None
    ]


def host_processes(at: At) -> Errors:
    """Validate host processes: all containers of a pod are host processes, or none."""
    spec, root = at.value, at.path
    wanted = ((spec.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    errors: Errors = []
    found = []
    for path, container in _containers(spec, root):
        own = ((container.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
        if None not in (wanted, own) and wanted is not own:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(wanted).lower()}"
            errors.append(invalid(path / "securityContext" / "windowsOptions" / "hostProcess", own, detail))
        found.append(bool(wanted if own is None else own))
    if not any(found):
        return errors
    if not all(found):
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(root, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(root / "hostNetwork", False, detail))
    return errors


def host_users(at: At) -> Errors:
    """Reject host namespaces for pods in a user namespace. The paths have upstream's spelling."""
    spec, root = at.value, at.path
    if spec.get("hostUsers") is not False:
        return []
    shared = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    return [forbidden(root / shown, "when `hostUsers` is false") for field, shown in shared if spec.get(field)] + [
        forbidden(path / "volumeDevices", "when `hostUsers` is false")
        for path, container in _containers(spec, root)
        if container.get("volumeDevices")
    ]


def windows_options(at: At) -> Errors:
    """Validate the Windows options of a security context."""
    options, path = at.value.get("windowsOptions") or {}, at.path / "windowsOptions"
    errors: Errors = []
    name, account = options.get("gmsaCredentialSpecName"), options.get("gmsaCredentialSpec")
    if name is not None:
        errors += [invalid(path / "gmsaCredentialSpecName", name, text) for text in dns_subdomain(name)]
    if account == "":
        errors.append(invalid(path / "gmsaCredentialSpec", account, "gmsaCredentialSpec cannot be an empty string"))
    elif account is not None and len(account.encode()) > _SPEC_LIMIT:
        errors.append(invalid(path / "gmsaCredentialSpec", account, "gmsaCredentialSpec size must be under 64 KiB"))
    user = options.get("runAsUserName")
    if user is None:
        return errors
    return errors + [invalid(path / "runAsUserName", user, f"runAsUserName{text}") for text in _user_problems(user)]


def _user_problems(name: str) -> list[str]:
    if not name:
        return [" cannot be an empty string"]
    if _CONTROL.search(name):
        return [" cannot contain control characters"]
    if name.count("\\") > 1:
        return [" cannot contain more than one backslash"]
    domain, separator, user = name.rpartition("\\")
    problems: list[str] = []
    if len(domain.encode()) >= _DOMAIN_LIMIT:
        problems.append("'s Domain length must be under 256 characters")
    if separator and not (_NET_BIOS.fullmatch(domain) or _DNS.fullmatch(domain)):
        problems.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        problems.append("'s User cannot be empty")
    elif len(user.encode()) > _USER_LIMIT:
        problems.append("'s User length must not be longer than 104 characters")
    if user and not user.strip(". "):
        problems.append("'s User cannot contain only periods or spaces")
    if _ODD.search(user):
        problems.append("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return problems
