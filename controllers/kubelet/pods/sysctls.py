"""Which kernel parameters a pod may set on a node. Facts: upstream's pkg/kubelet/sysctl."""

from __future__ import annotations

from typing import Any, Final

from controllers.kubelet.emulation.annotations import UNSAFE_SYSCTLS, listed

Json = dict[str, Any]
#: They belong to the pod alone, and no other pod of the node feels them.
_SAFE: Final = frozenset({
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
})  # fmt: skip
_SWAPPED: Final = str.maketrans("./", "/.")


def forbidden(pod: Json, node: Json) -> str | None:
    """The first parameter that the pod sets and the node does not allow, said for people."""
    wanted = (pod["spec"].get("securityContext") or {}).get("sysctls")
    if not wanted:
        return None
    allowed = [_dotted(name) for name, _ in listed(node, UNSAFE_SYSCTLS)]
    for name in (_dotted(sysctl["name"]) for sysctl in wanted):
        if name not in _SAFE and not any(_covers(pattern, name) for pattern in allowed):
            return f'forbidden sysctl: "{name}" not allowlisted'
    return None


def _covers(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _dotted(name: str) -> str:
    """A name as sysctl writes it: with slashes between its parts, dots and slashes change places."""
    first = next((sign for sign in name if sign in "./"), ".")
    return name.translate(_SWAPPED) if first == "/" else name
