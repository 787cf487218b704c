"""Validate the conversion of a definition.

Facts: pkg/apis/apiextensions/validation, apiserver's pkg/util/webhook/validation.go.
"""

from __future__ import annotations

from apiserver.api.credentials.certificates import bundle_problem
from apiserver.api.errors.field_errors import FieldError, Named, Path, forbidden, invalid, not_supported, required
from apiserver.api.objects import Json
from apiserver.resources.common.webhook_clients import client_errors, review_version_errors

__all__ = ["bundle_errors", "conversion_bundle", "conversion_errors"]


def conversion_errors(spec: Json, at: Path) -> list[FieldError]:
    conversion = spec.get("conversion")
    if conversion is None:
        return []
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook")
    errors: list[FieldError] = []
    if strategy != "None" and spec.get("preserveUnknownFields"):
        errors.append(invalid(at / "strategy", strategy, "must be None if spec.preserveUnknownFields is true"))
    if not strategy:
        errors.append(required(at / "strategy"))
    elif strategy not in ("None", "Webhook"):
        errors.append(not_supported(at / "strategy", strategy, ("None", "Webhook")))
    client, versions = (webhook or {}).get("clientConfig"), (webhook or {}).get("conversionReviewVersions") or []
    if strategy == "Webhook":
        return (
            errors
            + _client(client, at / "webhookClientConfig")
            + review_version_errors(versions, at / "conversionReviewVersions", "")
        )
    text = "should not be set when strategy is not set to Webhook"
    if client is not None:
        errors.append(forbidden(at / "webhookClientConfig", text))
    if versions:
        errors.append(forbidden(at / "conversionReviewVersions", text))
    return errors


def _client(client: Json | None, at: Path) -> list[FieldError]:
    if client is None:
        return [required(at, "required when strategy is set to Webhook")]
    return client_errors(client, at)


def conversion_bundle(spec: Json) -> str:
    """Return the CA bundle of the conversion webhook in base64; "" if there is none."""
    webhook = (spec.get("conversion") or {}).get("webhook") or {}
    found: str = (webhook.get("clientConfig") or {}).get("caBundle") or ""
    return found


def bundle_errors(spec: Json, before: Json, at: Path) -> list[FieldError]:
    """Validate the CA bundle of an established definition. An invalid stored bundle may stay."""
    bundle, known = conversion_bundle(spec), conversion_bundle(before)
    if not bundle or spec["conversion"].get("strategy") != "Webhook" or (known and bundle_problem(known)):
        return []
    problem = bundle_problem(bundle)
    return [invalid(at / "webhookClientConfig" / "caBundle", Named(bundle), problem)] if problem else []
