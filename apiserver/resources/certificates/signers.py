"""Validate names of signers."""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required, too_long
from apiserver.api.values.names import dns_label, dns_subdomain

__all__ = ["signer_name"]

_DOMAIN_LIMIT: Final = 253
_LIMIT: Final = _DOMAIN_LIMIT + 1 + 253 + 1 + 63


def signer_name(path: Path, name: str) -> list[FieldError]:
    """Require `example.com/signer`: a domain of at least two labels, and dot-separated labels."""
    if not name:
        return [required(path)]
    if name.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, name, text)]
    domain, _, rest = name.partition("/")
    errors = [too_long(path, _DOMAIN_LIMIT)] if len(domain) > _DOMAIN_LIMIT else []
    labels = domain.split(".")
    wrong = next((label for label in labels if dns_label(label)), None)
    if wrong is not None:
        errors += [invalid(path, domain, f'validating label "{wrong}": {text}') for text in dns_label(wrong)]
    if len(labels) < 2:
        errors.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    wrong = next((label for label in rest.split(".") if dns_subdomain(label)), None)
    if wrong is not None:
        errors += [invalid(path, rest, f'validating label "{wrong}": {text}') for text in dns_subdomain(wrong)]
    return errors + ([too_long(path, _LIMIT)] if len(name) > _LIMIT else [])
