"""Configuration files of apiserver.config.k8s.io: their types, and a strict reader.

found = read_configuration(path.read_bytes(), KINDS)      a Configuration, or ConfigurationError
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from apiserver.api.codec.codec import DecodeError, decode, interpret, loads
from apiserver.api.errors.field_errors import FieldError, aggregate
from apiserver.api.objects import Json
from apiserver.api.schema.language import BOOL, INT32, RAW, STRING, ListOf, Struct, Type, field
from apiserver.api.types.core.quotas import ScopedResourceSelectorRequirement
from apiserver.api.types.meta import TYPE_META

__all__ = [
    "ADMISSION",
    "AUTHENTICATION",
    "AUTHORIZATION",
    "EGRESS",
    "EVENT_LIMITS",
    "MUTATING_POLICIES",
    "QUOTA",
    "TRACING",
    "VALIDATING_POLICIES",
    "WEBHOOKS",
    "Configuration",
    "ConfigurationError",
    "read_configuration",
]

_GROUP: Final = "apiserver.config.k8s.io"


class ConfigurationError(ValueError):
    """An unusable file; the text is one line."""

    @classmethod
    def of(cls, errors: list[FieldError]) -> ConfigurationError:
        return cls(aggregate(errors))


class Configuration(NamedTuple):
    """The object in a file, with its apiVersion."""

    version: str
    obj: Json


def _struct(name: str, doc: str, /, **fields: tuple[Type, str] | tuple[Type, str, bool]) -> Struct:
    """Build a type from fields given as (type, doc), or (type, doc, True) where absent differs from empty."""

    def make() -> tuple[Any, ...]:
        return tuple(
            field(each, number, said[0], doc=said[1], pointer=len(said) == 3)
            for number, (each, said) in enumerate(fields.items(), 1)
        )

    return Struct(f"io.k8s.apiserver.pkg.apis.apiserver.v1.{name}", make, doc=doc)


def _kind(name: str, doc: str, /, **fields: tuple[Type, str] | tuple[Type, str, bool]) -> Struct:
    inner = _struct(name, doc, **fields)
    return Struct(
        f"io.k8s.apiserver.pkg.apis.apiserver.v1.{name}",
        lambda: (TYPE_META, *inner.declared),
        gvk=(_GROUP, "v1", name),
        doc=doc,
    )


_Connection: Final = _struct(
    "WebhookConnectionInfo", "WebhookConnectionInfo says how a webhook is reached.",
    type=(STRING, "KubeConfigFile."),
    kubeConfigFile=(STRING, "The absolute path of a kubeconfig.", True),
)  # fmt: skip
_Webhook: Final = _struct(
    "WebhookConfiguration", "WebhookConfiguration says how a webhook is asked.",
    authorizedTTL=(STRING, "How long what is allowed is remembered; 5m0s."),
    cacheAuthorizedRequests=(BOOL, "Whether it is remembered at all; true.", True),
    unauthorizedTTL=(STRING, "How long anything else is remembered; 30s."),
    cacheUnauthorizedRequests=(BOOL, "Whether it is remembered at all; true.", True),
    timeout=(STRING, "How long an answer is waited for, up to 30s."),
    subjectAccessReviewVersion=(STRING, "The version of the reviews that are sent: v1 or v1beta1."),
    matchConditionSubjectAccessReviewVersion=(STRING, "The version that match conditions see: v1."),
    failurePolicy=(STRING, "What follows where there is no answer: NoOpinion or Deny."),
    connectionInfo=(_Connection, "How the webhook is reached."),
    matchConditions=(
        ListOf(_struct(
            "WebhookMatchCondition", "WebhookMatchCondition is true of requests that the webhook is asked about.",
            expression=(STRING, "A CEL expression about `request`, the spec of a SubjectAccessReview."),
        )),
        "What has to be true of a request, up to 64 conditions.",
    ),
)  # fmt: skip
AUTHORIZATION: Final = _kind(
    "AuthorizationConfiguration", "AuthorizationConfiguration lists the authorizers of a server.",
    authorizers=(
        ListOf(_struct(
            "AuthorizerConfiguration", "AuthorizerConfiguration is one authorizer.",
            type=(STRING, "AlwaysAllow, AlwaysDeny, ABAC, Node, RBAC or Webhook."),
            name=(STRING, "A DNS name, unique in the file."),
            webhook=(_Webhook, "Of type Webhook alone.", True),
        )),
        "In the order in which they are asked.",
    ),
)  # fmt: skip

QUOTA: Final = _kind(
    "ResourceQuotaConfiguration", "ResourceQuotaConfiguration says what may only be used where a quota limits it.",
    limitedResources=(
        ListOf(_struct(
            "LimitedResource", "LimitedResource is a kind of objects of whose use a quota is needed.",
            apiGroup=(STRING, "The group of the kind; empty for the core group."),
            resource=(STRING, "The resource, such as pods."),
            matchContains=(ListOf(STRING), "Parts of the names of what an object uses, such as requests.storage."),
            matchScopes=(ListOf(ScopedResourceSelectorRequirement), "Scopes that objects are in."),
        )),
        "What needs a quota.",
    ),
)  # fmt: skip

EVENT_LIMITS: Final = _kind(
    "Configuration", "Configuration says how often Events may be written.",
    limits=(
        ListOf(_struct(
            "Limit", "Limit is how often Events may be written that have something in common.",
            type=(STRING, "Server, Namespace, User or SourceAndObject."),
            qps=(INT32, "How many a second."),
            burst=(INT32, "How many at once."),
            cacheSize=(INT32, "How many namespaces, users or things are told apart; 4096."),
        )),
        "The limits, all of which hold.",
    ),
)  # fmt: skip

_Prefixed: Final = _struct(
    "PrefixedClaimOrExpression", "PrefixedClaimOrExpression is a text that is made of claims.",
    claim=(STRING, "The claim that is used."),
    prefix=(STRING, "What is put before it.", True),
    expression=(STRING, "A CEL expression about `claims`, in place of a claim."),
)  # fmt: skip
_Mapped: Final = _struct(
    "ClaimOrExpression", "ClaimOrExpression is a text that is made of claims.",
    claim=(STRING, "The claim that is used."),
    expression=(STRING, "A CEL expression about `claims`, in place of a claim."),
)  # fmt: skip
_Issuer: Final = _struct(
    "Issuer", "Issuer says who issues tokens, and for whom.",
    url=(STRING, "The issuer, as tokens and its discovery document name it."),
    discoveryURL=(STRING, "Where the discovery document is, if not below the issuer's URL.", True),
    certificateAuthority=(STRING, "Whom connections to the issuer trust, in PEM; the system's authorities."),
    audiences=(ListOf(STRING), "Tokens have to be for one of them."),
    audienceMatchPolicy=(STRING, "MatchAny, needed with several audiences."),
    egressSelectorType=(STRING, "Through which network the issuer is reached; there is one alone here."),
)  # fmt: skip
AUTHENTICATION: Final = _kind(
    "AuthenticationConfiguration", "AuthenticationConfiguration says whose tokens a server takes.",
    jwt=(
        ListOf(_struct(
            "JWTAuthenticator", "JWTAuthenticator takes the tokens of one issuer.",
            issuer=(_Issuer, "Who issues tokens, and for whom."),
            claimValidationRules=(
                ListOf(_struct(
                    "ClaimValidationRule", "ClaimValidationRule has to hold for the claims of a token.",
                    claim=(STRING, "A claim that has to have a value."),
                    requiredValue=(STRING, "The value."),
                    expression=(STRING, "A CEL expression about `claims`, in place of a claim."),
                    message=(STRING, "What is said where the expression is false."),
                )),
                "What has to hold for the claims.",
            ),
            claimMappings=(
                _struct(
                    "ClaimMappings", "ClaimMappings makes a user of claims.",
                    username=(_Prefixed, "The user's name."),
                    groups=(_Prefixed, "The user's groups."),
                    uid=(_Mapped, "The user's uid."),
                    extra=(
                        ListOf(_struct(
                            "ExtraMapping", "ExtraMapping is one thing more that is known of a user.",
                            key=(STRING, "A path below a domain, in lower case."),
                            valueExpression=(STRING, "A CEL expression about `claims`."),
                        )),
                        "What else is known of the user.",
                    ),
                ),
                "How a user is made of the claims.",
            ),
            userValidationRules=(
                ListOf(_struct(
                    "UserValidationRule", "UserValidationRule has to hold for the user that was made of a token.",
                    expression=(STRING, "A CEL expression about `user`."),
                    message=(STRING, "What is said where the expression is false."),
                )),
                "What has to hold for the user.",
            ),
        )),
        "Issuers whose tokens are taken, up to 64.",
    ),
    anonymous=(
        _struct(
            "AnonymousAuthConfig", "AnonymousAuthConfig says who may come without credentials.",
            enabled=(BOOL, "Whether anybody may."),
            conditions=(
                ListOf(_struct(
                    "AnonymousAuthCondition", "AnonymousAuthCondition names a path.",
                    path=(STRING, "A path that is asked for without credentials."),
                )),
                "The paths for which that holds; all without any.",
            ),
        ),
        "Who may come without credentials; what --anonymous-auth says where it is left out.",
        True,
    ),
)  # fmt: skip
ADMISSION: Final = _kind(
    "AdmissionConfiguration", "AdmissionConfiguration configures admission plugins.",
    plugins=(
        ListOf(_struct(
            "AdmissionPluginConfiguration", "AdmissionPluginConfiguration configures one plugin.",
            name=(STRING, "The plugin."),
            path=(STRING, "A file with its configuration, beside this one."),
            configuration=(RAW, "Its configuration, in place of a file.", True),
        )),
        "The plugins that are configured.",
    ),
)  # fmt: skip
TRACING: Final = _kind(
    "TracingConfiguration", "TracingConfiguration says where spans of requests are sent.",
    endpoint=(STRING, "Who takes them, by OTLP over gRPC without TLS; localhost:4317.", True),
    samplingRatePerMillion=(INT32, "Of how many requests whose sender does not say whether; 0.", True),
)  # fmt: skip
EGRESS: Final = _kind(
    "EgressSelectorConfiguration", "EgressSelectorConfiguration says how other networks are reached.",
    egressSelections=(
        ListOf(_struct(
            "EgressSelection", "EgressSelection says how one network is reached.",
            name=(STRING, "controlplane, etcd or cluster."),
            connection=(
                _struct(
                    "Connection", "Connection is the way there.",
                    proxyProtocol=(STRING, "Direct; others are not built."),
                    transport=(RAW, "How the proxy is reached.", True),
                ),
                "The way there.",
            ),
        )),
        "The networks.",
    ),
)  # fmt: skip

WEBHOOKS: Final = Struct(
    "io.k8s.apiserver.pkg.admission.plugin.webhook.config.v1.WebhookAdmissionConfiguration",
    lambda: (
        TYPE_META,
        field("kubeConfigFile", 1, STRING, doc="A kubeconfig whose users are named as the webhooks that they are for."),
        field("staticManifestsDir", 2, STRING, doc="The absolute path of a directory with configurations of webhooks."),
    ),
    doc="WebhookAdmissionConfiguration configures the plugins that ask webhooks.",
)


def _policies(verb: str) -> Struct:
    name = f"{verb}AdmissionPolicyConfiguration"
    return _kind(
        name, f"{name} says where else there are policies.",
        staticManifestsDir=(STRING, "The absolute path of a directory with policies and bindings."),
    )  # fmt: skip


VALIDATING_POLICIES: Final = _policies("Validating")
MUTATING_POLICIES: Final = _policies("Mutating")

#: The names of kinds in older versions.
_OLD_NAMES: Final = ("WebhookAdmission", "Configuration")


def read_configuration(text: bytes, kinds: Mapping[str, Struct]) -> Configuration:
    """Return the object in a file of YAML or JSON, one of the kinds by apiVersion. Raise ConfigurationError."""
    try:
        body = loads(text, "application/yaml")
        version, kind = interpret(body)
        known = kinds.get(version)
        wanted = next(iter(kinds.values())).kind
        kind = wanted if kind in _OLD_NAMES else kind
        if not kind:
            raise ConfigurationError("Object 'Kind' is missing in the file")
        if known is None or kind != wanted:
            raise ConfigurationError(f'no kind "{kind}" is registered for version "{version}"; {wanted} is wanted')
        found = decode(known, body.value, body)
    except DecodeError as error:
        raise ConfigurationError(str(error)) from None
    if found.problems:
        raise ConfigurationError(f"strict decoding error: {', '.join(found.problems)}")
    return Configuration(version, found.obj)
