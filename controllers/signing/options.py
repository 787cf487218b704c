"""The signing options: kube-controller-manager's flags, or the server's own authority."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from apiserver.api.values.durations import parse_duration
from controllers.signing.authority import AuthorityError, Pair
from controllers.signing.purposes import CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY

__all__ = ["SigningOptions", "add_flags", "read_signing"]

_FLAG: Final = "cluster-signing"
_OWN_FLAGS: Final = {
    "kubelet-serving": KUBELET_SERVING,
    "kubelet-client": KUBELET_CLIENT,
    "kube-apiserver-client": CLIENT,
    "legacy-unknown": LEGACY,
}


@dataclass(frozen=True, slots=True)
class SigningOptions:
    """The authorities of signers.

    `pairs` has the files by signer. `own` returns the files of one authority for all signers, created with the first
    certificate. `duration` is the longest lifetime of a certificate.
    """

    pairs: Mapping[str, Pair] = field(default_factory=dict)
    own: Callable[[], tuple[Path, Path]] | None = None
    duration: timedelta = timedelta(days=365)

    def pair(self, signer: str) -> Pair | None:
        """Return the files of a signer. Raise OSError if the own authority cannot be created."""
        return self.pairs.get(signer) or (None if self.own is None else Pair(*self.own()))

    def can_sign(self, signer: str) -> bool:
        """Return whether a signer has an authority."""
        return self.own is not None or signer in self.pairs


def add_flags(group: argparse._ArgumentGroup) -> None:
    """Add kube-controller-manager's flags."""
    names = ("", *(f"-{name}" for name in _OWN_FLAGS))
    for name in names:
        signer = f"of {_OWN_FLAGS[name[1:]]}" if name else "of all four kubernetes.io signers"
        group.add_argument(
            f"--{_FLAG}{name}-cert-file", type=Path, metavar="FILE", help=f"CA certificate {signer}, in PEM"
        )
        group.add_argument(
            f"--{_FLAG}{name}-key-file", type=Path, metavar="FILE", help="private key of that certificate, in PEM"
        )
    group.add_argument(
        f"--{_FLAG}-duration", default="8760h", metavar="DURATION",
        help="longest lifetime of a certificate (default 8760h)",
    )  # fmt: skip


def read_signing(args: argparse.Namespace) -> SigningOptions:
    """Parse the signing flags. Raise ValueError naming the bad flag in one line."""
    try:
        duration = parse_duration(args.cluster_signing_duration)
    except ValueError:
        text = f'"{args.cluster_signing_duration}" is not a duration such as 8760h'
        raise ValueError(f"--{_FLAG}-duration: {text}") from None
    every = _pair(args, "")
    single = {signer: pair for name, signer in _OWN_FLAGS.items() if (pair := _pair(args, f"-{name}"))}
    if every and single:
        raise ValueError(f"--{_FLAG}-cert-file cannot be combined with --{_FLAG}-NAME-cert-file")
    pairs = single if every is None else dict.fromkeys(_OWN_FLAGS.values(), every)
    return SigningOptions(pairs, None, duration)


def _pair(args: argparse.Namespace, name: str) -> Pair | None:
    flag = f"{_FLAG}{name}"
    prefix = flag.replace("-", "_")
    certificate, key = getattr(args, f"{prefix}_cert_file"), getattr(args, f"{prefix}_key_file")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ValueError(f"--{flag}-cert-file and --{flag}-key-file must be set together")
    pair = Pair(certificate, key)
    try:
        pair.read()
    except AuthorityError as error:
        raise ValueError(f"--{flag}-cert-file, --{flag}-key-file: {error}") from None
    return pair
