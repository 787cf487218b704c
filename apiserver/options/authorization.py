"""kube-apiserver's authorization flags.

Facts: pkg/kubeapiserver/options/authorization.go.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apiserver.authorization.configuration import MODES, AuthorizerConfig, WebhookSettings, of_modes, read_authorizers
from apiserver.authorization.rules import quoted_list
from apiserver.authorization.webhook import WebhookCallSettings
from apiserver.options.values import FlagTable, add_table, seconds, values_of

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features
    from apiserver.authorization.abac import Policies

__all__ = ["AccessSettings", "add_flags", "read_access"]

_FLAGS: Final[FlagTable] = (
    ("authorization-config", "FILE",
     "AuthorizationConfiguration file, used instead of the other authorization flags; reloaded when it changes"),
    ("authorization-policy-file", "FILE", "with ABAC: policy file, one JSON object per line"),
    ("authorization-webhook-config-file", "FILE", "with Webhook: kubeconfig of the webhook"),
    ("authorization-webhook-version", "VERSION",
     "with Webhook: version of its SubjectAccessReviews: v1 or v1beta1 (default)"),
    ("authorization-webhook-cache-authorized-ttl", "DURATION",
     "with Webhook: cache duration of allowed requests (default 5m)"),
    ("authorization-webhook-cache-unauthorized-ttl", "DURATION",
     "with Webhook: cache duration of other responses (default 30s)"),
)  # fmt: skip
_TIMEOUT: Final = 30.0
_ALLOWED_FOR, _OTHERS_FOR = "5m", "30s"


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """The authorizers, the policies of ABAC, and the authorizers' configuration file."""

    authorizers: tuple[AuthorizerConfig, ...] = of_modes(("AlwaysAllow",))
    policies: Policies | None = None
    file: Path | None = None

    @property
    def modes(self) -> tuple[str, ...]:
        return tuple(each.type for each in self.authorizers)

    @property
    def restricted(self) -> bool:
        """Whether an authorizer may ever refuse a request."""
        return self.file is not None or self.modes[0] != "AlwaysAllow"

    @property
    def remote(self) -> bool:
        """Whether a webhook may ever authorize a request."""
        return self.file is not None or "Webhook" in self.modes


def add_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--authorization-mode", default="", metavar="MODES",
        help=f"ordered list of authorizers: {', '.join(MODES)} (default AlwaysAllow)",
    )  # fmt: skip
    add_table(group, _FLAGS, repeated=False)


def read_access(args: argparse.Namespace, features: Features) -> AccessSettings:
    """Parse the authorization flags. Raise ValueError, in one line."""
    values = values_of(args, _FLAGS)
    policies = _policies(values["authorization-policy-file"])
    file = values["authorization-config"]
    if file:
        if args.authorization_mode or any(said for name, said in values.items() if "webhook" in name):
            raise ValueError(
                "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-*"
                " flags are defined"
            )
        try:
            authorizers = read_authorizers(Path(file).read_bytes(), features)
        except OSError as error:
            raise ValueError(f"--authorization-config: open {file}: {(error.strerror or '').lower()}") from error
        except ValueError as error:
            raise ValueError(f"--authorization-config {file}: {error}") from error
        if policies is None and "ABAC" in {each.type for each in authorizers}:
            raise ValueError("ABAC needs --authorization-policy-file")
        return AccessSettings(authorizers, policies, Path(file).absolute())
    modes = tuple(mode.strip() for mode in args.authorization_mode.split(",") if mode.strip()) or ("AlwaysAllow",)
    _check_modes(modes, values)
    webhook = _webhook(values, features) if "Webhook" in modes else None
    return AccessSettings(of_modes(modes, webhook), policies)


def _check_modes(modes: Sequence[str], values: dict[str, str]) -> None:
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f"--authorization-mode: {mode!r} is not a valid mode; use one of {', '.join(MODES)}")
    for mode, flag, named in (
        ("ABAC", "authorization-policy-file", "authorization policy file"),
        ("Webhook", "authorization-webhook-config-file", "authorization config file"),
    ):
        if mode in modes and not values[flag]:
            raise ValueError(f"--authorization-mode: authorization-mode {mode}'s {named} not passed (--{flag})")
        if mode not in modes and values[flag]:
            raise ValueError(f"cannot specify --{flag} without mode {mode}")
    if len(set(modes)) < len(modes):
        raise ValueError(f"--authorization-mode: {quoted_list(modes)} has mode specified more than once")


def _policies(file: str) -> Policies | None:
    if not file:
        return None
    from apiserver.authorization.abac import read_policies

    try:
        return read_policies(Path(file))
    except ValueError as error:
        raise ValueError(f"--authorization-policy-file: {error}") from error


def _webhook(values: dict[str, str], features: Features) -> WebhookSettings:
    start = "authorization-webhook-"
    version = values[f"{start}version"] or "v1beta1"
    if version not in ("v1", "v1beta1"):
        raise ValueError(f"--{start}version {version}: v1 or v1beta1")
    lasting = [
        seconds(f"{start}cache-{name}-ttl", values[f"{start}cache-{name}-ttl"] or default)
        for name, default in (("authorized", _ALLOWED_FOR), ("unauthorized", _OTHERS_FOR))
    ]
    call_settings = WebhookCallSettings(
        version, _TIMEOUT, lasting[0], lasting[1], False, features.enabled("AuthorizeWithSelectors")
    )
    return WebhookSettings(Path(values[f"{start}config-file"]).absolute(), call_settings)
