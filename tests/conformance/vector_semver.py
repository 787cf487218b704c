"""Semantic version vectors: parsing in both forms, attribute validation, precedence."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.api.errors.field_errors import Path, invalid, too_long
from apiserver.api.values.semver import Semver, is_attribute_version
from tests.conformance.vectors import Case, Skipped, expect

_VERSION_MAX_LENGTH = 64


def handle(case: Case) -> Skipped | str | None:
    """One recorded operation."""
    if case["op"] == "compare":
        _compare(case)
        return None
    for form, parse in (("strict", Semver.parse), ("normalize", Semver.parse_tolerant)):
        succeeded = _parse(form, parse, case)
        expect("isSemver" if form == "strict" else "isSemverNormalize", succeeded,
               case["isSemver" if form == "strict" else "isSemverNormalize"])  # fmt: skip
    errors = []
    if not is_attribute_version(case["input"]):
        errors.append(invalid(Path("name"), case["input"], "must be a string compatible with semver.org spec 2.0.0"))
    if len(case["input"].encode()) > _VERSION_MAX_LENGTH:
        errors.append(too_long(Path("name"), _VERSION_MAX_LENGTH))
    expect("attributeVersionErrors", [error.text for error in errors], case["attributeVersionErrors"])
    return None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _parse(form: str, parse: Callable[[str], Semver], case: Case) -> bool:
    want = case[form]
    try:
        version = parse(case["input"])
    except ValueError as error:
        expect(f"{form} error", str(error), want["error"])
        return False
    expect(f"{form} error", None, want["error"])
    expect(f"{form} string", str(version), want["string"])
    numbers = [_signed(number) for number in (version.major, version.minor, version.patch)]
    expect(f"{form} numbers", numbers, [want["major"], want["minor"], want["patch"]])
    return True


def _compare(case: Case) -> None:
    left, right = Semver.parse(case["a"]), Semver.parse(case["b"])
    expect("compareTo", left.compare(right), case["compareTo"])
    expect("isLessThan", left < right, case["isLessThan"])
    expect("isGreaterThan", left > right, case["isGreaterThan"])
    expect("equal", left == right, case["equal"])
