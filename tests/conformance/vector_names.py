"""Name vectors: every syntax check of a string."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.schema.language import STRING, Struct, field
from apiserver.api.schema.limits import Limits
from apiserver.api.validation.compile import Rules
from apiserver.api.values import names
from tests.conformance.vectors import Case, Skipped, expect

_PATH = Path("name")


def _field(**limits: Any) -> Callable[[Path, str], list[FieldError]]:
    """Make the check of a text field with these limits."""
    struct = Struct("x.v1.Holder", (field("name", 1, STRING, omit=False, limits=Limits(**limits)),))
    checks = Rules().of(struct)
    return lambda path, value: checks.errors(Path(), {"name": value})


_TEXTS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1123SubdomainCaseless": names.dns_subdomain_caseless,
    "dns1123SubdomainWithUnderscore": names.dns_subdomain_with_underscore,
    "dns1035Label": names.dns1035_label,
    "wildcardDNS1123Subdomain": names.wildcard_subdomain,
    "qualifiedName": names.label_key,
    "labelValue": names.label_value,
    "cIdentifier": names.c_identifier,
    "portName": names.port_name,
    "configMapKey": names.config_map_key,
    "envVarName": names.env_var_name,
    "relaxedEnvVarName": names.relaxed_env_var_name,
    "httpHeaderName": names.http_header_name,
    "pathSegmentName": names.path_segment,
    "pathSegmentPrefix": names.path_segment_prefix,
    "objectNameDNSLabel": lambda value: names.object_name("label", value),
    "objectNameDNSSubdomain": lambda value: names.object_name("subdomain", value),
    "generateNamePrefixDNSLabel": lambda value: names.object_name("label", value, prefix=True),
    "generateNamePrefixDNSSubdomain": lambda value: names.object_name("subdomain", value, prefix=True),
}
_ERRORS: dict[str, Callable[[Path, str], list[FieldError]]] = {
    "domainPrefixedKey": names.domain_prefixed_key,
    "domainPrefixedPath": names.domain_prefixed_path,
    "fullyQualifiedName": names.fully_qualified_name,
    "fullyQualifiedDomainName": names.fully_qualified_domain_name,
    "dra.driverName": _field(required=True, length=63, format="driver-name"),
    "dra.poolName": _field(required=True, length=253, format="pool-name"),
    "dra.deviceName": _field(format="dns-label"),
    "dra.requestName": _field(format="dns-label"),
    "dra.deviceClassName": _field(format="subdomain"),
    "dra.nodeName": _field(format="subdomain"),
    "dra.qualifiedName": _field(format="qualified-name"),
    "dra.fullyQualifiedName": _field(format="fully-qualified-name"),
    "dra.uid": _field(format="uid"),
    "dra.attributeString": _field(length=64),
}


def handle(case: Case) -> Skipped | str | None:
    """One string against all checks."""
    for check, wanted in case["checks"].items():
        if check in _TEXTS:
            expect(check, _TEXTS[check](case["input"]), wanted)
        else:
            expect(check, [error.text for error in _ERRORS[check](_PATH, case["input"])], wanted)
    return None
