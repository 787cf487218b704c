"""The configuration file of PodSecurity: the default policy and the exemptions.

Facts: k8s.io/pod-security-admission, admission/api.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.admission.podsecurity.policies import Policy, standard_of
from apiserver.api.errors.field_errors import FieldError, duplicate, invalid
from apiserver.api.errors.field_errors import Path as Where
from apiserver.api.helpers.config_files import ConfigurationError, read_configuration
from apiserver.api.schema.language import STRING, ListOf, Struct, field
from apiserver.api.types.meta import TYPE_META
from apiserver.api.values.names import dns_label, dns_subdomain

__all__ = ["PodSecurityConfiguration", "read_pod_security"]


_MODES: Final = ("enforce", "audit", "warn")
_PREFIX: Final = "io.k8s.pod-security-admission.v1."
_DEFAULTS: Final = Struct(
    f"{_PREFIX}PodSecurityDefaults",
    lambda: tuple(
        field(f"{mode}{suffix}", number, STRING, doc=doc)
        for number, (mode, suffix, doc) in enumerate(
            (mode, suffix, doc)
            for mode in _MODES
            for suffix, doc in (("", "The level; privileged."), ("-version", "Its version; latest."))
        )
    ),
    doc="PodSecurityDefaults has the levels of namespaces without labels.",
)
_EXEMPTIONS: Final = Struct(
    f"{_PREFIX}PodSecurityExemptions",
    lambda: (
        field("usernames", 1, ListOf(STRING), doc="Users whose requests are exempt."),
        field("namespaces", 2, ListOf(STRING), doc="Namespaces whose pods are exempt."),
        field("runtimeClasses", 3, ListOf(STRING), doc="Runtime classes whose pods are exempt."),
    ),
    doc="PodSecurityExemptions exempts users, runtime classes and namespaces.",
)
_KIND: Final = Struct(
    f"{_PREFIX}PodSecurityConfiguration",
    lambda: (
        TYPE_META,
        field("defaults", 1, _DEFAULTS, doc="The levels of namespaces without labels."),
        field("exemptions", 2, _EXEMPTIONS, doc="The exemptions."),
    ),
    doc="PodSecurityConfiguration configures the admission plugin PodSecurity.",
)
_KINDS: Final = {f"pod-security.admission.config.k8s.io/{version}": _KIND for version in ("v1", "v1beta1", "v1alpha1")}


class PodSecurityConfiguration(NamedTuple):
    """The policy of namespaces without labels, and the exemptions."""

    defaults: Policy = Policy()
    users: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


def read_pod_security(text: bytes) -> PodSecurityConfiguration:
    """Read a configuration file. Raise ConfigurationError."""
    spec = read_configuration(text, _KINDS).obj
    errors: list[FieldError] = []
    defaults = spec.get("defaults") or {}
    found = {}
    for mode in ("enforce", "warn", "audit"):
        level, version = defaults.get(mode) or "privileged", defaults.get(f"{mode}-version") or "latest"
        where = Where("defaults")
        found[mode] = standard_of(level, version, where / mode, where / f"{mode}-version", "restricted", errors)
    exempt = spec.get("exemptions") or {}
    for name, check in (("namespaces", dns_label), ("runtimeClasses", dns_subdomain), ("usernames", _check_username)):
        values = exempt.get(name) or []
        for index, value in enumerate(values):
            place = (Where("exemptions") / name)[index]
            if problems := check(value):
                errors.append(invalid(place, value, ", ".join(problems)))
            elif value in values[:index]:
                errors.append(duplicate(place, value))
    if errors:
        raise ConfigurationError.of(errors)
    return PodSecurityConfiguration(
        Policy(**found),
        frozenset(exempt.get("usernames") or ()),
        frozenset(exempt.get("namespaces") or ()),
        frozenset(exempt.get("runtimeClasses") or ()),
    )


def _check_username(user: str) -> list[str]:
    return [] if user else ["username must not be empty"]
