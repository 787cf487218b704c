"""Authentication of requests by the connection's certificate or by a token.

Tokens come from --token-auth-file, service accounts, webhooks and OpenID Connect issuers. Without a token file access
is open: every request is the administrator's, except requests with a service account's token. The settings restrict
such a server to loopback. With a token file a request without credentials is anonymous, and a request with an unknown
token is refused, like upstream.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.status import unauthorized
from apiserver.api.objects import Json
from apiserver.authentication.tokens.service_account_tokens import AccountTokens, TokenError
from apiserver.authentication.x509.client_certificates import get_proxied_user
from apiserver.registry.definition.authority import AuthenticationResult
from apiserver.request.messages import Peer, Request, User
from apiserver.runtime.clock import now
from apiserver.runtime.metrics import Histogram
from kubedra.runtime.failures import describe_failure

if TYPE_CHECKING:
    from apiserver.authentication.oidc.authenticator import JwtAuthenticator
    from apiserver.authentication.oidc.configuration import Authenticators
    from apiserver.authentication.settings import ProxySettings
    from apiserver.authentication.tokens.kubelet_tokens import KubeletTokens
    from apiserver.authentication.tokens.token_reviewers import BootstrapTokens, WebhookTokens


#: The user of every request while access is open.
ADMIN = User("system:admin", "", ("system:masters", "system:authenticated"))
#: Histogram bounds in seconds: from half an hour to a year.
_LASTING: Final = (
    0, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 345600, 604800, 2592000, 7776000, 15552000, 31104000,
)  # fmt: skip
_EXTRA_SPACE: Final = "the provided Authorization header contains extra space before the bearer token, and is ignored"
_UNKNOWN: Final = "invalid bearer token"
ANONYMOUS = User("system:anonymous", "", ("system:unauthenticated",))


class TokenFileError(ValueError):
    """Error in a token file, in one line."""


def read_tokens(path: Path) -> dict[str, User]:
    """Parse lines of `token,user,uid,"group1,group2"` to users by token. Raise TokenFileError."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TokenFileError(f"--token-auth-file {path}: {describe_failure(error)}") from error
    users: dict[str, User] = {}
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) < 3:
            raise TokenFileError(
                f"--token-auth-file {path}: line {number} has {len(row)} columns; token, user name and user uid are"
                " needed"
            )
        groups = row[3].split(",") if len(row) > 3 else ()  # An empty column is a group without a name.
        users[row[0]] = User(row[1], row[2], (*groups, "system:authenticated"))
    return users


def _bearer(request: Request) -> str:
    """Return the bearer token of a request, "" if it has none: one space precedes it, and a further one ends it."""
    scheme, _, rest = request.headers.get("authorization", "").strip().partition(" ")
    return rest.partition(" ")[0] if scheme.lower() == "bearer" else ""


def _has_extra_space(request: Request) -> bool:
    """Return whether a bearer token is ignored because of a second space before it."""
    return request.headers.get("authorization", "").strip()[:8].lower() == "bearer  "


def _add_authenticated_group(user: User) -> User:
    """Return the user as a member of system:authenticated."""
    if user.name == ANONYMOUS.name or {"system:authenticated", "system:unauthenticated"} & set(user.groups):
        return user
    return User(user.name, user.uid, (*user.groups, "system:authenticated"), user.extra)


class Authenticator:
    """Authenticator of requests."""

    def __init__(
        self,
        tokens: Mapping[str, User] | None,
        accounts: AccountTokens,
        *,
        anonymous: bool,
        proxy: ProxySettings | None,
        audiences: tuple[str, ...],
        max_lifetime: int,
        bootstrap: BootstrapTokens | None,
        configured: Authenticators | None,
        webhook: WebhookTokens | None,
        kubelets: KubeletTokens,
    ) -> None:
        """Connect the sources of users.

        Args:
            tokens: Those of the token file; None for open access.
            accounts: The tokens of service accounts. The sources below follow in their order.
            anonymous: Whether a request may come without credentials.
            proxy: The headers of front proxies.
            audiences: Those of tokens for this server.
            max_lifetime: Seconds that tokens of service accounts last at most; 0 for any time.
            bootstrap: The bootstrap tokens of kube-system.
            configured: The issuers of an AuthenticationConfiguration.
            webhook: The webhook of --authentication-token-webhook-config-file.
            kubelets: The tokens that identify this server to kubelets.
        """
        self._tokens, self._accounts, self._proxy = tokens, accounts, proxy
        self.audiences, self.max_lifetime = audiences, max_lifetime
        self._bootstrap, self._webhook, self._kubelets = bootstrap, webhook, kubelets
        self.issuers: Sequence[JwtAuthenticator] = ()
        #: Paths open to anonymous requests if others are not.
        self._open_paths: frozenset[str] = frozenset()
        #: Remaining lifetime of client certificates (pkg/authentication/request/x509).
        self.remaining = Histogram(
            "apiserver_client_certificate_expiration_seconds", "Remaining lifetime of client certificates.", (),
            _LASTING,
        )  # fmt: skip
        #: The user of requests without credentials; None if they are refused.
        self.default_user = ADMIN if tokens is None else ANONYMOUS if anonymous else None
        if configured is not None:
            self.configure(configured)

    @property
    def open(self) -> bool:
        return self._tokens is None

    def recall(self, request: Request) -> User | None:
        """Return the user of cached credentials, or None. It never waits; `authenticate` may."""
        peer = request.peer
        if peer is not None:
            return self._of_peer(request, peer) if peer.user is not None else None
        if "authorization" not in request.headers:
            return self.default_user
        token = _bearer(request)
        user = self._tokens.get(token) if token and self._tokens is not None else None
        return user or self._accounts.recall(token, self.audiences)

    async def authenticate(self, request: Request) -> User:
        """Return the user. Raise 401 for invalid credentials, or if anonymous requests are not allowed."""
        user = self.recall(request)
        if user is not None:
            return user
        peer = request.peer
        if peer is not None:
            token_file = self._of_peer(request, peer)
            if token_file is not None:
                return token_file
        token = _bearer(request)
        if token:
            found = await self.identify(token, self.audiences)
            request.warnings = [*request.warnings, *found.warnings]
            request.annotations = {**request.annotations, **found.annotations}
            user = found.user
            user = ADMIN if user is None and self._tokens is None else user
        else:
            if _has_extra_space(request):
                request.warnings = [*request.warnings, _EXTRA_SPACE]
            refused = peer is not None and peer.refused
            user = self.default_user if not refused else None
            if user is None and not refused and request.path in self._open_paths:
                user = ANONYMOUS
        if user is None:
            raise unauthorized()
        return user

    def _of_peer(self, request: Request, peer: Peer) -> User | None:
        """Return the user that a front proxy or the client certificate names, or None."""
        proxied = get_proxied_user(request.headers, self._proxy) if peer.proxy and self._proxy is not None else None
        if proxied is None:
            self.remaining.observe(peer.ends - now().timestamp())
        return proxied or peer.user

    async def identify(self, token: str, audiences: tuple[str, ...] = ()) -> AuthenticationResult:
        """Return the owner of a token. Tokens of the file are for this server's audiences."""
        request_audiences = audiences or self.audiences
        user = self._tokens.get(token) if self._tokens is not None else None
        if user is not None:
            good_for = tuple(audience for audience in request_audiences if audience in self.audiences)
            return AuthenticationResult(user, good_for) if good_for else AuthenticationResult(None, (), _UNKNOWN)
        if (own := self._kubelets.identify(token, request_audiences)) is not None:
            return own
        # As upstream: the first of its authenticators knows only the token of its own clients.
        errors = [_UNKNOWN]
        annotations: dict[str, str] = {}
        for identify_token in (
            self._identify_account,
            self._identify_bootstrap,
            self._identify_by_issuer,
            self._identify_by_webhook,
        ):
            found = await identify_token(token, request_audiences)
            if found is None:
                continue
            if found.user is not None:
                return found
            errors += [found.error] if found.error and found.error not in errors else []
            annotations |= found.annotations
        text = f"[{', '.join(errors)}]" if len(errors) > 1 else _UNKNOWN
        return AuthenticationResult(None, (), text, annotations=annotations)

    async def _identify_account(self, token: str, request_audiences: tuple[str, ...]) -> AuthenticationResult | None:
        try:
            return await self._accounts.identify(token, request_audiences)
        except TokenError as error:
            return AuthenticationResult(None, (), str(error), annotations=error.annotations)

    async def _identify_bootstrap(self, token: str, request_audiences: tuple[str, ...]) -> AuthenticationResult | None:
        user = self._bootstrap.identify(token) if self._bootstrap is not None else None
        return None if user is None else self._build_identified(user, request_audiences)

    async def _identify_by_issuer(self, token: str, request_audiences: tuple[str, ...]) -> AuthenticationResult | None:
        for issuer in self.issuers:
            try:
                user = await issuer.identify(token)
            except ValueError as error:
                return AuthenticationResult(None, (), str(error))
            if user is not None:
                return self._build_identified(user, request_audiences)
        return None

    async def _identify_by_webhook(self, token: str, request_audiences: tuple[str, ...]) -> AuthenticationResult | None:
        if self._webhook is None:
            return None
        found = await self._webhook.identify(token, request_audiences, self.audiences)
        return (
            found if found.user is None else AuthenticationResult(_add_authenticated_group(found.user), found.audiences)
        )

    def _build_identified(self, user: User, request_audiences: tuple[str, ...]) -> AuthenticationResult:
        """Identify the owner of a token without audiences of its own: it is valid for this server's audiences."""
        good_for = tuple(audience for audience in request_audiences if audience in self.audiences)
        return (
            AuthenticationResult(_add_authenticated_group(user), good_for) if good_for else AuthenticationResult(None)
        )

    def configure(self, found: Authenticators) -> None:
        """Replace the issuers and the anonymous rule by those of an AuthenticationConfiguration."""
        self.issuers = found.issuers
        if found.anonymous is not None and self._tokens is not None:
            everywhere = found.anonymous.enabled and not found.anonymous.paths
            self.default_user = ANONYMOUS if everywhere else None
            self._open_paths = found.anonymous.paths if found.anonymous.enabled else frozenset()

    async def issue(self, claims: Json) -> str:
        return await self._accounts.issue(claims)
