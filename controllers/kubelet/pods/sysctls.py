"""The sysctls that a pod may set on a node. Facts: upstream's pkg/kubelet/sysctl."""

from __future__ import annotations

from typing import Final

from apiserver.api.objects import Json
from controllers.kubelet.emulation.annotations import UNSAFE_SYSCTLS, parse_list

#: Namespaced sysctls without effect on other pods of the node.
_SAFE: Final = frozenset({
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
})  # fmt: skip
_SWAPPED: Final = str.maketrans("./", "/.")


def find_forbidden(pod: Json, node: Json) -> str | None:
    """Return an error for the first sysctl that the node does not allow, or None."""
    wanted = (pod["spec"].get("securityContext") or {}).get("sysctls")
    if not wanted:
        return None
    allowed = [_normalize(name) for name, _ in parse_list(node, UNSAFE_SYSCTLS)]
    for name in (_normalize(sysctl["name"]) for sysctl in wanted):
        if name not in _SAFE and not any(_covers(pattern, name) for pattern in allowed):
            return f'forbidden sysctl: "{name}" not allowlisted'
    return None


def _covers(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _normalize(name: str) -> str:
    """Normalize a sysctl name: if its first separator is a slash, dots and slashes are swapped."""
    first = next((sign for sign in name if sign in "./"), ".")
    return name.translate(_SWAPPED) if first == "/" else name
