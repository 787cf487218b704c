"""The policy of a namespace: a level and a version each for the modes enforce, audit and warn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from apiserver.api.errors.field_errors import FieldError, Path, invalid

__all__ = ["LATEST", "PREFIX", "PRIVILEGED", "RESTRICTED", "Policy", "Standard", "policy_of", "standard_of"]

#: The levels, from the least to the most restrictive.
LEVELS: Final = ("privileged", "baseline", "restricted")
PRIVILEGED, _, RESTRICTED = LEVELS
#: The version latest: newer than all others.
LATEST: Final = 1 << 30
_VERSION: Final = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")
_LABELS: Final = Path("metadata") / "labels"
PREFIX: Final = "pod-security.kubernetes.io/"


class Standard(NamedTuple):
    """A level as a minor version of Kubernetes defines it."""

    level: str = PRIVILEGED
    version: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.version == LATEST else f'v1.{self.version}'}"

    @property
    def strictness(self) -> int:
        return LEVELS.index(self.level)


class Policy(NamedTuple):
    """The standards of the three modes."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()

    @property
    def privileged(self) -> bool:
        """Whether no mode has any requirement."""
        return all(standard.level == PRIVILEGED for standard in self)


_PRIVILEGED: Final = Policy()


def policy_of(labels: Mapping[str, str] | None, defaults: Policy = _PRIVILEGED) -> tuple[Policy, list[FieldError]]:
    """Parse the policy of a namespace's labels. Return it with the errors of the labels.

    An unknown level is enforced as `restricted`, but neither audited nor warned of. The enforced level is also warned
    of, unless the labels set another one.
    """
    if not labels or not any(label.startswith(PREFIX) for label in labels):
        return defaults, []
    errors: list[FieldError] = []
    enforce = _standard(labels, "enforce", RESTRICTED, defaults.enforce, errors)
    audit = _standard(labels, "audit", PRIVILEGED, defaults.audit, errors)
    warn = _standard(labels, "warn", PRIVILEGED, defaults.warn, errors)
    known = labels.get(f"{PREFIX}enforce") in LEVELS
    if known and f"{PREFIX}warn" not in labels and enforce.strictness > warn.strictness:
        own = f"{PREFIX}warn-version" in labels
        warn = Standard(enforce.level, warn.version if own else enforce.version)
    return Policy(enforce, audit, warn), errors


def _standard(
    labels: Mapping[str, str], mode: str, unknown: str, default: Standard, errors: list[FieldError]
) -> Standard:
    label = PREFIX + mode
    version = labels.get(f"{label}-version")
    found = standard_of(
        labels.get(label, default.level), version or "latest", _LABELS.key(label), _LABELS.key(f"{label}-version"),
        unknown, errors,
    )  # fmt: skip
    return found if version is not None else Standard(found.level, default.version)


def standard_of(
    level: str, version: str, where: Path, version_where: Path, unknown: str, errors: list[FieldError]
) -> Standard:
    """Parse a level and a version; `unknown` replaces an unknown level."""
    if level not in LEVELS:
        errors.append(invalid(where, level, f"must be one of {', '.join(LEVELS)}"))
        level = unknown
    found = _VERSION.fullmatch(version)
    if found is None and version != "latest":
        errors.append(invalid(version_where, version, 'must be "latest" or "v1.x"'))
    return Standard(level, int(found[1]) if found else LATEST)
