"""Who asks: whom the connection's certificate names, or whom a token belongs to, one of --token-auth-file or of a
service account, or nobody.

Without a token file access is open: every request is the administrator's, but those with a token of a service account,
which are the account's. The server then listens on loopback only (settings hold this). With one, a request without
credentials is anonymous, and one with a token that nobody has is refused, as upstream does.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apiserver.api.status import unauthorized
from apiserver.http.handlers.accounttokens import ISSUER, AccountTokens, TokenError
from apiserver.http.handlers.certificates import proxied_user
from apiserver.messages import Peer, Request, User
from apiserver.registry.authority import Identified

if TYPE_CHECKING:
    from apiserver.identityflags import ProxySettings

Json = dict[str, Any]

#: Who every request comes from where access is open.
ADMIN = User("system:admin", "", ("system:masters", "system:authenticated"))
ANONYMOUS = User("system:anonymous", "", ("system:unauthenticated",))


class TokenFileError(ValueError):
    """A token file that cannot be used, in one line."""


def read_tokens(path: Path) -> dict[str, User]:
    """`token,user,uid,"group1,group2"` lines as users by token. Raises TokenFileError."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TokenFileError(f"--token-auth-file {path}: {error}") from error
    users: dict[str, User] = {}
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) < 3:
            raise TokenFileError(
                f"--token-auth-file {path}: line {number} has {len(row)} columns; token, user name and user uid are"
                " needed"
            )
        groups = tuple(group for group in (row[3].split(",") if len(row) > 3 else ()) if group)
        users[row[0]] = User(row[1], row[2], (*groups, "system:authenticated"))
    return users


class Authenticator:
    """Names the user of a request. `tokens` None: open access. `anonymous`: whether a request may come without
    credentials. `accounts` knows the tokens of service accounts, once it is set. `nobody` is who sends no credentials,
    None where that is not allowed."""

    #: Whom tokens are for that are sent to this server.
    audiences: tuple[str, ...] = (ISSUER,)
    #: Seconds that tokens of service accounts last at most; 0 for any time.
    longest: int = 0

    def __init__(
        self, tokens: Mapping[str, User] | None, *, anonymous: bool = True, proxy: ProxySettings | None = None
    ) -> None:
        self._tokens, self._proxy = tokens, proxy
        self.nobody = ADMIN if tokens is None else ANONYMOUS if anonymous else None
        self.accounts: AccountTokens | None = None

    @property
    def open(self) -> bool:
        return self._tokens is None

    def __call__(self, request: Request) -> User:
        """The user. Raises 401 for a token or a certificate that nobody has, and for none where nobody may come
        without.
        """
        peer = request.peer
        if peer is not None:
            named = self._of_peer(request, peer)
            if named is not None:
                return named
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() == "bearer" and token:
            user = self.identify(token, self.audiences).user
            user = ADMIN if user is None and self._tokens is None else user
        else:
            user = self.nobody if peer is None else None
        if user is None:
            raise unauthorized()
        return user

    def _of_peer(self, request: Request, peer: Peer) -> User | None:
        """For whom a front proxy asks, or whom the certificate names; None where it names nobody."""
        proxied = proxied_user(request.headers, self._proxy) if peer.proxy and self._proxy is not None else None
        return proxied or peer.user

    def identify(self, token: str, audiences: tuple[str, ...] = ()) -> Identified:
        """Whose a token is. Tokens of the file are for this server."""
        wanted = audiences or self.audiences
        user = self._tokens.get(token) if self._tokens is not None else None
        if user is not None:
            good_for = tuple(audience for audience in wanted if audience in self.audiences)
            return Identified(user, good_for) if good_for else Identified(None, (), "invalid bearer token")
        try:
            found = self.accounts.identify(token, wanted) if self.accounts is not None else None
        except TokenError as error:
            return Identified(None, (), str(error))
        return found if found is not None else Identified(None, (), "invalid bearer token")

    def issue(self, claims: Json) -> str:
        assert self.accounts is not None, "a server has a key"
        return self.accounts.issue(claims)
