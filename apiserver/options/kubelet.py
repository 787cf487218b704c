"""kube-apiserver's flags on kubelets that are reached over the network, and what they say."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["KubeletSettings", "add_flags", "read_kubelets"]

_KINDS: Final = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
#: Name, what it is for.
_FILES: Final = (
    ("kubelet-certificate-authority", "who signs the certificates of kubelets (default: any certificate is taken)"),
    ("kubelet-client-certificate", "what kubelets are shown: a certificate"),
    ("kubelet-client-key", "its key"),
)


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """`authority` signs the certificates of kubelets, None: any counts; `shown`: certificate and key for kubelets;
    `addresses`: the kinds of a node's addresses, the best first.
    """

    authority: Path | None = None
    shown: tuple[Path, Path] | None = None
    addresses: tuple[str, ...] = _KINDS


def add_flags(group: argparse._ArgumentGroup) -> None:
    for name, text in _FILES:
        group.add_argument(f"--{name}", type=Path, metavar="FILE", help=text)
    group.add_argument(
        "--kubelet-preferred-address-types", default=",".join(_KINDS), metavar="KINDS",
        help=f"by which addresses kubelets are reached, the best first (default {','.join(_KINDS)})",
    )  # fmt: skip


def read_kubelets(given: argparse.Namespace) -> KubeletSettings:
    """What the flags say. Raises ValueError, in one line that names the flag."""
    authority, certificate, key = (getattr(given, name.replace("-", "_")) for name, _ in _FILES)
    for (name, _), file in zip(_FILES, (authority, certificate, key), strict=True):
        if file is not None and not file.is_file():
            raise ValueError(f"--{name} {file}: no such file")
    if (certificate is None) != (key is None):
        raise ValueError("--kubelet-client-certificate and --kubelet-client-key go together")
    kinds = tuple(filter(None, (kind.strip() for kind in given.kubelet_preferred_address_types.split(","))))
    unknown = next((kind for kind in kinds if kind not in _KINDS), "")
    if unknown or not kinds:
        flag = "--kubelet-preferred-address-types"
        raise ValueError(f"{flag} {unknown}: allowed are {', '.join(_KINDS)}")
    return KubeletSettings(authority, None if certificate is None or key is None else (certificate, key), kinds)
