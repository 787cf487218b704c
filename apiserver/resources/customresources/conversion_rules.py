"""How a definition says that its objects are converted. Facts: pkg/apis/apiextensions/validation, apiserver's
pkg/util/webhook/validation.go.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from apiserver.api.fielderrors import FieldError, Path, forbidden, invalid, not_supported, required
from apiserver.api.names import dns1035_label, dns_subdomain

__all__ = ["conversion_errors"]

Json = dict[str, Any]

_REVIEWS: Final = ("v1", "v1beta1")


def conversion_errors(spec: Json, at: Path) -> list[FieldError]:
    conversion = spec.get("conversion")
    if conversion is None:
        return []
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook")
    errors: list[FieldError] = []
    if strategy not in ("", "None") and spec.get("preserveUnknownFields"):
        errors.append(invalid(at / "strategy", strategy, "must be None if spec.preserveUnknownFields is true"))
    if not strategy:
        errors.append(required(at / "strategy"))
    elif strategy not in ("None", "Webhook"):
        errors.append(not_supported(at / "strategy", strategy, ("None", "Webhook")))
    client, versions = (webhook or {}).get("clientConfig"), (webhook or {}).get("conversionReviewVersions") or []
    if strategy == "Webhook":
        return (
            errors + _client(client, at / "webhookClientConfig") + _reviews(versions, at / "conversionReviewVersions")
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
    url, service = client.get("url"), client.get("service")
    if (url is None) is (service is None):
        return [required(at, "exactly one of url or service is required")]
    return _address(url, at / "url") if url is not None else _service(service or {}, at / "service")


def _address(url: str, at: Path) -> list[FieldError]:
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(at, f"url must be a valid URL: {error}{form}")]
    errors: list[FieldError] = []
    if parts.scheme != "https":
        errors.append(invalid(at, parts.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not parts.netloc:
        errors.append(invalid(at, parts.netloc, f"host must be specified{form}"))
    if parts.username is not None:
        shown = parts.netloc.rpartition("@")[0]
        errors.append(invalid(at, shown, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(at, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(at, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _service(service: Json, at: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if not service.get("name"):
        errors.append(required(at / "name"))
    if not service.get("namespace"):
        errors.append(required(at / "namespace"))
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        errors.append(invalid(at / "port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    path = service.get("path")
    if path is None or path == "/":
        return errors
    if not path.startswith("/"):
        errors.append(invalid(at / "path", path, "must start with a '/'"))
    steps = path[1:].split("/")
    if steps and not steps[-1]:
        steps = steps[:-1]
    for index, step in enumerate(steps):
        if not step:
            errors.append(invalid(at / "path", path, f"segment[{index}] may not be empty"))
        else:
            errors += [invalid(at / "path", path, f"segment[{index}]: {text}") for text in dns_subdomain(step)]
    return errors


def _reviews(versions: list[str], at: Path) -> list[FieldError]:
    if not versions:
        return [required(at)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            errors.append(invalid(at[index], version, "duplicate version"))
            continue
        seen.add(version)
        errors += [invalid(at[index], version, text) for text in dns1035_label(version)]
    if not seen & set(_REVIEWS):
        errors.append(invalid(at, versions, f"must include at least one of {', '.join(_REVIEWS)}"))
    return errors
