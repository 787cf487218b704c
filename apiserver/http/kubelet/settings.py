"""Settings of connections to kubelets over the network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Kinds of a node's addresses, in the default order of preference.
ADDRESS_TYPES: Final = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """The connection to kubelets.

    `authority` signs the certificates of kubelets, None accepts any. `shown` are the client certificate and key for
    kubelets. `addresses` are the kinds of a node's addresses, the best first.
    """

    authority: Path | None = None
    shown: tuple[Path, Path] | None = None
    addresses: tuple[str, ...] = ADDRESS_TYPES
