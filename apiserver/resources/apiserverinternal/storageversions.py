"""Define StorageVersions (internal.apiserver.k8s.io), as clients write them.

This server creates none. Rules: pkg/apis/apiserverinternal/validation.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Named, Path, duplicate, invalid, required
from apiserver.api.objects import Json
from apiserver.api.types.storageversions import StorageVersion
from apiserver.api.validation.items import each_item, each_unique
from apiserver.api.values.names import dns1035_label, dns_subdomain, label_key
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.common.status import StatusStrategy

__all__ = ["STORAGE_VERSIONS"]

Errors = list[FieldError]

_STATUS: Final = Path("status")
_COMMON: Final = _STATUS / "commonEncodingVersion"
_SHOWN: Final = 3
_NO_VERSION: Final = (
    "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for"
    " validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g."
    " 'example.com/MyVersion')"
)


def _api_version(text: str) -> str:
    """Return the problems of a version with an optional group; "" if it is valid."""
    if text.count("/") > 1:
        return _NO_VERSION
    group, slash, version = text.rpartition("/")
    wrong: list[str] = []
    if slash:
        wrong += [f"group part: {problem}" for problem in (dns_subdomain(group) if group else ["must be non-empty"])]
    wrong += [f"version part: {problem}" for problem in (dns1035_label(version) if version else ["must be non-empty"])]
    return ",".join(wrong)


def _versions(path: Path, versions: list[str]) -> Errors:
    return [
        invalid(at, version, problem) for at, version in each_item(path, versions) if (problem := _api_version(version))
    ]


def _server(path: Path, server: Json) -> Errors:
    name, encoding = server.get("apiServerID", ""), server.get("encodingVersion", "")
    decodable = server.get("decodableVersions") or []
    errors = [invalid(path / "apiServerID", name, text) for text in dns_subdomain(name)]
    if problem := _api_version(encoding):
        errors.append(invalid(path / "encodingVersion", encoding, problem))
    errors += _versions(path / "decodableVersions", decodable)
    if encoding not in decodable:
        text = f"decodableVersions must include encodingVersion {encoding}"
        errors.append(invalid(path / "decodableVersions", server.get("decodableVersions"), text))
    for at, version in each_item(path / "servedVersions", server.get("servedVersions")):
        if problem := _api_version(version):
            errors.append(invalid(at, version, problem))
        if version not in decodable:
            known = f"[{' '.join(decodable)}]"
            text = f"individual served version : {version} must be included in decodableVersions : {known}"
            errors.append(invalid(at, version, text))
    return errors


def _common(status: Json) -> Errors:
    """Require a common encoding version that equals the encoding version of all servers."""
    found = {server.get("encodingVersion", "") for server in status.get("storageVersions") or ()}
    actual, told = next(iter(found)) if len(found) == 1 else None, status.get("commonEncodingVersion")
    if actual == told:
        return []
    if actual is None:
        text = (
            "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the"
            " supported versions yet"
        )
        return [invalid(_COMMON, told, text)]
    if told is None:
        return [invalid(_COMMON, None, f"the common encoding version is {actual}")]
    return [invalid(_COMMON, told, f"the actual common encoding version is {actual}")]


def _conditions(conditions: list[Json]) -> Errors:
    """Validate the conditions. Paths omit the field name, as upstream's do."""
    errors: Errors = []
    seen: dict[str, int] = {}
    for index, condition in enumerate(conditions):
        path, kind, status = _STATUS[index], condition.get("type", ""), condition.get("status", "")
        if kind in seen:
            text = f"the type of the condition is not unique, it also appears in conditions[{seen[kind]}]"
            errors.append(invalid(path / "type", kind, text))
        seen[kind] = index
        errors += [invalid(path / "type", kind, text) for text in label_key(kind)]
        errors += [invalid(path / "status", status, text) for text in label_key(status)]
        errors += [required(path / name) for name in ("reason", "message") if not condition.get(name)]
    return errors


def _status(status: Json) -> Errors:
    errors: Errors = []
    servers = status.get("storageVersions")
    for path, server, is_repeated in each_unique(_STATUS / "storageVersions", servers, "apiServerID"):
        if is_repeated:
            errors.append(duplicate(path / "apiServerID", Named(server.get("apiServerID", ""))))
        errors += _server(path, server)
    return errors + _common(status) + _conditions(status.get("conditions") or [])


class StorageVersionStrategy(StatusStrategy):
    keeps_metadata = True
    name_rule = "path-segment"

    def validate_first(self, ctx: Context, obj: Json, old: Json | None) -> Errors:
        """Require the name GROUP.RESOURCE for a new object."""
        name = obj["metadata"].get("name", "")
        if old is not None or not name:
            return []
        group, dot, resource = name.rpartition(".")
        wrong = [f"the group segment {text}" for text in dns_subdomain(group)] if dot else []
        wrong += [f"the resource segment {text}" for text in dns1035_label(resource)] if dot else []
        if not dot:
            wrong = ["name must be in the form of <group>.<resource>"]
        return [invalid(Path("metadata") / "name", name, text) for text in wrong]

    def validate(self, ctx: Context, obj: Json) -> Errors:
        return _status(obj.get("status") or {})

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> Errors:
        return _status(obj.get("status") or {})


def _servers(obj: Json) -> str:
    servers = (obj.get("status") or {}).get("storageVersions") or []
    shown = [f"{server.get('apiServerID', '')}={server.get('encodingVersion', '')}" for server in servers]
    if not shown:
        return "<unset>"
    more = f" + {len(shown) - _SHOWN} more..." if len(shown) > _SHOWN else ""
    return ",".join(shown[:_SHOWN]) + more


STORAGE_VERSIONS: Final = Resource(
    group="internal.apiserver.k8s.io", kind="StorageVersion", plural="storageversions", singular="storageversion",
    namespaced=False,
    versions=(Version(name="v1alpha1", schema=StorageVersion, introduced=(1, 20), on_by_default=False),),
    strategy=StorageVersionStrategy(), storage_prefix="storageversions",
    columns=name_and_age(
        Column(name="CommonEncodingVersion",
            cell=lambda obj: (obj.get("status") or {}).get("commonEncodingVersion", "<unset>"),
            description="Encoding version of all servers, if they agree."),
        Column(name="StorageVersions", cell=_servers, description="Encoding version of each server."),
    ),
    subresources=(Subresource(name="status"),),
)  # fmt: skip
