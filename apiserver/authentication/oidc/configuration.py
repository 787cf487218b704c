"""Reading and validation of AuthenticationConfiguration, from a file or from the --oidc-… flags.

Facts: apiserver, pkg/apis/apiserver/validation; pkg/kubeapiserver/options/authentication.go.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from apiserver.api.errors.field_errors import FieldError, duplicate, forbidden, invalid, required, too_many
from apiserver.api.errors.field_errors import Path as Where
from apiserver.api.helpers.config_files import AUTHENTICATION, ConfigurationError, read_configuration
from apiserver.api.objects import Json
from apiserver.api.values.names import domain_prefixed_path
from apiserver.authentication.oidc.authenticator import JwtAuthenticator
from apiserver.authentication.oidc.mapping import ClaimMapping, ClaimRule, Expression, Mapping, languages
from apiserver.authentication.oidc.provider import Provider
from apiserver.authentication.oidc.signatures import ALGORITHMS
from apiserver.cel.environments.references import selection_paths

if TYPE_CHECKING:
    from apiserver.api.features.gates import Features
    from apiserver.cel.engine import Language

__all__ = ["Anonymous", "Authenticators", "build_authenticators", "read_again", "read_authenticators"]


_GROUP: Final = "apiserver.config.k8s.io"
_KINDS: Final = {f"{_GROUP}/{version}": AUTHENTICATION for version in ("v1", "v1beta1", "v1alpha1")}
_MOST: Final = 64
_EMAIL: Final = ("claims", "email")
_VERIFIED: Final = ("claims", "email_verified")
_BOTH: Final = "claim and expression can't both be set"


class Anonymous(NamedTuple):
    """Whether anonymous requests are allowed; if `paths` is set, only for those paths."""

    enabled: bool
    paths: frozenset[str] = frozenset()


class Authenticators(NamedTuple):
    """The authenticators of the issuers, and the setting for anonymous requests if there is one."""

    issuers: tuple[JwtAuthenticator, ...] = ()
    anonymous: Anonymous | None = None


def read_authenticators(text: bytes, features: Features, disallowed: Collection[str] = ()) -> Authenticators:
    """Read a configuration file.

    `disallowed` are the issuers of this server's own tokens.
    Raises ConfigurationError.
    """
    return build_authenticators(read_configuration(text, _KINDS).obj, features, disallowed)


def read_again(
    text: bytes, first: Authenticators, features: Features, disallowed: Collection[str] = ()
) -> Authenticators:
    """Read a changed configuration file; the anonymous setting must equal that of `first`.

    Raises ConfigurationError.
    """
    found = read_authenticators(text, features, disallowed)
    if found.anonymous != first.anonymous:
        raise ConfigurationError.of([forbidden(Where("anonymous"), "changed from initial configuration file")])
    return found


def build_authenticators(
    spec: Json, features: Features, disallowed: Collection[str] = (), algorithms: Collection[str] = ALGORITHMS
) -> Authenticators:
    """Build the authenticators of a configuration. Raise ConfigurationError."""
    reader = _Reader(features, frozenset(disallowed), tuple(algorithms))
    issuers = reader.issuers(spec.get("jwt") or [])
    anonymous = reader.anonymous(spec.get("anonymous"))
    if reader.errors:
        raise ConfigurationError.of(reader.errors)
    return Authenticators(issuers, anonymous)


class _Reader:
    """Validator and compiler of a configuration. It collects the problems in `errors`."""

    def __init__(self, features: Features, disallowed: frozenset[str], algorithms: tuple[str, ...]) -> None:
        self._features, self._disallowed, self._algorithms = features, disallowed, algorithms
        self.errors: list[FieldError] = []

    def anonymous(self, spec: Json | None) -> Anonymous | None:
        if spec is None:
            return None
        if not self._features.enabled("AnonymousAuthConfigurableEndpoints"):
            text = "anonymous is not supported when AnonymousAuthConfigurableEndpoints feature gate is disabled"
            self.errors.append(forbidden(Where("anonymous"), text))
        paths = [each.get("path", "") for each in spec.get("conditions") or ()]
        if paths and not spec.get("enabled"):
            text = "enabled should be set to true when conditions are defined"
            shown = [{"Path": path} for path in paths]
            self.errors.append(invalid(Where("anonymous") / "conditions", shown, text))
        return Anonymous(bool(spec.get("enabled")), frozenset(paths))

    def issuers(self, spec: list[Json]) -> tuple[JwtAuthenticator, ...]:
        root = Where("jwt")
        if len(spec) > _MOST:
            self.errors.append(too_many(root, len(spec), _MOST))
            return ()
        urls: set[str] = set()
        discoveries: set[str] = set()
        found = []
        for index, each in enumerate(spec):
            made = self._issuer(root[index], each)
            issuer = each.get("issuer") or {}
            url, discovery = issuer.get("url", ""), issuer.get("discoveryURL") or ""
            if url in urls:
                self.errors.append(duplicate(root[index] / "issuer" / "url", url))
            urls.add(url)
            if discovery and discovery in discoveries:
                self.errors.append(duplicate(root[index] / "issuer" / "discoveryURL", discovery))
            discoveries.add(discovery)
            if made is not None:
                found.append(made)
        return tuple(found)

    def _issuer(self, where: Where, spec: Json) -> JwtAuthenticator | None:
        before, issuer = len(self.errors), spec.get("issuer") or {}
        place, url, discovery = where / "issuer", issuer.get("url", ""), issuer.get("discoveryURL") or ""
        if not url:
            self.errors.append(required(place / "url"))
        else:
            self._url(place / "url", url, self._disallowed)
        if discovery:
            if url and url.rstrip("/") == discovery.rstrip("/"):
                text = "discoveryURL must be different from URL"
                self.errors.append(invalid(place / "discoveryURL", discovery, text))
            self._url(place / "discoveryURL", discovery)
        audiences = issuer.get("audiences") or []
        self._audiences(place, audiences, issuer.get("audienceMatchPolicy", ""))
        provider = None
        try:
            provider = Provider(url, discovery, issuer.get("certificateAuthority", ""))
        except (OSError, ValueError):
            text = "data does not contain any valid RSA or ECDSA certificates"
            self.errors.append(invalid(place / "certificateAuthority", "<omitted>", text))
        self._egress(place / "egressSelectorType", issuer.get("egressSelectorType", ""))
        mapping = self._mapping(where, spec)
        if provider is None or mapping is None or len(self.errors) > before:
            return None
        return JwtAuthenticator(provider, audiences, self._algorithms, mapping)

    def _url(self, where: Where, url: str, disallowed: frozenset[str] = frozenset()) -> None:
        if url in disallowed:
            text = f"URL must not overlap with disallowed issuers: [{' '.join(sorted(disallowed))}]"
            self.errors.append(invalid(where, url, text))
        try:
            parts = urlsplit(url)
        except ValueError as error:
            self.errors.append(invalid(where, url, str(error)))
            return
        for wrong, text in (
            (parts.scheme != "https", "URL scheme must be https"),
            ("@" in parts.netloc, "URL must not contain a username or password"),
            (bool(parts.query), "URL must not contain a query"),
            (bool(parts.fragment), "URL must not contain a fragment"),
        ):
            if wrong:
                self.errors.append(invalid(where, url, text))

    def _audiences(self, place: Where, audiences: list[str], policy: str) -> None:
        where = place / "audiences"
        if not audiences:
            self.errors.append(required(where, f"at least one {where} is required"))
            return
        for index, audience in enumerate(audiences):
            if not audience:
                self.errors.append(required(where[index]))
            if audience in audiences[:index]:
                self.errors.append(duplicate(where[index], audience))
        if len(audiences) > 1 and policy != "MatchAny":
            text = "audienceMatchPolicy must be MatchAny for multiple audiences"
            self.errors.append(invalid(place / "audienceMatchPolicy", policy, text))
        if len(audiences) == 1 and policy not in ("", "MatchAny"):
            text = "audienceMatchPolicy must be empty or MatchAny for single audience"
            self.errors.append(invalid(place / "audienceMatchPolicy", policy, text))

    def _egress(self, where: Where, type_: str) -> None:
        if type_ and type_ not in ("controlplane", "cluster"):
            self.errors.append(invalid(where, type_, "egress selector must be either controlplane or cluster"))

    def _mapping(self, where: Where, spec: Json) -> Mapping | None:
        required_claims, rules = self._claim_rules(where / "claimValidationRules", spec.get("claimValidationRules"))
        mappings, place = spec.get("claimMappings") or {}, where / "claimMappings"
        username = self._parse_prefixed(place / "username", mappings.get("username") or {}, needed=True)
        groups = self._parse_prefixed(place / "groups", mappings.get("groups") or {})
        uid = self._uid(place / "uid", mappings.get("uid") or {})
        extra = self._extra(place / "extra", mappings.get("extra") or [])
        self._email(place / "username" / "expression", username, (*rules, *(each for _, each in extra)))
        user_rules = self._user_rules(where / "userValidationRules", spec.get("userValidationRules") or [])
        if username is None or groups is None or uid is None:
            return None
        return Mapping(
            username=username, groups=groups, uid=uid, extra=tuple(extra), required=tuple(required_claims),
            rules=tuple(rules), user_rules=tuple(user_rules),
        )  # fmt: skip

    def _claim_rules(self, where: Where, spec: list[Json] | None) -> tuple[list[ClaimRule], list[Expression]]:
        claims: dict[str, ClaimRule] = {}
        expressions: dict[str, Expression | None] = {}
        for index, rule in enumerate(spec or ()):
            place, claim, source = where[index], rule.get("claim", ""), rule.get("expression", "")
            if claim and source:
                self.errors.append(invalid(place, claim, _BOTH))
            elif claim:
                if rule.get("message"):
                    self.errors.append(
                        invalid(place / "message", rule["message"], "may not be specified when claim is set")
                    )
                if claim in claims:
                    self.errors.append(duplicate(place / "claim", claim))
                claims[claim] = ClaimRule(claim, rule.get("requiredValue", ""))
            elif source:
                if rule.get("requiredValue"):
                    text = "may not be specified when expression is set"
                    self.errors.append(invalid(place / "requiredValue", rule["requiredValue"], text))
                if source in expressions:
                    self.errors.append(duplicate(place / "expression", source))
                    continue
                expressions[source] = self._rule(place / "expression", source, languages()[0], rule.get("message", ""))
            else:
                self.errors.append(required(place, "claim or expression is required"))
        return list(claims.values()), [each for each in expressions.values() if each is not None]

    def _user_rules(self, where: Where, spec: list[Json]) -> list[Expression]:
        found: dict[str, Expression | None] = {}
        for index, rule in enumerate(spec):
            place, source = where[index] / "expression", rule.get("expression", "")
            if not source:
                self.errors.append(required(place))
            elif source in found:
                self.errors.append(duplicate(place, source))
            else:
                found[source] = self._rule(place, source, languages()[1], rule.get("message", ""))
        return [each for each in found.values() if each is not None]

    def _parse_prefixed(self, where: Where, spec: Json, *, needed: bool = False) -> ClaimMapping | None:
        claim, prefix, source = spec.get("claim", ""), spec.get("prefix"), spec.get("expression", "")
        expression = None
        if claim and source:
            self.errors.append(invalid(where, "", _BOTH))
        elif source:
            if prefix is not None:
                self.errors.append(invalid(where / "prefix", prefix, "may not be specified when expression is set"))
            expression = self._expression(where / "expression", source)
            if expression is None:
                return None
        elif claim and prefix is None:
            text = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
            self.errors.append(required(where / "prefix", text))
        elif not claim and needed:
            self.errors.append(required(where, "claim or expression is required"))
        return ClaimMapping(claim, prefix or "", expression)

    def _uid(self, where: Where, spec: Json) -> ClaimMapping | None:
        claim, source = spec.get("claim", ""), spec.get("expression", "")
        if claim and source:
            self.errors.append(invalid(where, "", _BOTH))
            return None
        return ClaimMapping(claim, "", self._expression(where / "expression", source) if source else None)

    def _extra(self, where: Where, spec: list[Json]) -> list[tuple[str, Expression]]:
        found: dict[str, Expression] = {}
        seen: set[str] = set()
        for index, each in enumerate(spec):
            place, key, source = where[index], each.get("key", ""), each.get("valueExpression", "")
            self.errors += domain_prefixed_path(place / "key", key)
            if key != key.lower():
                self.errors.append(invalid(place / "key", key, "must be lowercase"))
            domain = key.partition("/")[0] if "/" in key else ""
            if any(domain == own or domain.endswith(f".{own}") for own in ("kubernetes.io", "k8s.io")):
                text = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
                self.errors.append(invalid(place / "key", key, text))
            if key in seen:
                self.errors.append(duplicate(place / "key", key))
                continue
            seen.add(key)
            if not source:
                self.errors.append(required(place / "valueExpression"))
            elif (compiled := self._expression(place / "valueExpression", source)) is not None:
                found[key] = compiled
        return list(found.items())

    def _email(self, where: Where, username: ClaimMapping | None, others: tuple[Expression, ...]) -> None:
        """Require a check of claims.email_verified if the username comes from claims.email."""
        source = username.expression if username is not None else None
        if source is None or _EMAIL not in selection_paths(source.source):
            return
        if any(_VERIFIED in selection_paths(each.source) for each in (source, *others)):
            return
        self.errors.append(invalid(
            where, source.source,
            "claims.email_verified must be used in claimMappings.username.expression or"
            " claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in"
            " claimMappings.username.expression",
        ))  # fmt: skip

    def _expression(self, where: Where, source: str) -> Expression | None:
        from apiserver.cel.environments.admission import ANY_RESULT

        return self._compile(where, source, languages()[0], ANY_RESULT)

    def _rule(self, where: Where, source: str, language: Language, message: str) -> Expression | None:
        from apiserver.cel.environments.admission import BOOL_RESULT

        found = self._compile(where, source, language, BOOL_RESULT)
        return found and found._replace(message=message)

    def _compile(self, where: Where, source: str, language: Language, result: Any) -> Expression | None:
        from apiserver.cel.engine import CompileFailure
        from apiserver.cel.environments.admission import compile_admission

        try:
            return Expression(source, compile_admission(source, language, result))
        except CompileFailure as error:
            self.errors.append(invalid(where, source, str(error).partition(" but got")[0]))
            return None
