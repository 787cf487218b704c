"""Interfaces of rules to the server's authorizer and authenticator.

They carry questions and decisions, tokens and their owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.request.messages import User

__all__ = [
    "Access",
    "AuthenticationResult",
    "Authority",
    "Decision",
    "Failure",
    "Identity",
    "Opinion",
    "Question",
    "Rules",
]


class Question(NamedTuple):
    """A request to authorize.

    `selector` and `labels` are the field and label selectors of a list, watch or deletecollection, as the client sent
    them.
    """

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    selector: str = ""
    version: str = ""
    labels: str = ""


#: The opinion of one authorizer: allowed or not, None to leave the decision to others; and the reason.
Opinion = tuple[bool | None, str]


class Failure(str):
    """The reason of an authorizer that failed to decide."""

    __slots__ = ()


class Decision(NamedTuple):
    """The decision about a request.

    `reason` explains both answers and may be empty. `denied`: an authorizer has denied the request, rather than none
    allowed it. `error`: the failures of the evaluation.
    """

    allowed: bool
    reason: str = ""
    denied: bool = False
    error: str = ""


class Rules(NamedTuple):
    """A user's PolicyRules, and the errors of their evaluation."""

    rules: list[Json]
    incomplete: bool = False
    error: str = ""


class Authority(Protocol):
    """The authorizer of a server. With `is_remote` its decisions may come from another process."""

    is_remote: bool

    async def decide(self, user: User, question: Question) -> Decision: ...

    async def decide_path(self, user: User, verb: str, path: str) -> Decision: ...

    def decide_blocking(self, user: User, question: Question) -> Decision:
        """Decide for an expression. It blocks if `is_remote` is set; only then is a call in `run_blocking` allowed."""
        ...

    def decide_path_blocking(self, user: User, verb: str, path: str) -> Decision: ...

    def rules_for(self, user: User, namespace: str) -> Rules:
        """Return all rules that the authorizers can enumerate."""
        ...

    def list_role_rules(self, user: User, namespace: str) -> tuple[list[Json], list[str]]:
        """Return the rules of a user's roles, and the missing roles (`Role/name`)."""
        ...

    def role_rules(self, kind: str, namespace: str, name: str) -> list[Json] | None:
        """Return the rules of a role, or None if it is missing."""
        ...


class AuthenticationResult(NamedTuple):
    """The owner of a token, or no user. `audiences` are the requested ones for which it is valid.

    `warnings` are for the response, `annotations` for the audit event.
    """

    user: User | None
    audiences: tuple[str, ...] = ()
    error: str = ""
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = MappingProxyType({})


class Identity(Protocol):
    """The authenticator of a server."""

    #: The default audiences of tokens.
    audiences: tuple[str, ...]
    #: Maximum lifetime of a token in seconds; 0: no limit.
    max_lifetime: int

    async def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticationResult: ...

    async def issue(self, claims: Json) -> str:
        """Return a signed token. Raise StatusError if the signer fails."""
        ...


class Access(Protocol):
    """The authorizer and the authenticator of a server."""

    @property
    def authorizer(self) -> Authority: ...

    @property
    def authenticator(self) -> Identity: ...
