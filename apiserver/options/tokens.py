"""kube-apiserver's flags for tokens from other sources than --token-auth-file and service accounts.

Facts: pkg/kubeapiserver/options/authentication.go.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from apiserver.api.objects import Json
from apiserver.options.values import FlagTable, add_table, seconds, split_list, values_of

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features
    from apiserver.authentication.oidc.configuration import Authenticators

__all__ = ["TokenSettings", "TokenWebhook", "add_flags", "read_token_settings"]


_GATE: Final = "StructuredAuthenticationConfiguration"
_FLAGS: Final[FlagTable] = (
    ("authentication-config", "FILE",
     "AuthenticationConfiguration file: token issuers and anonymous access; reloaded when it changes"),
    ("authentication-token-webhook-config-file", "FILE", "kubeconfig of a token review webhook"),
    ("authentication-token-webhook-version", "VERSION", "version of its TokenReviews: v1 or v1beta1 (default)"),
    ("authentication-token-webhook-cache-ttl", "DURATION", "cache duration of its responses (default 2m)"),
    ("oidc-issuer-url", "URL", "OpenID Connect issuer whose tokens are accepted"),
    ("oidc-client-id", "ID", "required audience of its tokens"),
    ("oidc-ca-file", "FILE", "CAs of the issuer's certificate (default: the system's CAs)"),
    ("oidc-username-claim", "CLAIM", "claim with the user name (default sub)"),
    ("oidc-username-prefix", "TEXT", "prefix of user names (default: ISSUER#, none for email); - for none"),
    ("oidc-groups-claim", "CLAIM", "claim with the user's groups"),
    ("oidc-groups-prefix", "TEXT", "prefix of group names"),
    ("oidc-signing-algs", "NAMES", "allowed signing algorithms of its tokens (default RS256)"),
    ("oidc-required-claim", "CLAIM=VALUE", "claim that its tokens must have; repeatable"),
)  # fmt: skip
_CACHED: Final = "2m"
_YES: Final = ("true",)


class TokenWebhook(NamedTuple):
    """A webhook that reviews tokens; its answers are cached for `ttl` seconds."""

    kubeconfig: Path
    version: str
    ttl: float


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Sources of tokens. `file` is the configuration file of the issuers, if there is one."""

    file: Path | None = None
    authenticators: Authenticators | None = None
    webhook: TokenWebhook | None = None
    bootstrap: bool = False

    @property
    def any(self) -> bool:
        """Return whether there is any source of tokens."""
        return bool(self.file or self.authenticators or self.webhook or self.bootstrap)


def add_flags(group: argparse._ArgumentGroup) -> None:
    add_table(group, _FLAGS, repeated=True)
    group.add_argument(
        "--enable-bootstrap-token-auth", nargs="?", const="true", default="false", choices=("true", "false"),
        metavar="BOOL", help="accept tokens of Secrets of type bootstrap.kubernetes.io/token in kube-system",
    )  # fmt: skip


def read_token_settings(args: argparse.Namespace, features: Features, issuers: Collection[str]) -> TokenSettings:
    """Parse the token flags; `issuers` are those of this server's own tokens. Raise ValueError, in one line."""
    values = values_of(args, _FLAGS)
    file = values["authentication-config"][-1:]
    if file and not features.enabled(_GATE):
        raise ValueError(f"set --feature-gates={_GATE}=true to use authentication-config file")
    oidc = {name: found for name, found in values.items() if name.startswith("oidc-") and found}
    if file and oidc:
        raise ValueError("authentication-config file and oidc-* flags are mutually exclusive")
    if bool(values["oidc-issuer-url"]) != bool(values["oidc-client-id"]) or (oidc and not values["oidc-issuer-url"]):
        raise ValueError("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
    authenticators = None
    if file:
        authenticators = _of_file(file[0], features, issuers)
        if authenticators.anonymous is not None and args.anonymous_auth is not None:
            raise ValueError(
                "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in"
                " authentication configuration file"
            )
    elif oidc:
        authenticators = _of_flags(values, features, issuers)
    bootstrap = args.enable_bootstrap_token_auth in _YES
    return TokenSettings(Path(file[0]).absolute() if file else None, authenticators, _webhook(values), bootstrap)


def _of_file(file: str, features: Features, issuers: Collection[str]) -> Authenticators:
    from apiserver.authentication.oidc.configuration import read_authenticators

    try:
        return read_authenticators(Path(file).read_bytes(), features, issuers)
    except OSError as error:
        raise ValueError(f"--authentication-config: open {file}: {(error.strerror or '').lower()}") from error
    except ValueError as error:
        raise ValueError(f"--authentication-config {file}: invalid authentication configuration: {error}") from error


def _of_flags(values: dict[str, list[str]], features: Features, issuers: Collection[str]) -> Authenticators:
    """Return the issuer of the flags as an authentication configuration."""
    from apiserver.authentication.oidc.configuration import build_authenticators
    from apiserver.authentication.oidc.signatures import ALGORITHMS

    flags = {name: found[-1] for name, found in values.items() if found}
    claim, prefix = flags.get("oidc-username-claim", "sub"), flags.get("oidc-username-prefix", "")
    if not prefix and claim != "email":
        prefix = f"{flags['oidc-issuer-url']}#"
    mappings: Json = {"username": {"claim": claim, "prefix": "" if prefix == "-" else prefix}}
    if flags.get("oidc-groups-claim"):
        mappings["groups"] = {"claim": flags["oidc-groups-claim"], "prefix": flags.get("oidc-groups-prefix", "")}
    issuer: Json = {"url": flags["oidc-issuer-url"], "audiences": [flags["oidc-client-id"]]}
    if flags.get("oidc-ca-file"):
        try:
            issuer["certificateAuthority"] = Path(flags["oidc-ca-file"]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"--oidc-ca-file {flags['oidc-ca-file']}: {error}") from error
    required = []
    for each in values["oidc-required-claim"]:
        name, equals, value = each.partition("=")
        if not equals:
            raise ValueError(f"--oidc-required-claim {each}: write it like CLAIM=VALUE")
        required.append({"claim": name, "requiredValue": value})
    algorithms = split_list(values["oidc-signing-algs"]) or ("RS256",)
    unknown = sorted(set(algorithms) - set(ALGORITHMS))
    if unknown:
        raise ValueError(f'--oidc-signing-algs: oidc: unsupported signing alg: "{unknown[0]}"')
    jwt = {"issuer": issuer, "claimMappings": mappings, "claimValidationRules": required}
    try:
        return build_authenticators({"jwt": [jwt]}, features, issuers, algorithms)
    except ValueError as error:
        raise ValueError(f"--oidc-issuer-url: invalid authentication configuration: {error}") from error


def _webhook(values: dict[str, list[str]]) -> TokenWebhook | None:
    start = "authentication-token-webhook-"
    file = values[f"{start}config-file"]
    if not file:
        return None
    version = (values[f"{start}version"] or ["v1beta1"])[-1]
    if version not in ("v1", "v1beta1"):
        raise ValueError(f"--{start}version {version}: v1 or v1beta1")
    ttl = seconds(f"{start}cache-ttl", (values[f"{start}cache-ttl"] or [_CACHED])[-1])
    return TokenWebhook(Path(file[-1]).absolute(), version, ttl)
