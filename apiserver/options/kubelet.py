"""kube-apiserver's flags for the connection to kubelets over the network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from apiserver.http.kubelet.settings import ADDRESS_TYPES, KubeletSettings

__all__ = ["add_flags", "read_kubelets"]

#: Flag name and purpose.
_FILES: Final = (
    ("kubelet-certificate-authority", "CA of kubelet certificates (default: certificates are not verified)"),
    ("kubelet-client-certificate", "client certificate for kubelets"),
    ("kubelet-client-key", "its private key"),
)


def add_flags(group: argparse._ArgumentGroup) -> None:
    for name, text in _FILES:
        group.add_argument(f"--{name}", type=Path, metavar="FILE", help=text)
    group.add_argument(
        "--kubelet-preferred-address-types", default=",".join(ADDRESS_TYPES), metavar="KINDS",
        help=f"node address types for kubelet connections, in order of preference (default {','.join(ADDRESS_TYPES)})",
    )  # fmt: skip


def read_kubelets(args: argparse.Namespace) -> KubeletSettings:
    """Parse the kubelet flags. Raise ValueError naming the bad flag, in one line."""
    authority, certificate, key = (getattr(args, name.replace("-", "_")) for name, _ in _FILES)
    for (name, _), file in zip(_FILES, (authority, certificate, key), strict=True):
        if file is not None and not file.is_file():
            raise ValueError(f"--{name} {file}: no such file")
    if (certificate is None) != (key is None):
        raise ValueError("--kubelet-client-certificate and --kubelet-client-key must be set together")
    kinds = tuple(filter(None, (kind.strip() for kind in args.kubelet_preferred_address_types.split(","))))
    unknown = next((kind for kind in kinds if kind not in ADDRESS_TYPES), "")
    if unknown or not kinds:
        flag = "--kubelet-preferred-address-types"
        raise ValueError(f"{flag} {unknown}: allowed are {', '.join(ADDRESS_TYPES)}")
    return KubeletSettings(authority, None if certificate is None or key is None else (certificate, key), kinds)
