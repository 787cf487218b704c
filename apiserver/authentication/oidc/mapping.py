"""Mapping of a token's claims to a user, by claim names or CEL expressions, with validation rules.

Facts: apiserver, plugin/pkg/authenticator/token/oidc, pkg/authentication/cel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apiserver.api.objects import Json
from apiserver.cel.errors import EvaluationError
from apiserver.request.messages import User

if TYPE_CHECKING:
    from apiserver.cel.engine import Compiled, Language

__all__ = ["ClaimMapping", "ClaimRule", "Expression", "Mapping", "MappingError", "languages", "user_info"]


_CALL_LIMIT: Final = 1_000_000
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"


class MappingError(ValueError):
    """Error in mapping claims to a user. The text gives the reason."""


class Expression(NamedTuple):
    """A compiled expression, and the message for a rule that is false."""

    source: str
    compiled: Compiled
    message: str = ""

    def value(self, about: Json) -> Any:
        """Evaluate the expression. Raise MappingError."""
        try:
            return self.compiled.evaluate([about], _CALL_LIMIT)[0]
        except EvaluationError as error:
            raise MappingError(f"expression '{self.source}' resulted in error: {error}") from None


class ClaimMapping(NamedTuple):
    """A claim with a prefix, or an expression."""

    claim: str = ""
    prefix: str = ""
    expression: Expression | None = None


NOTHING: Final = ClaimMapping()


class ClaimRule(NamedTuple):
    """A claim and its required value."""

    claim: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """Mapping from claims to a user."""

    username: ClaimMapping
    groups: ClaimMapping = NOTHING
    uid: ClaimMapping = NOTHING
    extra: tuple[tuple[str, Expression], ...] = ()
    required: tuple[ClaimRule, ...] = ()
    rules: tuple[Expression, ...] = ()
    user_rules: tuple[Expression, ...] = ()

    def user(self, claims: Json) -> User:
        """Return the user of the claims. Raise MappingError."""
        name = self._name(claims)
        groups = self._groups(claims)
        uid = self._text("uid", "uid claim", self.uid, claims) if self.uid != NOTHING else ""
        extra = self._extra(claims)
        for rule in self.required:
            if rule.claim not in claims:
                raise MappingError(f"oidc: required claim {rule.claim} not present in ID token")
            value = _string(claims[rule.claim], f"oidc: parse claim {rule.claim}")
            if value != rule.value:
                raise MappingError(
                    f"oidc: required claim {rule.claim} value does not match. Got = {value}, want = {rule.value}"
                )
        _check_rules(self.rules, claims, "oidc: error evaluating claim validation expression")
        user = User(name, uid, groups, extra)
        if self.user_rules:
            _check_rules(self.user_rules, user_info(user), "oidc: error evaluating user info validation rule")
        return user

    def _name(self, claims: Json) -> str:
        name = self._text("username", "username claims", self.username, claims)
        if self.username.expression is not None:
            if not name:
                raise MappingError("oidc: empty username via CEL expression is not allowed")
            return name
        if self.username.claim == "email" and "email_verified" in claims:
            proven = claims["email_verified"]
            if not isinstance(proven, bool):
                raise MappingError("oidc: parse 'email_verified' claim: it is not true or false")
            if not proven:
                raise MappingError("oidc: email not verified")
        return self.username.prefix + name

    def _text(self, what: str, claim_text: str, mapped: ClaimMapping, claims: Json) -> str:
        if mapped.expression is None:
            if mapped.claim not in claims:
                raise MappingError(f'oidc: parse {claim_text} "{mapped.claim}": claim not present')
            return _string(claims[mapped.claim], f'oidc: parse {claim_text} "{mapped.claim}"')
        value = _evaluate(mapped.expression, claims, f"oidc: error evaluating {what} claim expression")
        if not isinstance(value, str):
            raise MappingError(
                f"oidc: error evaluating {what} claim expression: {what} claim expression must return a string"
            )
        return value

    def _groups(self, claims: Json) -> tuple[str, ...]:
        mapped = self.groups
        if mapped.expression is not None:
            start = "oidc: error evaluating group claim expression"
            return _texts(_evaluate(mapped.expression, claims, start), start)
        found = claims.get(mapped.claim) if mapped.claim else None
        if found is None:
            return ()
        values = [found] if isinstance(found, str) else found
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise MappingError(f'oidc: parse groups claim "{mapped.claim}": neither a text nor a list of texts')
        return tuple(mapped.prefix + each for each in values)

    def _extra(self, claims: Json) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        if isinstance(claims.get("jti"), str) and claims["jti"]:
            found[_CREDENTIAL] = (f"JTI={claims['jti']}",)
        for key, expression in self.extra:
            start = f"oidc: error evaluating extra claim expression: {expression.source}"
            values = _texts(_evaluate(expression, claims, "oidc: error evaluating extra claim expression"), start)
            if values:
                found[key] = values
        return found


def _string(value: Any, start: str) -> str:
    if not isinstance(value, str):
        raise MappingError(f"{start}: json: cannot unmarshal {_kind(value)} into Go value of type string")
    return value


def _kind(value: Any) -> str:
    kinds = {bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def _evaluate(expression: Expression, about: Json, start: str) -> Any:
    try:
        return expression.value(about)
    except MappingError as error:
        raise MappingError(f"{start}: {error}") from None


def _texts(value: Any, start: str) -> tuple[str, ...]:
    """Return a string or a list of strings as a tuple without empty strings; null gives an empty tuple."""
    values = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(values, list | tuple) or not all(isinstance(each, str) for each in values):
        raise MappingError(f"{start}: expression must return a string or a list of strings")
    return tuple(filter(None, values))


def _check_rules(rules: tuple[Expression, ...], about: Json, start: str) -> None:
    """Raise MappingError for the first rule that is false."""
    values = [_evaluate(rule, about, start) for rule in rules]
    for rule, value in zip(rules, values, strict=True):
        if not isinstance(value, bool):
            raise MappingError(f"{start}: validation expression must return a boolean")
        if not value:
            raise MappingError(f"{start}: validation expression '{rule.source}' failed: {rule.message}")


def user_info(user: User) -> Json:
    """Return a user in the form that expressions see."""
    return {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }


@lru_cache(maxsize=1)
def languages() -> tuple[Language, Language]:
    """Return the languages of expressions about claims and about users."""
    from apiserver.cel.engine import build_language
    from apiserver.cel.environments.devices import NEWEST
    from apiserver.cel.language.types import DYN, STRING, list_of, map_of, struct

    texts = list_of(STRING)
    info = {"username": STRING, "uid": STRING, "groups": texts, "extra": map_of(STRING, texts)}
    claims = build_language(NEWEST, {"claims": map_of(STRING, DYN)}, {}, {}, [])
    user = build_language(NEWEST, {"user": struct("kubernetes.UserInfo")}, {"kubernetes.UserInfo": info}, {}, [])
    return claims, user
