"""Validate MutatingWebhookConfigurations and ValidatingWebhookConfigurations.

Rules: pkg/apis/admissionregistration/validation. An update only has to meet the rules that the stored configuration
meets, so that configurations accepted by an earlier release can be updated.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, duplicate, not_supported, required
from apiserver.api.objects import Json
from apiserver.api.types.admissionregistration.webhooks import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from apiserver.api.types.meta import ANY_VALUE
from apiserver.api.validation.items import each_unique
from apiserver.api.values.names import fully_qualified_name
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version
from apiserver.resources.admissionregistration.configurations import ConfigurationStrategy
from apiserver.resources.admissionregistration.matchrules import (
    match_condition_errors,
)
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.core_rules import RULES, validate_label_selector
from apiserver.resources.common.webhook_clients import client_errors, review_version_errors

__all__ = ["MUTATING_WEBHOOKS", "VALIDATING_WEBHOOKS"]


_WEBHOOKS: Final = Path("webhooks")
_REVIEWS: Final = ("v1", "v1beta1")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun", "Some", "Unknown")
_NO_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")


RULES.set(MutatingWebhook, by_rules=tuple(MutatingWebhook.fields))


class WebhooksStrategy(ConfigurationStrategy):
    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        if (obj.get("webhooks") or []) != (old.get("webhooks") or []):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def content_errors(self, ctx: Context, obj: Json, old: Json | None) -> list[FieldError]:
        return _errors(ctx, obj.get("webhooks") or [], None if old is None else old.get("webhooks") or [])


class _Strictness:
    """The optional rules to apply: all for new webhooks, for updates those that the stored webhooks meet."""

    def __init__(self, old: list[Json] | None) -> None:
        known = old or []
        self.side_effects = (
            _NO_SIDE_EFFECTS if all(item.get("sideEffects") in _NO_SIDE_EFFECTS for item in known) else _SIDE_EFFECTS
        )
        reviews = [item.get("admissionReviewVersions") or [] for item in known]
        self.recognized = all(not versions or set(versions) & set(_REVIEWS) for versions in reviews)
        names = [item.get("name", "") for item in known]
        self.unique = len(set(names)) == len(names)
        self.any_label_value = any(
            validate_label_selector(Path(""), item.get(name))
            for item in known
            for name in ("namespaceSelector", "objectSelector")
        )
        self.stored = {
            condition.get("expression", "") for item in known for condition in item.get("matchConditions") or ()
        }


def _errors(ctx: Context, webhooks: list[Json], old: list[Json] | None) -> list[FieldError]:
    strictness = _Strictness(old)
    kept = [item.get("matchConditions") for item in old] if old is not None else None
    same_conditions = [item.get("matchConditions") for item in webhooks] == kept
    errors: list[FieldError] = []
    for at, webhook, is_repeated in each_unique(_WEBHOOKS, webhooks, "name"):
        errors += _webhook_errors(at, webhook, strictness)
        if not same_conditions:
            errors += match_condition_errors(
                at / "matchConditions",
                webhook.get("matchConditions") or (),
                ctx.features.release,
                stored=strictness.stored,
            )
        errors += review_version_errors(
            webhook.get("admissionReviewVersions") or [],
            at / "admissionReviewVersions",
            f"must specify one of {', '.join(_REVIEWS)}",
            recognized=strictness.recognized,
        )
        if strictness.unique and is_repeated and webhook.get("name"):
            errors.append(duplicate(at / "name", webhook["name"]))
    return errors


def _webhook_errors(at: Path, webhook: Json, strictness: _Strictness) -> list[FieldError]:
    errors = fully_qualified_name(at / "name", webhook.get("name", ""))
    # All fields of a validating webhook are fields of a mutating one.
    here = RULES.of(MutatingWebhook).at(at, webhook)
    errors += here.fields("rules", "failurePolicy", "matchPolicy")
    side_effects = webhook.get("sideEffects")
    if side_effects is None:
        errors.append(required(at / "sideEffects", f"must specify one of {', '.join(strictness.side_effects)}"))
    elif side_effects not in strictness.side_effects:
        errors.append(not_supported(at / "sideEffects", Named(side_effects), strictness.side_effects))
    errors += here.field("timeoutSeconds")
    for name in ("namespaceSelector", "objectSelector"):
        errors += here.field(name, ANY_VALUE if strictness.any_label_value else None)
    return (
        errors
        + here.field("reinvocationPolicy")
        + client_errors(webhook.get("clientConfig") or {}, at / "clientConfig")
    )


def _resource(kind: str, schema: Any) -> Resource:
    return Resource(
        group="admissionregistration.k8s.io",
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        namespaced=False,
        categories=("api-extensions",),
        versions=(Version(name="v1", schema=schema),),
        strategy=WebhooksStrategy(),
        storage_prefix=f"{kind.lower()}s",
        unconditional_update=False,
        columns=name_and_age(
            Column(
                name="Webhooks",
                cell=lambda obj: len(obj.get("webhooks") or ()),
                type="integer",
                description="Number of webhooks.",
            )
        ),
    )


MUTATING_WEBHOOKS: Final = _resource("MutatingWebhookConfiguration", MutatingWebhookConfiguration)
VALIDATING_WEBHOOKS: Final = _resource("ValidatingWebhookConfiguration", ValidatingWebhookConfiguration)
