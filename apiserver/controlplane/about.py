"""A server's information about itself: /version, /statusz, /flagz, and its address."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import socket
import sys
from platform import machine, python_version
from typing import Final, NamedTuple

from apiserver.api.features.gates import RELEASES
from apiserver.http.documents.zpages import About
from apiserver.options.settings import Settings
from apiserver.runtime.clock import now

__all__ = ["about_of", "address_of", "go_platform", "keys_address", "own_release", "pages_of", "version_info"]

#: The pages for people, by feature gate.
_GATES: Final = {"ComponentStatusz": "statusz", "ComponentFlagz": "flagz"}


class _Build(NamedTuple):
    """The facts that upstream's binaries of a release report."""

    commit: str
    date: str
    go: str


#: By emulated release: v1.33.2, v1.34.2, v1.35.2 and v1.36.2, as the released binaries print them.
_BUILDS: Final = {
    (1, 33): _Build("a57b6f7709f6c2722b92f07b8b4c48210a51fc40", "2025-06-17T18:39:42Z", "go1.24.4"),
    (1, 34): _Build("8cc511e399b929453cd98ae65b419c3cc227ec79", "2025-11-11T19:08:36Z", "go1.24.9"),
    (1, 35): _Build("fdc9d74cbf2da6754ebf81d56f80ae2948cd6425", "2026-02-26T20:04:53Z", "go1.25.7"),
    (1, 36): _Build("24e2b02af5543d7910c2bb074c7264df5a8f0467", "2026-06-11T18:12:06Z", "go1.26.4"),
}
#: Go's names of architectures, where they differ from the kernel's.
_ARCHITECTURES: Final = {
    "x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386", "armv6l": "arm",
    "armv7l": "arm", "loongarch64": "loong64",
}  # fmt: skip


def own_release() -> str:
    """Return the installed release of kubedra."""
    # Not imported at the start, which would take 2 % longer.
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("kubedra")
    except PackageNotFoundError:
        return "unreleased"


def about_of(settings: Settings) -> About:
    """Return the facts that the pages for people show of a server that starts now."""
    major, minor = settings.features.release
    version = version_info(settings)["gitVersion"].removeprefix("v")
    return About(now(), f"Python {python_version()}", version, f"{major}.{minor}", settings.flags)


def address_of(settings: Settings) -> str:
    """Return the server's address for clients: a host and a port.

    A server that listens on all addresses of a machine is reached by the machine's name.
    """
    host = settings.network.advertise or settings.bind_address
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        host = socket.gethostname()
    return f"{f'[{host}]' if address.version == 6 and not address.is_unspecified else host}:{settings.port}"


def keys_address(settings: Settings) -> str:
    """Return the URL of the keys of service account tokens (/.well-known/openid-configuration, jwks_uri)."""
    told = settings.identity.accounts.jwks_uri
    return told or f"{'https' if settings.tls else 'http'}://{address_of(settings)}/openid/v1/jwks"


def pages_of(settings: Settings) -> tuple[str, ...]:
    """Return the enabled pages for people."""
    return tuple(page for gate, page in _GATES.items() if settings.features.enabled(gate))


def version_info(settings: Settings) -> dict[str, str]:
    """Return /version of the emulated release."""
    major, minor = settings.features.release
    build = _BUILDS[major, minor]
    lowest = max((major, minor - 1), RELEASES[0])
    return {
        "major": str(major),
        "minor": str(minor),
        "emulationMajor": str(major),
        "emulationMinor": str(minor),
        "minCompatibilityMajor": str(lowest[0]),
        "minCompatibilityMinor": str(lowest[1]),
        "gitVersion": f"v{major}.{minor}.2",
        "gitCommit": build.commit,
        "gitTreeState": "clean",
        "buildDate": build.date,
        "goVersion": build.go,
        "compiler": "gc",
        "platform": go_platform(sys.platform, machine()),
    }


def go_platform(system: str, architecture: str) -> str:
    """Return Go's name of a platform, such as linux/amd64."""
    name = architecture.lower()
    return f"{system}/{_ARCHITECTURES.get(name, name)}"


def server_id(host: str) -> str:
    """Return the identity of a server in its cluster, derived from its host name, as in its identity lease."""
    parts = (host.encode(), b"kube-apiserver")
    digest = hashlib.sha256(b"".join(len(part).to_bytes(2, "big") + part for part in parts)).digest()[:16]
    return f"apiserver-{base64.b32encode(digest).rstrip(b'=').decode().lower()}"
