"""The checks of a level in a version, in upstream's order of findings.

Baseline comes first; each level is sorted by upstream's names of its checks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

from apiserver.admission.podsecurity import baseline, restricted
from apiserver.admission.podsecurity.policies import PRIVILEGED, RESTRICTED, Standard
from apiserver.admission.podsecurity.subjects import Finding, PodToCheck

__all__ = ["NEWEST", "findings"]

Check = Callable[[PodToCheck], Finding | None]


class _Rule(NamedTuple):
    """A check by the minor version since which it applies.

    A later check replaces the earlier one. A restricted rule with `instead` replaces that rule of baseline.
    """

    since: tuple[tuple[int, Check], ...]
    instead: str = ""

    def at(self, version: int) -> Check | None:
        return next((check for minor, check in reversed(self.since) if minor <= version), None)


def _unless_windows(check: Check) -> Check:
    return lambda pod: None if pod.for_windows else check(pod)


def _unless_users_are_own(check: Check) -> Check:
    return lambda pod: None if pod.has_own_users else check(pod)


_TYPES: Final = frozenset({"container_t", "container_init_t", "container_kvm_t"})
_SAFE_0: Final = frozenset(
    {
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
    }
)  # fmt: skip
_SAFE_27: Final = _SAFE_0 | {"net.ipv4.ip_local_reserved_ports"}
_SAFE_29: Final = _SAFE_27 | {
    f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}
_SAFE_32: Final = _SAFE_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}

_BASELINE: Final = {
    "appArmorProfile": _Rule(((0, baseline.app_armor),)),
    "capabilities_baseline": _Rule(((0, baseline.capabilities),)),
    "hostNamespaces": _Rule(((0, baseline.host_namespaces),)),
    "hostPathVolumes": _Rule(((0, baseline.host_path_volumes),)),
    "hostPorts": _Rule(((0, baseline.host_ports),)),
    "hostProbesAndHostLifecycle": _Rule(((34, baseline.hosts_of_probes),)),
    "privileged": _Rule(((0, baseline.privileged),)),
    "procMount": _Rule(((0, baseline.proc_mount), (35, _unless_users_are_own(baseline.proc_mount)))),
    "seLinuxOptions": _Rule(
        ((0, baseline.selinux_options(_TYPES)), (31, baseline.selinux_options(_TYPES | {"container_engine_t"})))
    ),
    "seccompProfile_baseline": _Rule(((0, baseline.seccomp_annotations), (19, baseline.seccomp))),
    "sysctls": _Rule(
        tuple(
            (minor, baseline.sysctls(safe))
            for minor, safe in ((0, _SAFE_0), (27, _SAFE_27), (29, _SAFE_29), (32, _SAFE_32))
        )
    ),
    "windowsHostProcess": _Rule(((0, baseline.host_processes),)),
}
_RESTRICTED: Final = {
    "allowPrivilegeEscalation": _Rule(
        ((8, restricted.allow_privilege_escalation), (25, _unless_windows(restricted.allow_privilege_escalation)))
    ),
    "capabilities_restricted": _Rule(
        ((22, restricted.capabilities), (25, _unless_windows(restricted.capabilities))), "capabilities_baseline"
    ),
    "procMount_restricted": _Rule(((35, baseline.proc_mount),), "procMount"),
    "restrictedVolumes": _Rule(((0, restricted.volumes),), "hostPathVolumes"),
    "runAsNonRoot": _Rule(((0, restricted.run_as_non_root), (35, _unless_users_are_own(restricted.run_as_non_root)))),
    "runAsUser": _Rule(((23, restricted.run_as_user), (35, _unless_users_are_own(restricted.run_as_user)))),
    "seccompProfile_restricted": _Rule(
        ((19, restricted.seccomp), (25, _unless_windows(restricted.seccomp))), "seccompProfile_baseline"
    ),
}
#: The newest minor version that changed a check. Later versions equal it.
NEWEST: Final = max(minor for rule in (*_BASELINE.values(), *_RESTRICTED.values()) for minor, _ in rule.since)


def findings(standard: Standard, pod: PodToCheck, newest: int = NEWEST) -> list[Finding]:
    """Return a pod's violations of a standard, for a server that knows the versions up to `newest`."""
    if standard.level == PRIVILEGED:
        return []
    checks = _checks(standard.level, min(standard.version, newest, NEWEST))
    return [found for check in checks if (found := check(pod)) is not None]


@cache
def _checks(level: str, version: int) -> tuple[Check, ...]:
    rules = [*sorted(_BASELINE.items())]
    if level == RESTRICTED:
        added = [(name, rule) for name, rule in sorted(_RESTRICTED.items()) if rule.at(version) is not None]
        replaced = {rule.instead for _, rule in added}
        rules = [*((name, rule) for name, rule in rules if name not in replaced), *added]
    return tuple(check for _, rule in rules if (check := rule.at(version)) is not None)
