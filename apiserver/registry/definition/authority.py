"""What rules may ask of the server's authorizer and authenticator: questions and decisions, tokens and whose they
are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.request.messages import User

__all__ = ["Access", "Authority", "Decision", "Failure", "Identified", "Identity", "Opinion", "Question", "Rules"]


class Question(NamedTuple):
    """What is asked of a resource. `selector` and `labels` are the field and the label selector of a list, a watch or a
    deletion of many, as they were given.
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


#: What one authorizer says: whether it is allowed, None where others may decide, and why.
Opinion = tuple[bool | None, str]


class Failure(str):
    """In place of a reason: why an authorizer could not find out."""

    __slots__ = ()


class Decision(NamedTuple):
    """`reason` says why, for both answers; it may be empty. `denied`: somebody has said no, rather than nobody yes.
    `error`: what could not be found out.
    """

    allowed: bool
    reason: str = ""
    denied: bool = False
    error: str = ""


class Rules(NamedTuple):
    """PolicyRules that hold for somebody, and what could not be determined."""

    rules: list[Json]
    incomplete: bool = False
    error: str = ""


class Authority(Protocol):
    """The authorizer of a server. `asks`: its decisions may come from outside of this process."""

    asks: bool

    async def decide(self, user: User, question: Question) -> Decision: ...

    async def decide_path(self, user: User, verb: str, path: str) -> Decision: ...

    def judge(self, user: User, question: Question) -> Decision:
        """As `decide`, for expressions. It blocks if the authorizer asks, and may be called in `waiting` only then."""
        ...

    def judge_path(self, user: User, verb: str, path: str) -> Decision: ...

    def rules_for(self, user: User, namespace: str) -> Rules:
        """All rules that the authorizers can enumerate."""
        ...

    def held_rules(self, user: User, namespace: str) -> tuple[list[Json], list[str]]:
        """The rules that roles give a user, and the roles (`Role/name`) that are missing."""
        ...

    def role_rules(self, kind: str, namespace: str, name: str) -> list[Json] | None:
        """The rules of a role; None where it is missing."""
        ...


class Identified(NamedTuple):
    """Whose a token is: nobody's without a user; `audiences` are those of the asked ones that it is good for."""

    user: User | None
    audiences: tuple[str, ...] = ()
    error: str = ""


class Identity(Protocol):
    """The authenticator of a server."""

    #: What tokens are for that name nobody else.
    audiences: tuple[str, ...]
    #: Seconds that a token lasts at most; 0 for any time.
    longest: int

    async def identify(self, token: str, audiences: tuple[str, ...]) -> Identified: ...

    async def issue(self, claims: Json) -> str:
        """A signed token. Raises StatusError where whoever signs does not."""
        ...


class Access(Protocol):
    """The authorizer and the authenticator of a server."""

    @property
    def authorizer(self) -> Authority: ...

    @property
    def authenticator(self) -> Identity: ...
