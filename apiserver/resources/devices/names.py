"""Names in resource.k8s.io: drivers, pools, attributes, share ids. Each check takes the field's path and gives its
errors.

Limits and texts are wire facts (api.md 0.2: LABEL, SUBDOM, DRIVER, POOL, CIDENT, QNAME, FQNAME, LABELKEY, LABELVAL,
UID).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from apiserver.api import names
from apiserver.api.fielderrors import FieldError, Named, Path, invalid, required, too_long

__all__ = [
    "class_name",
    "driver_name",
    "fully_qualified_name",
    "is_qualified_name",
    "label",
    "label_key",
    "label_value",
    "pool_name",
    "qualified_name",
    "subdomain",
    "uid",
]

DRIVER_LIMIT: Final = 63
POOL_LIMIT: Final = 253
IDENTIFIER_LIMIT: Final = 32


def _invalid(path: Path, value: str, texts: list[str]) -> list[FieldError]:
    return [invalid(path, value, text) for text in texts]


def label(path: Path, value: str) -> list[FieldError]:
    """A DNS label: devices, requests, counters."""
    return _invalid(path, value, names.dns_label(value))


def subdomain(path: Path, value: str) -> list[FieldError]:
    return _invalid(path, value, names.dns_subdomain(value))


#: The name of a DeviceClass; whether it may be empty is the caller's question.
class_name = subdomain


def label_key(path: Path, value: str) -> list[FieldError]:
    """Conditions and taints."""
    return _invalid(path, value, names.label_key(value))


def label_value(path: Path, value: str) -> list[FieldError]:
    return _invalid(path, value, names.label_value(value))


def driver_name(path: Path, value: str) -> list[FieldError]:
    """A subdomain of at most 63 in which upper case counts as lower."""
    if not value:
        return [required(path)]
    errors = [too_long(path, DRIVER_LIMIT)] if len(value.encode()) > DRIVER_LIMIT else []
    return errors + _invalid(path, value, names.dns_subdomain(value.lower()))


def pool_name(path: Path, value: str) -> list[FieldError]:
    """Subdomains joined by slashes; an error shows the part that is wrong."""
    if not value:
        return [required(path)]
    errors = [too_long(path, POOL_LIMIT)] if len(value.encode()) > POOL_LIMIT else []
    for part in value.split("/"):
        errors += _invalid(path, part, names.dns_subdomain(part))
    return errors


def _identifier(path: Path, value: str) -> list[FieldError]:
    errors = [too_long(path, IDENTIFIER_LIMIT)] if len(value.encode()) > IDENTIFIER_LIMIT else []
    return errors + _invalid(path, value, names.c_identifier(value))


def qualified_name(path: Path, value: str) -> list[FieldError]:
    """`id` or `domain/id`. With more slashes nothing is checked, as upstream (a gap that it keeps)."""
    parts = value.split("/")
    if len(parts) == 1:
        return _identifier(path, value)
    if len(parts) > 2:
        return []
    domain, identifier = parts
    errors = driver_name(path, domain) if domain else [invalid(path, "", "the domain must not be empty")]
    return errors + (_identifier(path, identifier) if identifier else [invalid(path, "", "the name must not be empty")])


@lru_cache(maxsize=4096)
def is_qualified_name(value: str) -> bool:
    """Slices repeat the same few names on every device."""
    return not qualified_name(Path(), value)


def fully_qualified_name(path: Path, value: str) -> list[FieldError]:
    """A qualified name that must have a domain."""
    errors = qualified_name(path, value)
    if "/" not in value:
        errors.append(
            invalid(path, Named(value), "a fully qualified name must be a domain and a name separated by a slash")
        )
    return errors


_HEX: Final = r"[0-9a-fA-F]"
_UUID: Final = re.compile(rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}")
_BARE_UUID: Final = re.compile(rf"{_HEX}{{32}}")


def _uuid_problem(value: str) -> str:
    """What a UUID parser says, "" when it accepts one of the four forms (plain, urn, braces, 32 digits)."""
    size = len(value.encode())
    if size == 32:
        return "" if _BARE_UUID.fullmatch(value) else "invalid UUID format"
    if size == 45:
        prefix, value = value[:9], value[9:]
        if prefix.lower() != "urn:uuid:":
            return f'invalid urn prefix: "{prefix}"'
    elif size == 38:
        if not (value[0] == "{" and value[-1] == "}"):
            return "invalid bracketed UUID format"
        value = value[1:-1]
    elif size != 36:
        return f"invalid UUID length: {size}"
    return "" if _UUID.fullmatch(value) else "invalid UUID format"


def uid(path: Path, value: str) -> list[FieldError]:
    """A share id: a UUID in its normal form."""
    if problem := _uuid_problem(value):
        return [invalid(path, value, f"error validating uid: {problem}")]
    if len(value) != 36 or value != value.lower():
        return [
            invalid(
                path,
                value,
                "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase"
                " hexadecimal characters",
            )
        ]
    return []
