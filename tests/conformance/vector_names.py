"""Name vectors: every syntax check of a string."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.api import names
from apiserver.api.fielderrors import FieldError, Path, invalid, too_long
from apiserver.resources.devices import names as dra
from tests.conformance.vectors import Case, Skipped, expect

_PATH = Path("name")
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
    "dra.driverName": dra.driver_name,
    "dra.poolName": dra.pool_name,
    "dra.deviceName": dra.label,
    "dra.requestName": dra.label,
    "dra.deviceClassName": dra.class_name,
    "dra.nodeName": lambda path, value: [invalid(path, value, text) for text in names.dns_subdomain(value)],
    "dra.qualifiedName": dra.qualified_name,
    "dra.fullyQualifiedName": dra.fully_qualified_name,
    "dra.uid": dra.uid,
    "dra.attributeString": lambda path, value: [too_long(path, 64)] if len(value.encode()) > 64 else [],
}


def handle(case: Case) -> Skipped | str | None:
    """One string against all checks."""
    for check, wanted in case["checks"].items():
        if check in _TEXTS:
            expect(check, _TEXTS[check](case["input"]), wanted)
        else:
            expect(check, [error.text for error in _ERRORS[check](_PATH, case["input"])], wanted)
    return None
