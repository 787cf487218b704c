"""Forms of texts, by the names that fields use (`Limits.format`).

Limits and texts are wire facts (apimachinery's pkg/util/validation, for drivers, pools and device names also
pkg/apis/resource/validation).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError, Named, Path, invalid, required, too_long
from apiserver.api.values import names
from apiserver.api.values.bounded_cache import remembered
from apiserver.api.values.networks import legacy_ip, parse_address

__all__ = ["FORMATS", "NO_ADDRESS", "Format", "driver_name", "no_backsteps"]

IDENTIFIER_LIMIT: Final = 32
DRIVER_LIMIT: Final = 63
#: domain, slash and identifier
QUALIFIED_LIMIT: Final = DRIVER_LIMIT + 1 + IDENTIFIER_LIMIT
_LABEL_LIMIT: Final = 63
NO_ADDRESS: Final = "must be a DNS name, not an IP address"


class Format(NamedTuple):
    """A form of texts: `errors` checks a text at a path, `fits` is a fast test for valid texts.

    Paths show a map key of more than `longest` bytes without its middle.
    """

    errors: Callable[[Path, str], list[FieldError]]
    fits: Callable[[str], bool]
    longest: int = 253


def _format(errors: Callable[[Path, str], list[FieldError]], longest: int = 253) -> Format:
    """Build a format with a cache of results, because objects repeat the same few names."""

    @remembered(4096)
    def fits(value: str) -> bool:
        return not errors(Path(), value)

    return Format(errors, fits, longest)


def _by(check: names.Check, longest: int = 253) -> Format:
    return _format(lambda path, value: [invalid(path, value, text) for text in check(value)], longest)


def _invalid(path: Path, value: str, texts: list[str]) -> list[FieldError]:
    return [invalid(path, value, text) for text in texts]


def driver_name(path: Path, value: str) -> list[FieldError]:
    """Check a case-insensitive subdomain of at most 63 bytes."""
    if not value:
        return [required(path)]
    errors = [too_long(path, DRIVER_LIMIT)] if len(value.encode()) > DRIVER_LIMIT else []
    return errors + _lowered_subdomain(path, value)


def _lowered_subdomain(path: Path, value: str) -> list[FieldError]:
    return _invalid(path, value, names.dns_subdomain(value.lower()))


def _pool_name(path: Path, value: str) -> list[FieldError]:
    """Check subdomains joined by slashes. An error shows the invalid part."""
    return [error for part in value.split("/") for error in _invalid(path, part, names.dns_subdomain(part))]


def _identifier(path: Path, value: str) -> list[FieldError]:
    errors = [too_long(path, IDENTIFIER_LIMIT)] if len(value.encode()) > IDENTIFIER_LIMIT else []
    return errors + _invalid(path, value, names.c_identifier(value))


def _qualified_name(path: Path, value: str) -> list[FieldError]:
    """Check `id` or `domain/id`. Names with more slashes are not checked, as upstream (a known gap)."""
    parts = value.split("/")
    if len(parts) == 1:
        return _identifier(path, value)
    if len(parts) > 2:
        return []
    domain, identifier = parts
    errors = driver_name(path, domain) if domain else [invalid(path, "", "the domain must not be empty")]
    return errors + (_identifier(path, identifier) if identifier else [invalid(path, "", "the name must not be empty")])


def _fully_qualified_name(path: Path, value: str) -> list[FieldError]:
    """Check a qualified name that must have a domain."""
    errors = _qualified_name(path, value)
    if "/" not in value:
        errors.append(
            invalid(path, Named(value), "a fully qualified name must be a domain and a name separated by a slash")
        )
    return errors


_HEX: Final = r"[0-9a-fA-F]"
_UUID: Final = re.compile(rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}")
_BARE_UUID: Final = re.compile(rf"{_HEX}{{32}}")
_NORMALIZED: Final = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal"
    " characters"
)


def _uuid_problem(value: str) -> str:
    """Return the error of a UUID parser, "" for one of the four valid forms (plain, urn, braces, 32 digits)."""
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


def _uid(path: Path, value: str) -> list[FieldError]:
    """Check a share id: a UUID in its normal form."""
    if problem := _uuid_problem(value):
        return [invalid(path, value, f"error validating uid: {problem}")]
    return [invalid(path, value, _NORMALIZED)] if len(value) != 36 or value != value.lower() else []


def _resource_pool_name(path: Path, value: str) -> list[FieldError]:
    """Check a pool name as upstream's generated rules do: an error names the index of the invalid segment."""
    errors: list[FieldError] = []
    for index, segment in enumerate(value.split("/")):
        if segment:
            errors += [invalid(path, segment, f"segment {index}: {text}") for text in names.long_name(segment)]
        else:
            errors.append(invalid(path, value, f"segment {index}: must not be empty"))
    return errors


def no_backsteps(path: Path, target: str) -> list[FieldError]:
    """Check that a path has no `..`."""
    return [invalid(path, target, "must not contain '..'")] if ".." in target.split("/") else []


def _relative_path(path: Path, target: str) -> list[FieldError]:
    errors = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    return errors + no_backsteps(path, target)


def _file_path(path: Path, target: str) -> list[FieldError]:
    """Check a relative path inside a volume."""
    errors = _relative_path(path, target)
    if target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))
    return errors


def _search_domain(path: Path, value: str) -> list[FieldError]:
    """Check a domain with or without a trailing dot. The root domain is valid."""
    name = value.removesuffix(".")
    return [] if value == "." else _invalid(path, name, names.dns_subdomain_with_underscore(name))


_SYSCTL_LENGTH: Final = 253
_SYSCTL: Final = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_SYSCTL_PATTERN: Final = re.compile(_SYSCTL, re.ASCII)


def _sysctl(path: Path, name: str) -> list[FieldError]:
    if len(name) <= _SYSCTL_LENGTH and _SYSCTL_PATTERN.match(name):
        return []
    return [invalid(path, name, f"must have at most {_SYSCTL_LENGTH} characters and match regex {_SYSCTL}")]


def _host(path: Path, value: str) -> list[FieldError]:
    """Check a subdomain, which may begin with a wildcard."""
    check = names.wildcard_subdomain if "*" in value else names.dns_subdomain
    return _invalid(path, value, check(value))


def _host_name(path: Path, value: str) -> list[FieldError]:
    """Check a subdomain that is no IP address."""
    errors = _invalid(path, value, names.dns_subdomain(value))
    return errors if parse_address(value) is None else [*errors, invalid(path, value, NO_ADDRESS)]


def _percent(path: Path, value: str) -> list[FieldError]:
    return [] if names.PERCENT.matches(value) else [invalid(path, Named(value), names.PERCENT.text)]


def _caseless_label_key(path: Path, value: str) -> list[FieldError]:
    """Check a case-insensitive qualified name."""
    return _invalid(path, value.lower(), names.label_key(value.lower()))


FORMATS: Final[dict[str, Format]] = {
    "caseless-label-key": _format(_caseless_label_key),
    "caseless-subdomain": _by(names.dns_subdomain_caseless),
    "config-map-key": _by(names.config_map_key),
    "dns-1035-label": _by(names.dns1035_label, _LABEL_LIMIT),
    "dns-label": _by(names.dns_label, _LABEL_LIMIT),
    "driver-name": _format(_lowered_subdomain),
    "env-var-name": _by(names.relaxed_env_var_name),
    "file-path": _format(_file_path),
    "fully-qualified-name": _format(_fully_qualified_name, QUALIFIED_LIMIT),
    "host": _format(_host),
    "host-name": _format(_host_name),
    "http-header-name": _by(names.http_header_name),
    "ip": _format(legacy_ip),
    "label-key": _by(names.label_key),
    "label-value": _by(names.label_value),
    "long-name": _by(names.long_name),
    "no-backsteps": _format(no_backsteps),
    "path-segment": _by(names.path_segment),
    "percent": _format(_percent),
    "pool-name": _format(_pool_name),
    "port-name": _by(names.port_name),
    "qualified-name": _format(_qualified_name, QUALIFIED_LIMIT),
    "relative-path": _format(_relative_path),
    "resource-pool-name": _format(_resource_pool_name),
    "search-domain": _format(_search_domain),
    "short-name": _by(names.short_name),
    "subdomain": _by(names.dns_subdomain),
    "subdomain-prefix": _by(lambda value: names.object_name("subdomain", value, prefix=True)),
    "sysctl": _format(_sysctl),
    "uid": _format(_uid),
}
