"""A server's information about itself: /version, /statusz, /flagz, and its address."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import socket
from platform import python_version
from typing import Final

from apiserver.api.features.gates import RELEASES
from apiserver.http.documents.zpages import About
from apiserver.options.settings import Settings
from apiserver.runtime.clock import now

__all__ = ["about_of", "address_of", "keys_address", "own_release", "pages_of", "version_info"]

#: The pages for people, by feature gate.
_GATES: Final = {"ComponentStatusz": "statusz", "ComponentFlagz": "flagz"}


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
    lowest = max((major, minor - 1), RELEASES[0])
    return {
        "major": str(major),
        "minor": str(minor),
        "emulationMajor": str(major),
        "emulationMinor": str(minor),
        "minCompatibilityMajor": str(lowest[0]),
        "minCompatibilityMinor": str(lowest[1]),
        "gitVersion": f"v{major}.{minor}.2",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def server_id(host: str) -> str:
    """Return the identity of a server in its cluster, derived from its host name, as in its identity lease."""
    parts = (host.encode(), b"kube-apiserver")
    digest = hashlib.sha256(b"".join(len(part).to_bytes(2, "big") + part for part in parts)).digest()[:16]
    return f"apiserver-{base64.b32encode(digest).rstrip(b'=').decode().lower()}"
