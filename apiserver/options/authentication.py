"""kube-apiserver's flags for client certificates, front proxies, anonymous requests and service account tokens."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.features.gates import Features
from apiserver.authentication.settings import AccountKeys, IdentitySettings, ProxySettings
from apiserver.options.values import FlagTable, add_table, seconds, split_list, values_of

__all__ = ["add_flags", "read_identity"]

_FLAGS: Final[FlagTable] = (
    ("client-ca-file", "FILE",
     "CAs of client certificates; the common name is the user, the organizations are the groups"),
    ("requestheader-client-ca-file", "FILE",
     "CAs of front proxies, which may set the user in the --requestheader-*-headers"),
    ("requestheader-allowed-names", "NAMES", "allowed common names of front proxy certificates (default any)"),
    ("requestheader-username-headers", "NAMES", "headers with the user name, such as X-Remote-User"),
    ("requestheader-uid-headers", "NAMES", "headers with the user's UID"),
    ("requestheader-group-headers", "NAMES", "headers with the user's groups, such as X-Remote-Group"),
    ("requestheader-extra-headers-prefix", "NAMES",
     "prefixes of headers with extra user attributes, such as X-Remote-Extra-"),
    ("service-account-signing-key-file", "FILE",
     "private key that signs service account tokens, RSA or ECDSA (default: an RSA key in the storage)"),
    ("service-account-key-file", "FILE",
     "keys that verify service account tokens, public or private; repeatable (default: the signing key)"),
    ("service-account-signing-endpoint", "SOCKET",
     "Unix socket of an external token signer, used instead of key files; @NAME is an abstract socket"),
    ("service-account-issuer", "URL",
     "issuer of tokens (default https://kubernetes.default.svc); repeat it for further issuers to accept"),
    ("service-account-jwks-uri", "URL", "URL of the keys in /.well-known/openid-configuration"),
    ("service-account-max-token-expiration", "DURATION", "maximum lifetime of a requested token (default unlimited)"),
    ("api-audiences", "NAMES", "audiences of tokens for this server (default: the issuers)"),
)  # fmt: skip
_SHORTEST: Final = 3600
_GATE: Final = "ExternalServiceAccountTokenSigner"
#: The name of an abstract socket.
_ABSTRACT: Final = re.compile(r"@([a-zA-Z0-9_-]+\.)*[a-zA-Z0-9_-]+")
_LONGEST: Final = 1 << 32


def add_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--anonymous-auth", nargs="?", const="true", choices=("true", "false"), metavar="BOOL",
        help="accept requests without credentials (default true, with --authorization-mode=AlwaysAllow false)",
    )  # fmt: skip
    add_table(group, _FLAGS, repeated=True)


def read_identity(args: argparse.Namespace, features: Features, *, tls: bool) -> IdentitySettings:
    """Parse the identity flags. Raise ValueError naming the bad flag, in one line."""
    values = values_of(args, _FLAGS)
    for name, found in values.items():
        if name.endswith("-file"):
            for path in found:
                if not Path(path).is_file():
                    raise ValueError(f"--{name} {path}: no such file")
    client_ca = Path(values["client-ca-file"][-1]) if values["client-ca-file"] else None
    proxy = _proxy(values)
    if (client_ca or proxy) and not tls:
        flag = "--client-ca-file" if client_ca else "--requestheader-client-ca-file"
        raise ValueError(f"{flag} needs --tls or --tls-cert-file: clients send certificates only over https")
    anonymous = None if args.anonymous_auth is None else args.anonymous_auth == "true"
    return IdentitySettings(client_ca, None, proxy, anonymous, _accounts(values, features))


def _proxy(values: dict[str, list[str]]) -> ProxySettings | None:
    start = "requestheader-"
    headers = {name.removeprefix(start): split_list(found) for name, found in values.items() if name.startswith(start)}
    if not values[start + "client-ca-file"]:
        named = next((name for name, found in headers.items() if found), "")
        if named:
            raise ValueError(f"--{start}{named} needs --{start}client-ca-file")
        return None
    lower = {name: tuple(header.lower() for header in found) for name, found in headers.items()}
    return ProxySettings(
        Path(values[start + "client-ca-file"][-1]), headers["allowed-names"], lower["username-headers"],
        lower["uid-headers"], lower["group-headers"], lower["extra-headers-prefix"],
    )  # fmt: skip


def _accounts(values: dict[str, list[str]], features: Features) -> AccountKeys:
    start = "service-account-"
    signing, keys = values[start + "signing-key-file"], values[start + "key-file"]
    if keys and not signing:
        raise ValueError(f"--{start}key-file needs --{start}signing-key-file")
    endpoint = (values[start + "signing-endpoint"] or [""])[-1]
    if endpoint and (keys or signing):
        raise ValueError(
            f"can't set `--{start}signing-key-file` and/or `--{start}key-file` with `--{start}signing-endpoint` (They"
            " are mutually exclusive)"
        )
    if endpoint and not features.enabled(_GATE):
        raise ValueError(f"setting `--{start}signing-endpoint` requires enabling {_GATE} feature gate")
    if endpoint.startswith("@") and not _ABSTRACT.fullmatch(endpoint):
        raise ValueError(
            f"invalid value {go_quote(endpoint)} passed for `--{start}signing-endpoint`, when prefixed with @ must be a"
            " valid abstract socket name"
        )
    longest = _parse_lifetime(f"{start}max-token-expiration", values[start + "max-token-expiration"])
    return AccountKeys(
        Path(signing[-1]) if signing else None,
        tuple(map(Path, keys or signing[-1:])),
        tuple(values[start + "issuer"]),
        split_list(values["api-audiences"]),
        (values[start + "jwks-uri"] or [""])[-1],
        longest,
        endpoint,
    )


def _parse_lifetime(flag: str, args: list[str]) -> int:
    life = int(seconds(flag, args[-1])) if args else 0
    if life and not _SHORTEST <= life <= _LONGEST:
        raise ValueError(f"--{flag} {args[-1]}: must be between 1 hour and 2^32 seconds")
    return life
