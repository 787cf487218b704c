"""Tokens with which this server identifies itself to kubelets that run processes.

A token is bound to the certificate of one kubelet: only a TokenReview for that certificate's audience confirms it. So
another listener that receives a token cannot use it, neither at the kubelet nor at this server.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from typing import Final

from apiserver.registry.definition.authority import AuthenticationResult
from apiserver.request.messages import User

__all__ = ["KUBELET_CLIENT", "KubeletTokens"]

#: The user name of a confirmed token. It has no permissions here.
KUBELET_CLIENT: Final = "kube-apiserver-kubelet-client"
#: Beginning of the audience of a kubelet; the SHA-256 of its certificate in hexadecimal follows.
AUDIENCE: Final = "kubedra.dev/kubelet/"
_PREFIX: Final = "kubelet"
#: The last second of a token.
_TIME: Final = re.compile(r"[0-9]{1,12}")
#: Seconds for which a token is valid.
_VALID: Final = 60


class KubeletTokens:
    """The tokens of one server process."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def issue(self, fingerprint: str) -> str:
        """Return a token for the kubelet whose certificate has this SHA-256."""
        until = str(int(time.time()) + _VALID)
        return f"{_PREFIX}.{until}.{self._sign(until, fingerprint)}"

    def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticationResult | None:
        """Return the owner of a valid token for one of these audiences, or None."""
        prefix, _, rest = token.partition(".")
        until, _, signature = rest.partition(".")
        if prefix != _PREFIX or not _TIME.fullmatch(until) or int(until) < time.time():
            return None
        for audience in audiences:
            fingerprint = audience.removeprefix(AUDIENCE)
            if fingerprint != audience and hmac.compare_digest(
                self._sign(until, fingerprint).encode(), signature.encode(errors="replace")
            ):
                return AuthenticationResult(User(KUBELET_CLIENT), (audience,))
        return None

    def _sign(self, until: str, fingerprint: str) -> str:
        return hmac.new(self._secret, f"{until}.{fingerprint}".encode(), hashlib.sha256).hexdigest()
