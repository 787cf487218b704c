"""Findings of schema validation, with the texts of a real server for custom resources.

Facts: k8s.io/kube-openapi (pkg/validation/errors) for the texts, apiextensions-apiserver (pkg/apiserver/validation) for
their conversion to field errors.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from apiserver.api.errors.field_errors import (
    FieldError,
    Path,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from apiserver.api.patch.goformat import go_format

__all__ = [
    "Finding",
    "Result",
    "general",
    "many",
    "missing",
    "not_in_enum",
    "plain",
    "shown_path",
    "too_long_text",
    "wrong_type",
]


class Finding(NamedTuple):
    """One error with the text that identifies repeated ones."""

    text: str
    error: FieldError


class Result:
    """The distinct findings of a value.

    `matches` counts the matching constraints: of several schemas that do not match, the closest one is reported.
    """

    __slots__ = ("findings", "matches")

    def __init__(self, *findings: Finding, matches: int = 0) -> None:
        self.findings: list[Finding] = list(findings)
        self.matches = matches

    def add(self, finding: Finding) -> None:
        if all(known.text != finding.text for known in self.findings):
            self.findings.append(finding)

    def merge(self, other: Result) -> None:
        for finding in other.findings:
            self.add(finding)
        self.matches += other.matches


def shown_path(base: Path, name: str) -> Path:
    """Return the field of an error: `name` is the path relative to `base`. A root map's path begins with a dot."""
    name = name.removeprefix(".")
    return base / name if name else base


def plain(base: Path, name: str, value: Any, text: str) -> Finding:
    """Build an error with the invalid value and `text` as message."""
    shown = go_format(value) if isinstance(value, float) else None
    error = invalid(shown_path(base, name), "" if value is None else value, text)
    if shown is not None:
        error = FieldError(error.reason, error.field, f"Invalid value: {shown}: {text}")
    return Finding(text, error)


def general(base: Path, text: str) -> Finding:
    """Build an error at the base, regardless of its subject."""
    return Finding(text, invalid(base, "", text))


def missing(base: Path, name: str) -> Finding:
    return Finding(f"{name} in body is required", required(shown_path(base, name)))


def wrong_type(base: Path, name: str, wanted: str, found: str) -> Finding:
    """Build a type error. `found` is the value's type, or the text that does not match the format."""
    text = f"{name} in body must be of type {wanted}: {go_quote(found)}"
    error = invalid(shown_path(base, name), found, text)
    return Finding(text, FieldError("FieldValueTypeInvalid", error.field, error.body))


def too_long_text(base: Path, name: str, most: int) -> Finding:
    return Finding(f"{name} in body should be at most {most} chars long", too_long(shown_path(base, name), most))


def many(base: Path, name: str, count: int, most: int, what: str) -> Finding:
    text = f"{name} in body should have at most {most} {what}"
    return Finding(text, too_many(shown_path(base, name), count, most))


def not_in_enum(base: Path, name: str, value: Any, values: list[Any]) -> Finding:
    known = [each if isinstance(each, str) else json.dumps(each, separators=(",", ":")) for each in values]
    error = not_supported(shown_path(base, name), value, known)
    return Finding(f"{name} in body should be one of {go_format(values)}", error)
