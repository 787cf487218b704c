"""Validate client configurations of webhooks. Facts: apiserver's pkg/util/webhook/validation.go."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from apiserver.api.errors.field_errors import FieldError, Path, go_quote, invalid, required
from apiserver.api.objects import Json
from apiserver.api.values.names import dns1035_label, dns_subdomain

__all__ = ["client_errors", "review_version_errors"]


_REVIEWS: Final = ("v1", "v1beta1")


def client_errors(client: Json, at: Path) -> list[FieldError]:
    """Validate a clientConfig."""
    url, service = client.get("url"), client.get("service")
    if (url is None) is (service is None):
        return [required(at, "exactly one of url or service is required")]
    return _address(url, at / "url") if url is not None else _service(service or {}, at / "service")


def _address(url: str, at: Path) -> list[FieldError]:
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
        problem = _no_scheme(url)
    except ValueError as error:
        problem = str(error)
    if problem:
        return [required(at, f"url must be a valid URL: parse {go_quote(url)}: {problem}{form}")]
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


def _no_scheme(url: str) -> str:
    """Return Go's error about a URL with a colon but no scheme; "" if there is none."""
    if url.startswith(":"):
        return "missing protocol scheme"
    first = url.partition("/")[0]
    if ":" in first and re.match("[A-Za-z][-+.A-Za-z0-9]*:", first) is None:
        return "first path segment in URL cannot contain colon"
    return ""


def _service(service: Json, at: Path) -> list[FieldError]:
    """Validate a service reference. Upstream swaps the paths of a missing name and a missing namespace."""
    errors: list[FieldError] = []
    if not service.get("namespace"):
        errors.append(required(at / "name"))
    if not service.get("name"):
        errors.append(required(at / "namespace"))
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        errors.append(invalid(at / "port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    path = service.get("path")
    if not path or path == "/":
        return errors
    if path == "//":
        return [*errors, invalid(at / "path", path, "segment[0] may not be empty")]
    if not path.startswith("/"):
        errors.append(invalid(at / "path", path, "must start with a '/'"))
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(at / "path", path, f"segment[{index}] may not be empty"))
        else:
            errors += [invalid(at / "path", path, f"segment[{index}]: {text}") for text in dns_subdomain(step)]
    return errors


def review_version_errors(versions: list[str], at: Path, missing: str, *, recognized: bool = True) -> list[FieldError]:
    """Validate the review versions of a webhook.

    `missing` is the error for an empty list. `recognized`: the server must support one of the versions.
    """
    if not versions:
        return [required(at, missing)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            errors.append(invalid(at[index], version, "duplicate version"))
            continue
        seen.add(version)
        errors += [invalid(at[index], version, text) for text in dns1035_label(version)]
    if recognized and not seen & set(_REVIEWS):
        errors.append(invalid(at, versions, f"must include at least one of {', '.join(_REVIEWS)}"))
    return errors
