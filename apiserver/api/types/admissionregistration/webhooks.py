"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration of admissionregistration.k8s.io/v1."""

from __future__ import annotations

from typing import Final

from apiserver.api.schema.language import BYTES, INT32, STRING, Field, ListOf, Struct, field, string
from apiserver.api.schema.limits import Limits
from apiserver.api.types.admissionregistration.policies import V1
from apiserver.api.types.admissionregistration.rules import (
    FailurePolicyType,
    MatchPolicyType,
    ReinvocationPolicyType,
    RuleWithOperations,
)
from apiserver.api.types.meta import TYPE_META, LabelSelector, ObjectMeta, list_of

__all__ = [
    "MutatingWebhook",
    "MutatingWebhookConfiguration",
    "MutatingWebhookConfigurationList",
    "ValidatingWebhookConfiguration",
    "ValidatingWebhookConfigurationList",
]

_PREFIX: Final = "io.k8s.api.admissionregistration.v1."
_GROUP: Final = "admissionregistration.k8s.io"
_SECONDS: Final = Limits(least=1, most=30, words="the timeout value must be between 1 and 30 seconds")

SideEffectClass = string("v1.SideEffectClass", "None", "NoneOnDryRun", "Some", "Unknown")
ServiceReference = Struct(_PREFIX + "ServiceReference", lambda: (
    field("namespace", 1, STRING, omit=False, required=True, doc="Namespace of the service."),
    field("name", 2, STRING, omit=False, required=True, doc="Name of the service."),
    field("path", 3, STRING, pointer=True, doc="Path of the URL at which the webhook is called."),
    field("port", 4, INT32, pointer=True, fills=443, doc="Port of the service; 443 by default."),
), doc="ServiceReference points to a service.")  # fmt: skip
WebhookClientConfig = Struct(_PREFIX + "WebhookClientConfig", lambda: (
    field("url", 3, STRING, pointer=True, doc="Address of the webhook, with https; instead of service."),
    field("service", 1, ServiceReference, pointer=True, doc="Service of the webhook; instead of url."),
    field("caBundle", 2, BYTES, doc="Certificates in PEM by which the webhook's own is checked; those of the system "
        "without any."),
), doc="WebhookClientConfig has the address of a webhook and the certificates to verify it.")  # fmt: skip


def _shared(object_selector: int, match_conditions: int) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """Return the fields common to both kinds of webhooks: those before and those after the reinvocation policy."""
    before = (
        field("name", 1, STRING, omit=False, required=True,
            doc="Name of the webhook, a domain of three segments or more, such as pods.policy.example.com."),
        field("clientConfig", 2, WebhookClientConfig, omit=False, required=True, doc="How to call it."),
        field("rules", 3, ListOf(RuleWithOperations), doc="Operations and resources that it is called for."),
        field("failurePolicy", 4, FailurePolicyType, pointer=True, fills="Fail",
            doc="Treatment of a request if the webhook cannot be called: Fail (the default) or Ignore."),
        field("matchPolicy", 9, MatchPolicyType, pointer=True, fills="Equivalent",
            doc="Equivalent (the default) also calls it, with the object converted, for requests in other versions of "
                "a resource that a rule names; Exact does not."),
        field("namespaceSelector", 5, LabelSelector, pointer=True, fills={},
            doc="Namespaces, by their labels, whose objects it is called for; all by default."),
        field("objectSelector", object_selector, LabelSelector, pointer=True, fills={},
            doc="Objects, by their labels before or after the request, that it is called for; all by default."),
        field("sideEffects", 6, SideEffectClass, omit=False, pointer=True, required=True,
            doc="Side effects of a call: None, or NoneOnDryRun if dry runs have none."),
        field("timeoutSeconds", 7, INT32, pointer=True, fills=10, limits=_SECONDS,
            doc="Timeout in seconds, 1 to 30; 10 by default."),
        field("admissionReviewVersions", 8, ListOf(STRING), omit=False, required=True,
            doc="Versions of AdmissionReview that it understands, the preferred one first."),
    )  # fmt: skip
    after = (
        field("matchConditions", match_conditions, ListOf(V1.MatchCondition, "map", ("name",), merge_key="name"),
            doc="Conditions that must all be true for the webhook to be called; 64 at most."),
    )  # fmt: skip
    return before, after


def _mutating() -> tuple[Field, ...]:
    before, after = _shared(11, 12)
    policy = field(
        "reinvocationPolicy",
        10,
        ReinvocationPolicyType,
        pointer=True,
        fills="Never",
        doc="IfNeeded calls it again if later plugins changed the object; Never (the default) does not.",
    )
    return (*before, policy, *after)


def _validating() -> tuple[Field, ...]:
    before, after = _shared(10, 11)
    return (*before, *after)


def _configuration(kind: str, webhook: Struct, doc: str) -> Struct:
    return Struct(_PREFIX + kind, lambda: (
        TYPE_META,
        field("metadata", 1, ObjectMeta, omit=False, doc="Standard object's metadata."),
        field("webhooks", 2, ListOf(webhook, "map", ("name",), merge_key="name"),
            doc="The webhooks and what they are called for."),
    ), gvk=(_GROUP, "v1", kind), doc=doc)  # fmt: skip


MutatingWebhook = Struct(_PREFIX + "MutatingWebhook", _mutating,
    doc="MutatingWebhook is a webhook that may change objects.")  # fmt: skip
ValidatingWebhook = Struct(_PREFIX + "ValidatingWebhook", _validating,
    doc="ValidatingWebhook is a webhook that may refuse requests.")  # fmt: skip
MutatingWebhookConfiguration = _configuration("MutatingWebhookConfiguration", MutatingWebhook,
    "MutatingWebhookConfiguration says which webhooks may change objects before they are stored.")  # fmt: skip
ValidatingWebhookConfiguration = _configuration("ValidatingWebhookConfiguration", ValidatingWebhook,
    "ValidatingWebhookConfiguration says which webhooks may refuse requests.")  # fmt: skip

MutatingWebhookConfigurationList = list_of(MutatingWebhookConfiguration)
ValidatingWebhookConfigurationList = list_of(ValidatingWebhookConfiguration)
