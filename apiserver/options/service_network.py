"""kube-apiserver's flags for the service network."""

from __future__ import annotations

import argparse
import ipaddress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["NetworkSettings", "add_flags", "read_network"]

_MOST_IPV6 = 64
#: Ten years, in seconds.
_FOR_EVER = 315360000.0


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Network settings.

    `cidrs` is one address range, or one of each family. `ports` are the first and the last node port. `advertise` is
    the address in the Endpoints of the service `kubernetes`. `proxy_client` are the certificate and the key presented
    to aggregated API servers. `transport_security` is the Strict-Transport-Security header of every response, "" for
    none. `watch_seconds` is the minimal duration of watches without a timeout.
    """

    cidrs: tuple[str, ...] = ("10.0.0.0/24",)
    ports: tuple[int, int] = (30000, 32767)
    advertise: str = ""
    proxy_client: tuple[Path, Path] | None = None
    transport_security: str = ""
    watch_seconds: float = 1800.0


def add_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--service-cluster-ip-range", default="10.0.0.0/24", metavar="CIDR,…",
        help="cluster IP range of services, or one range per IP family (default 10.0.0.0/24)",
    )  # fmt: skip
    group.add_argument(
        "--service-node-port-range", default="30000-32767", metavar="FIRST-LAST",
        help="node port range of services (default 30000-32767)",
    )  # fmt: skip
    group.add_argument(
        "--advertise-address", default="", metavar="IP",
        help="endpoint of the service kubernetes (default: the bind address; for a loopback bind address the unused"
        " 192.0.2.1)",
    )  # fmt: skip
    group.add_argument(
        "--strict-transport-security-directives", action="append", default=[], metavar="max-age=N,…",
        help="Strict-Transport-Security header of every response: max-age=SECONDS, includeSubDomains, preload",
    )  # fmt: skip
    group.add_argument(
        "--min-request-timeout", type=int, default=1800, metavar="SECONDS",
        help="default watch timeout, randomized between 1× and 2× (default 1800)",
    )  # fmt: skip
    for name, text in (("cert", "client certificate for aggregated API servers"), ("key", "its private key")):
        group.add_argument(f"--proxy-client-{name}-file", type=Path, metavar="FILE", help=text)


def read_network(args: argparse.Namespace) -> NetworkSettings:
    """Parse the network flags. Raise ValueError naming the bad flag, in one line."""
    advertise = args.advertise_address
    if advertise:
        try:
            ipaddress.ip_address(advertise)
        except ValueError:
            raise ValueError(f"--advertise-address {advertise}: not an IP address") from None
    certificate, key = args.proxy_client_cert_file, args.proxy_client_key_file
    if (certificate is None) != (key is None):
        raise ValueError("--proxy-client-cert-file and --proxy-client-key-file must be set together")
    for flag, file in (("--proxy-client-cert-file", certificate), ("--proxy-client-key-file", key)):
        if file is not None and not file.is_file():
            raise ValueError(f"{flag} {file}: no such file")
    if args.min_request_timeout < 0:
        raise ValueError("--min-request-timeout can not be negative value")
    shown = None if certificate is None or key is None else (certificate, key)
    return NetworkSettings(
        _ranges(args.service_cluster_ip_range), _ports(args.service_node_port_range), advertise, shown,
        _transport_security(args.strict_transport_security_directives),
        float(args.min_request_timeout) or _FOR_EVER,
    )  # fmt: skip


def _transport_security(args: list[str]) -> str:
    flag = "--strict-transport-security-directives"
    directives = [each for text in args for each in text.split(",")]
    for directive in directives:
        name, _, value = directive.partition("=")
        if directive not in ("includeSubDomains", "preload") and (name != "max-age" or "=" in value or not value):
            raise ValueError(f"{flag} {directive}: allowed are max-age=SECONDS, includeSubDomains and preload")
    return "; ".join(directives)


def _ranges(text: str) -> tuple[str, ...]:
    flag = "--service-cluster-ip-range"
    networks = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            networks.append(ipaddress.ip_interface(part).network)
        except ValueError:
            raise ValueError(f"{flag} {part}: not a range in CIDR notation, such as 10.0.0.0/24") from None
    if not networks:
        raise ValueError(f"{flag} must contain at least one valid cidr")
    if len(networks) > 2:
        raise ValueError(f"{flag} must not contain more than two entries")
    if len({network.version for network in networks}) < len(networks):
        raise ValueError(f"{flag}[0] and {flag}[1] must be of different IP family")
    for network in networks:
        if network.version == 6 and network.prefixlen < _MOST_IPV6:
            raise ValueError(f"{flag} {network}: an IPv6 range has a prefix of at least {_MOST_IPV6} bits")
        if network.num_addresses < 4:
            raise ValueError(f"{flag} {network}: the range is too small for services")
    return tuple(map(str, networks))


def _ports(text: str) -> tuple[int, int]:
    flag = f"--service-node-port-range {text}"
    first, dash, last = text.strip().partition("-" if "-" in text else "+")
    if not first.isdigit() or (dash and not last.isdigit()):
        raise ValueError(f"{flag}: not a range of ports, such as 30000-32767 or 30000+2767")
    low = int(first)
    high = low if not dash else int(last) if "-" in text else low + int(last)
    if not 0 < low <= high <= 65535:
        raise ValueError(f"{flag}: ports are between 1 and 65535, the first one not after the last one")
    return low, high
