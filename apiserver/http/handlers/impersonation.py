"""Impersonation: the Impersonate-* headers, the permissions they need, and the resulting user.

From 1.36 on (gate ConstrainedImpersonation) the constrained modes for such a user are tried first. Each needs a
permission for this very request (`impersonate-on:MODE:VERB` on its resource), then `impersonate:MODE` on each claim.
After them the legacy verb `impersonate` on each claim is checked. The refusal reports the first failure. Texts and
order of checks: k8s.io/apiserver, endpoints/filters/impersonation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple
from urllib.parse import unquote

from apiserver.api.errors.field_errors import Path, aggregate, go_quote
from apiserver.api.errors.status import StatusError, bad_request
from apiserver.api.values.names import dns_subdomain, domain_prefixed_path
from apiserver.authorization.authorizer import Authorizer
from apiserver.http.handlers.authorization import build_forbidden, build_path_forbidden
from apiserver.registry.definition.authority import Question
from apiserver.request.messages import User

_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATED, _UNAUTHENTICATED, _ANONYMOUS = "system:authenticated", "system:unauthenticated", "system:anonymous"
_MASTERS: Final = "system:masters"
_AUTHENTICATION: Final = "authentication.k8s.io"
#: The mode of a service account that acts as the node of its pod, according to its token.
_ASSOCIATED: Final = "associated-node"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_NODE_KEYS: Final = "authentication.kubernetes.io/associated-node-keys"
#: From this number of claims of a kind on, a permission for any of them is checked first.
_MANY: Final = 4


class RequestedIdentity(NamedTuple):
    """The requested identity of the Impersonate-* headers."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def has_only_name(self) -> bool:
        return not (self.uid or self.groups or self.extra)

    @property
    def node(self) -> str:
        """The name of the node, "" if the user is no node."""
        node = self.name.removeprefix("system:node:")
        return node if node != self.name and not dns_subdomain(node) else ""

    @property
    def service_account(self) -> tuple[str, str] | None:
        """(namespace, name) of the service account, if the user is one."""
        parts = self.name.split(":")
        return (
            (parts[2], parts[3])
            if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"] and all(parts[2:])
            else None
        )


def parse_identity(headers: Mapping[str, str], *, constrained: bool) -> RequestedIdentity | None:
    """Parse the headers; return None without impersonation. Repeated headers are joined by newlines.

    Raise 400 for other claims without a user name.
    """
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        if header.startswith(_EXTRA):
            extra[unquote(header.removeprefix(_EXTRA))] = tuple(value.split("\n"))
    groups = tuple(headers["impersonate-group"].split("\n")) if "impersonate-group" in headers else ()
    found = RequestedIdentity(headers.get("impersonate-user", ""), headers.get("impersonate-uid", ""), groups, extra)
    if found.name:
        return found
    if found.has_only_name:
        return None
    claimed = (
        f"{_format_user(found)} without impersonating a user name"
        if constrained
        else f"{_references(found)} without impersonating a user"
    )
    raise bad_request(f"requested {claimed}")


class Impersonation(NamedTuple):
    """The impersonated user, and the constrained verb that allowed it; "" for the legacy verb."""

    user: User
    constraint: str = ""


async def impersonate(
    authorizer: Authorizer,
    user: User,
    identity: RequestedIdentity,
    question: Question | None,
    path: str,
    method: str,
    *,
    constrained: bool,
) -> Impersonation:
    """Return the impersonated user. Raise 403.

    `question` has the resource attributes of the request, None for another path.
    """
    refusal: StatusError | None = None
    for mode in _modes(user, identity) if constrained else ():
        asking = _strip_node_identity(user) if mode == _ASSOCIATED else user
        verb = f"impersonate:{mode}"
        try:
            await _check_request(authorizer, asking, mode, question, path, method)
            await _check_claims(authorizer, asking, identity, verb)
        except StatusError as error:
            refusal = refusal or error
        else:
            return Impersonation(_build_user(identity, ("system:nodes",) if identity.node else None), verb)
    try:
        await _check(authorizer, user, _claims(identity))
    except StatusError as error:
        raise refusal or error from None
    return Impersonation(_build_user(identity, None))


def _modes(user: User, identity: RequestedIdentity) -> tuple[str, ...]:
    """Return the constrained modes for this user, in order; none if only the legacy verb applies."""
    if identity.node:
        if not identity.has_only_name:
            return ()
        asking = RequestedIdentity(user.name).service_account and user.extra.get(_NODE_NAME) == (identity.node,)
        return (_ASSOCIATED, "arbitrary-node") if asking else ("arbitrary-node",)
    if identity.service_account:
        return ("serviceaccount",) if identity.has_only_name else ()
    return ("user-info",)


def _strip_node_identity(user: User) -> User:
    """Return a service account as authorizers see it for its own node: the same on all nodes."""
    return replace(user, extra={_NODE_KEYS: tuple(sorted(user.extra))})


async def _check_request(
    authorizer: Authorizer, user: User, mode: str, question: Question | None, path: str, method: str
) -> None:
    if question is None:
        verb = f"impersonate-on:{mode}:{method.lower()}"
        decision = await authorizer.decide_path(user, verb, path)
        if not decision.allowed:
            raise build_path_forbidden(user, verb, path, decision.reason)
        return
    await _check(authorizer, user, iter([question._replace(verb=f"impersonate-on:{mode}:{question.verb}")]))


async def _check(authorizer: Authorizer, user: User, questions: Iterator[Question]) -> None:
    for question in questions:
        decision = await authorizer.decide(user, question)
        if not decision.allowed:
            raise build_forbidden(user, question, decision.reason)


async def _check_claims(authorizer: Authorizer, user: User, identity: RequestedIdentity, verb: str) -> None:
    """Raise 403 unless a constrained verb allows all claims."""
    account = identity.service_account
    if account is not None:
        named = Question(verb, _AUTHENTICATION, "serviceaccounts", "", *account)
    elif identity.node:
        named = Question(verb, _AUTHENTICATION, "nodes", name="*" if verb.endswith(_ASSOCIATED) else identity.node)
    else:
        named = Question(verb, _AUTHENTICATION, "users", name=identity.name)
    await _check(authorizer, user, iter([named]))
    if identity.uid:
        await _check(authorizer, user, iter([Question(verb, _AUTHENTICATION, "uids", name=identity.uid)]))
    _check_limits(user, identity, verb)
    groups = [Question(verb, _AUTHENTICATION, "groups", name=name) for name in identity.groups]
    await _check_all(authorizer, user, groups, Question(verb, _AUTHENTICATION, "groups", name="*"))
    if problem := _extra_problem(identity.extra):
        raise build_forbidden(user, Question(verb, _AUTHENTICATION, "userextras"), problem)
    extras = [
        Question(verb, _AUTHENTICATION, "userextras", key, name=value)
        for key, values in identity.extra.items()
        for value in values
    ]
    await _check_all(authorizer, user, extras, Question(verb, _AUTHENTICATION, "userextras", "*", name="*"))


async def _check_all(authorizer: Authorizer, user: User, questions: list[Question], any_of_them: Question) -> None:
    """Check each claim; of many, first check a permission for any of them."""
    if len(questions) >= _MANY and (await authorizer.decide(user, any_of_them)).allowed:
        return
    await _check(authorizer, user, iter(questions))


def _check_limits(user: User, identity: RequestedIdentity, verb: str) -> None:
    """Raise 403 for groups that the constrained modes never allow."""
    question = Question(verb, _AUTHENTICATION, "groups")
    if "" in identity.groups:
        raise build_forbidden(user, question, "impersonating the empty string group is not allowed")
    if _MASTERS in identity.groups:
        masters = question._replace(name=_MASTERS)
        raise build_forbidden(user, masters, "impersonating the system:masters group is not allowed")


def _extra_problem(extra: Mapping[str, tuple[str, ...]]) -> str:
    """Return the problem of extra values that the constrained modes never allow; "" if there is none."""
    for key, values in extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        if errors := domain_prefixed_path(Path("extra") / "key", key):
            return f"impersonating an invalid key in extra is not allowed: {aggregate(errors)}"
        if key != key.lower():
            return f"impersonating a non-lowercase key in extra is not allowed: {go_quote(key)}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _claims(identity: RequestedIdentity) -> Iterator[Question]:
    """Yield every claim with the legacy verb."""
    verb, account = "impersonate", identity.service_account
    if account is not None:
        yield Question(verb, "", "serviceaccounts", "", *account)
    else:
        yield Question(verb, "", "users", name=identity.name)
    if identity.uid:
        yield Question(verb, _AUTHENTICATION, "uids", name=identity.uid)
    for name in identity.groups:
        yield Question(verb, "", "groups", name=name)
    for key, values in identity.extra.items():
        for value in values:
            yield Question(verb, _AUTHENTICATION, "userextras", key, name=value)


def _build_user(identity: RequestedIdentity, groups: tuple[str, ...] | None) -> User:
    """Return the user with the default groups of its kind."""
    account = identity.service_account
    if groups is None:
        groups = identity.groups or (
            ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}") if account else ()
        )
    if identity.name == _ANONYMOUS:
        groups = groups if _UNAUTHENTICATED in groups else (*groups, _UNAUTHENTICATED)
    elif not {_AUTHENTICATED, _UNAUTHENTICATED} & set(groups):
        groups = (*groups, _AUTHENTICATED)
    return User(identity.name, identity.uid, groups, identity.extra)


def _quote_strings(values: tuple[str, ...]) -> str:
    return "[]string{" + ", ".join(f'"{value}"' for value in values) + "}" if values else "[]string(nil)"


def _format_user(identity: RequestedIdentity) -> str:
    """Format a user as Go does."""
    inner = ", ".join(f'"{key}":{_quote_strings(values)}' for key, values in sorted(identity.extra.items()))
    extra = f"map[string][]string{{{inner}}}" if identity.extra else "map[string][]string(nil)"
    return (
        f'&user.DefaultInfo{{Name:"", UID:"{identity.uid}", Groups:{_quote_strings(identity.groups)}, Extra:{extra}}}'
    )


def _references(identity: RequestedIdentity) -> str:
    """Format the claims as Go's list of references (releases before 1.36)."""
    found = [f"{{Group  {group}    }}" for group in identity.groups]
    found += [
        f"{{UserExtra  {value}  authentication.k8s.io/v1  {key}}}"
        for key, values in identity.extra.items()
        for value in values
    ]
    if identity.uid:
        found.append(f"{{UID  {identity.uid}  authentication.k8s.io/v1  }}")
    return f"[{' '.join(found)}]"
