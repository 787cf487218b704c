"""Name syntax: DNS labels and subdomains, label keys and values, ports, environment variables, object names.

A check takes a string and returns its error texts; an empty list means valid. Checks with a field path return field
errors. Lengths count UTF-8 bytes, although the texts mention characters. Patterns compile on first use.

Texts, patterns and limits are wire facts of k8s.io/apimachinery (util/validation, api/validation).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required
from apiserver.api.values.networks import ip_texts

__all__ = [
    "NAME_RULES",
    "Check",
    "NamePattern",
    "c_identifier",
    "config_map_key",
    "dns1035_label",
    "dns_label",
    "dns_subdomain",
    "dns_subdomain_caseless",
    "dns_subdomain_with_underscore",
    "domain_prefixed_key",
    "domain_prefixed_path",
    "env_var_name",
    "fully_qualified_domain_name",
    "fully_qualified_name",
    "http_header_name",
    "label_key",
    "label_value",
    "long_name",
    "object_name",
    "path_segment",
    "path_segment_prefix",
    "port_name",
    "relaxed_env_var_name",
    "short_name",
    "wildcard_subdomain",
]

Check = Callable[[str], list[str]]


def _regex_text(message: str, pattern: str, *examples: str) -> str:
    """Format a pattern's error with examples and the pattern itself."""
    if not examples:
        return f"{message} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


class NamePattern:
    """A pattern that a whole string must match, compiled on first use."""

    __slots__ = ("_compiled", "source", "text")

    def __init__(self, message: str, source: str, *examples: str) -> None:
        self.source, self.text = source, _regex_text(message, source, *examples)
        self._compiled: Callable[[str], object] | None = None

    def matches(self, value: str) -> bool:
        match = self._compiled
        if match is None:
            match = self._compiled = re.compile(self.source).fullmatch
        return match(value) is not None


_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORED: Final = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_ENDS: Final = "must start and end with an alphanumeric character"

_DNS_LABEL: Final = NamePattern(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and {_ENDS}",
    _LABEL,
    "my-name",
    "123-abc",
)
_DNS_SUBDOMAIN: Final = NamePattern(
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and {_ENDS}",
    _SUBDOMAIN,
    "example.com",
)
_CASELESS: Final = NamePattern(
    f"an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and {_ENDS}", _SUBDOMAIN, "Example.com"
)
_UNDERSCORED_SUBDOMAIN: Final = NamePattern(
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and {_ENDS}",
    rf"{_UNDERSCORED}(\.{_UNDERSCORED})*", "example.com",
)  # fmt: skip
_DNS1035: Final = NamePattern(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    r"[a-z]([-a-z0-9]*[a-z0-9])?", "my-name", "abc-123",
)  # fmt: skip
_WILDCARD: Final = NamePattern(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower"
    " case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    rf"\*\.{_SUBDOMAIN}",
    "*.example.com",
)
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_MESSAGE: Final = f"must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"
_KEY_NAME: Final = NamePattern(f"name part {_KEY_MESSAGE}", _QUALIFIED, "MyName", "my.name", "123-abc")
_KEY_SHAPE: Final = (
    _regex_text(f"a valid label key {_KEY_MESSAGE}", _QUALIFIED, "MyName", "my.name", "123-abc")
    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_LABEL_VALUE: Final = NamePattern(
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}",
    rf"({_QUALIFIED})?", "MyValue", "my_value", "12345",
)  # fmt: skip
_C_IDENTIFIER: Final = NamePattern(
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters"
    " or '_'",
    r"[A-Za-z_][A-Za-z0-9_]*",
    "my_name",
    "MY_NAME",
    "MyName",
)
_CONFIG_KEY: Final = NamePattern(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    r"[-._a-zA-Z0-9]+",
    "key.name",
    "KEY_NAME",
    "key-name",
)
_ENV_VAR: Final = NamePattern(
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not"
    " start with a digit",
    r"[-._a-zA-Z][-._a-zA-Z0-9]*",
    "my.env-name",
    "MY_ENV.NAME",
    "MyEnvName1",
)
_HTTP_HEADER: Final = NamePattern(
    "a valid HTTP header must consist of alphanumeric characters or '-'", r"[-A-Za-z0-9]+", "X-Header-Name"
)
_HTTP_PATH: Final = NamePattern("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_PORT_CHARACTERS: Final = NamePattern("", r"[-a-z0-9]+")
_PORT_LETTER: Final = NamePattern("", r"(?s:.*[a-z].*)")


#: A percentage, in fields that accept a number or a percentage.
PERCENT: Final = NamePattern(
    "a valid percent string must be a numeric string followed by an ending '%'", "[0-9]+%", "1%", "93%"
)


def _characters(limit: int) -> str:
    return f"must be no more than {limit} characters"


def _bytes(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _length(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


def _check_pattern(value: str, pattern: NamePattern, limit: int, too_long: Callable[[int], str]) -> list[str]:
    matches = pattern.matches(value)
    if matches and len(value) <= limit:
        return []
    errors = [too_long(limit)] if _length(value) > limit else []
    if not matches:
        errors.append(pattern.text)
    return errors


def dns_label(value: str) -> list[str]:
    """Check an RFC 1123 label: at most 63 of a-z, 0-9 and inner hyphens."""
    if len(value) <= 63 and _DNS_LABEL.matches(value):
        return []
    errors = [_characters(63)] if _length(value) > 63 else []
    if not _DNS_LABEL.matches(value):
        errors.append("must not contain dots" if _DNS_SUBDOMAIN.matches(value) else _DNS_LABEL.text)
    return errors


def short_name(value: str) -> list[str]:
    """Check a label, with the errors of upstream's generated rules."""
    return [_bytes(63) if text == _characters(63) else text for text in dns_label(value)]


def dns_subdomain(value: str) -> list[str]:
    """Check an RFC 1123 subdomain: labels joined by dots, at most 253 bytes (a label has no limit of its own)."""
    return _check_pattern(value, _DNS_SUBDOMAIN, 253, _characters)


def long_name(value: str) -> list[str]:
    """Check a subdomain, with the errors of upstream's generated rules."""
    return _check_pattern(value, _DNS_SUBDOMAIN, 253, _bytes)


def dns_subdomain_caseless(value: str) -> list[str]:
    """Check a subdomain that may contain upper case."""
    return _check_pattern(value.lower() if value.isascii() else value, _CASELESS, 253, _bytes)


def dns_subdomain_with_underscore(value: str) -> list[str]:
    return _check_pattern(value, _UNDERSCORED_SUBDOMAIN, 253, _characters)


def dns1035_label(value: str) -> list[str]:
    """Check a label that starts with a letter (service names)."""
    return _check_pattern(value, _DNS1035, 63, _characters)


def wildcard_subdomain(value: str) -> list[str]:
    return _check_pattern(value, _WILDCARD, 253, _characters)


def label_key(value: str) -> list[str]:
    """Check a qualified name: an optional subdomain and a slash, then a name of at most 63 bytes.

    Labels, annotations, conditions and taints use it.
    """
    prefix, slash, name = value.partition("/")
    if not slash:
        prefix, name = "", value
    elif "/" in name:
        return [_KEY_SHAPE]
    errors = []
    if slash:
        if not prefix:
            errors.append("prefix part must be non-empty")
        elif wrong := _check_pattern(prefix, _DNS_SUBDOMAIN, 253, _bytes):
            errors.extend(f"prefix part {text}" for text in wrong)
    if not name:
        errors.append("name part must be non-empty")
    elif _length(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not _KEY_NAME.matches(name):
        errors.append(_KEY_NAME.text)
    return errors


def label_value(value: str) -> list[str]:
    """Check a label's value: empty, or at most 63 bytes that begin and end alphanumeric."""
    return _check_pattern(value, _LABEL_VALUE, 63, _bytes)


def c_identifier(value: str) -> list[str]:
    return [] if _C_IDENTIFIER.matches(value) else [_C_IDENTIFIER.text]


def _directory(value: str) -> list[str]:
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def config_map_key(value: str) -> list[str]:
    """Check a key of a ConfigMap's or Secret's data."""
    return _check_pattern(value, _CONFIG_KEY, 253, _characters) + _directory(value)


def env_var_name(value: str) -> list[str]:
    """Check the strict form of an environment variable's name."""
    return ([] if _ENV_VAR.matches(value) else [_ENV_VAR.text]) + _directory(value)


def relaxed_env_var_name(value: str) -> list[str]:
    """Check for printable ASCII without "="."""
    errors = [] if value else ["environment variable name must be non-empty"]
    if not (value.isascii() and value.isprintable()) or "=" in value:
        errors.append(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
    return errors


def http_header_name(value: str) -> list[str]:
    return [] if _HTTP_HEADER.matches(value) else [_HTTP_HEADER.text]


def port_name(value: str) -> list[str]:
    """Check an IANA service name: at most 15 bytes, at least one letter, single inner hyphens."""
    errors = [_characters(15)] if _length(value) > 15 else []
    if not _PORT_CHARACTERS.matches(value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _PORT_LETTER.matches(value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def path_segment(value: str) -> list[str]:
    """Check a name that can be a URL path segment (RBAC names)."""
    return [f"may not be '{value}'"] if value in (".", "..") else path_segment_prefix(value)


def path_segment_prefix(value: str) -> list[str]:
    return [f"may not contain '{char}'" for char in "/%" if char in value]


def fully_qualified_name(path: Path, value: str) -> list[FieldError]:
    """Check a subdomain of at least three segments."""
    if not value:
        return [required(path)]
    if texts := dns_subdomain(value):
        return [invalid(path, value, ",".join(texts))]
    if value.count(".") < 2:
        return [invalid(path, value, "should be a domain with at least three segments separated by dots")]
    return []


def fully_qualified_domain_name(path: Path, value: str) -> list[FieldError]:
    """Check a subdomain of at least two segments, each a label. One trailing dot is allowed."""
    if not value:
        return [required(path)]
    value = value.removesuffix(".")
    if texts := dns_subdomain(value):
        return [invalid(path, value, ",".join(texts))]
    if "." not in value:
        return [invalid(path, value, "should be a domain with at least two segments separated by dots")]
    for label in value.split("."):
        if texts := dns_label(label):
            return [invalid(path, label, ",".join(texts))]
    return []


def domain_prefixed_path(path: Path, value: str) -> list[FieldError]:
    """Check `acme.io/foo`: a subdomain, a slash and the characters of an HTTP path."""
    if not value:
        return [required(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, host, text) for text in dns_subdomain(host)]
    if not _HTTP_PATH.matches(rest):
        errors.append(invalid(path, rest, _HTTP_PATH.text))
    return errors


def domain_prefixed_key(path: Path, value: str) -> list[FieldError]:
    """Check a label key that must have a prefix."""
    if not value:
        return [required(path)]
    if texts := label_key(value):
        return [invalid(path, value, text) for text in texts]
    return [] if "/" in value else [invalid(path, value, 'must be a domain-prefixed key (such as "acme.io/foo")')]


#: The checks of `metadata.name`, by Strategy.name_rule.
NAME_RULES: Final[dict[str, Check]] = {
    "subdomain": dns_subdomain,
    "long-name": long_name,
    "label": dns_label,
    "dns1035-label": dns1035_label,
    "path-segment": path_segment,
    "ip": ip_texts,
    "config-map-key": config_map_key,
}


def object_name(rule: str, name: str, prefix: bool = False) -> list[str]:
    """Return the errors of `metadata.name`, or of `metadata.generateName` (`prefix`).

    A prefix may end with a dash, because a suffix is appended.
    """
    if rule == "path-segment":
        return path_segment_prefix(name) if prefix else path_segment(name)
    if rule == "long-name" and prefix:
        return []
    if prefix and rule != "ip" and len(name) > 1 and name.endswith("-"):
        name = name[:-2] + "a"
    return NAME_RULES[rule](name)
