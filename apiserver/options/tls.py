"""kube-apiserver's TLS flags: cipher suites, versions, curves, and certificates by server name.

Names and numbers are those of Go's crypto/tls; the library underneath is OpenSSL. The suites of TLS 1.3 are always
allowed with that version, in Go as here. Facts: k8s.io/component-base, cli/flag.
"""

from __future__ import annotations

import argparse
import ipaddress
import ssl
from pathlib import Path
from typing import Final

from apiserver.tls.settings import SniCertificate, TlsSettings

__all__ = ["add_flags", "read_tls"]

_VERSIONS: Final = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
_NEWEST: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
#: The part after WITH in Go's names, and OpenSSL's name for it.
_ENCRYPTION: Final = {
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "CHACHA20_POLY1305": "CHACHA20-POLY1305",
    "3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "RC4_128_SHA": "RC4-SHA",
}
#: The part before WITH, and Go's key exchange.
_EXCHANGES: Final = {
    "TLS_RSA_WITH_": (
        "", frozenset(_ENCRYPTION) - {"CHACHA20_POLY1305", "CHACHA20_POLY1305_SHA256"},
    ),
    "TLS_ECDHE_RSA_WITH_": ("ECDHE-RSA-", frozenset(_ENCRYPTION)),
    "TLS_ECDHE_ECDSA_WITH_": ("ECDHE-ECDSA-", frozenset(_ENCRYPTION) - {"3DES_EDE_CBC_SHA"}),
}  # fmt: skip
#: Go's numbers of curves, and OpenSSL's names.
_CURVES: Final = {
    23: "prime256v1",
    24: "secp384r1",
    25: "secp521r1",
    29: "X25519",
    4588: "X25519MLKEM768",
    4587: "SecP256r1MLKEM768",
    4589: "SecP384r1MLKEM1024",
}
#: OpenSSL's default curves that have a number here; versions after 3.5 also allow 4588.
_BY_ITSELF: Final = frozenset((23, 24, 25, 29))


def add_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--tls-cipher-suites", action="append", default=[], metavar="NAMES",
        help="allowed cipher suites up to TLS 1.2, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 (default: OpenSSL's)",
    )  # fmt: skip
    group.add_argument(
        "--tls-min-version",
        default="",
        metavar="VERSION",
        help=f"minimum: {', '.join(_VERSIONS)} (default VersionTLS12)",
    )
    group.add_argument(
        "--tls-curve-preferences", action="append", default=[], metavar="NUMBERS",
        help="key exchange number: 23, 24 or 25; also 29 or 4588 if client certificates are not requested; a list must"
        " name every one that OpenSSL has",
    )  # fmt: skip
    group.add_argument(
        "--tls-sni-cert-key", action="append", default=[], metavar="FILE,KEY[:NAMES]",
        help="further certificate and key for these server names (default: the names in the certificate); repeatable",
    )  # fmt: skip


def read_tls(args: argparse.Namespace, *, tls: bool) -> TlsSettings:
    """Parse the TLS flags. Raise ValueError naming the bad flag, in one line."""
    names, curves = _split_lists(args.tls_cipher_suites), _split_lists(args.tls_curve_preferences)
    version = args.tls_min_version
    for flag, value in (
        ("cipher-suites", names), ("curve-preferences", curves), ("min-version", version),
        ("sni-cert-key", args.tls_sni_cert_key),
    ):  # fmt: skip
        if value and not tls:
            raise ValueError(f"--tls-{flag} needs --tls or --tls-cert-file")
    if version and version not in _VERSIONS:
        raise ValueError(f'--tls-min-version: unknown tls version "{version}"')
    suites = tuple(filter(None, map(_suite, names)))
    minimum = _VERSIONS.get(version, ssl.TLSVersion.TLSv1_2)
    if names and not suites:
        minimum = ssl.TLSVersion.TLSv1_3  # only suites of TLS 1.3
    named = tuple(map(_parse_named_pair, args.tls_sni_cert_key))
    return TlsSettings(suites, minimum, _curve(curves), any("RSA_WITH" in name for name in names), named)


def _parse_named_pair(text: str) -> SniCertificate:
    """Parse a certificate and its names. Raise ValueError."""
    flag = f"--tls-sni-cert-key {text}"
    files, colon, listed = text.partition(":")
    pair = [part.strip() for part in files.split(",")]
    if len(pair) != 2:
        raise ValueError(f"{flag}: expected comma separated certificate and key file paths")
    names = [name.strip().lower() for name in listed.split(",")] if colon else []
    if "" in names:
        raise ValueError(f"{flag}: empty names list is not allowed" if len(names) == 1 else f"{flag}: an empty name")
    if any(map(_is_address, names)):
        raise ValueError(f"{flag}: only host names, no IP addresses: clients send no address in SNI")
    for path in pair:
        if not Path(path).is_file():
            raise ValueError(f"{flag}: {path}: no such file")
    return SniCertificate(Path(pair[0]), Path(pair[1]), tuple(names))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _split_lists(args: list[str]) -> list[str]:
    return [name for text in args for name in text.strip("[]").split(",") if name]


def _suite(name: str) -> str:
    """Return OpenSSL's name of a suite; "" for one of TLS 1.3. Raise ValueError."""
    if name in _NEWEST:
        return ""
    for start, (prefix, known) in _EXCHANGES.items():
        rest = name.removeprefix(start)
        if rest != name and rest in known:
            return prefix + _ENCRYPTION[rest]
    raise ValueError(f"--tls-cipher-suites: Cipher suite {name} not supported or doesn't exist")


def _curve(args: list[str]) -> str:
    """Return the only allowed curve; "" for OpenSSL's defaults. Raise ValueError.

    Python can set one curve, but no list of curves.
    """
    flag, numbers = "--tls-curve-preferences", []
    for text in args:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{flag} {text}: not the number of a curve, such as 29") from None
        if not 0 < number <= 0xFFFF:
            raise ValueError(f"{flag}: curve preference {number} is out of range (must be 1-65535)")
        if number in numbers:
            raise ValueError(f"{flag}: duplicate curve preference {number}")
        if number not in _CURVES:
            raise ValueError(f"{flag}: curve preference {number} is not known")
        numbers.append(number)
    if len(numbers) == 1:
        return _CURVES[numbers[0]]
    if numbers and not set(numbers) >= _BY_ITSELF:
        raise ValueError(f"{flag}: one curve, or all of {', '.join(map(str, sorted(_BY_ITSELF)))}")
    return ""
