"""Legacy and aggregated discovery, as functions of the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.objects import Json
from apiserver.api.values.version_order import version_order
from apiserver.http.documents.priorities import FIRST, group_priority, version_priority
from apiserver.registry.definition.resource import Release, Resource, Subresource, Version, api_version

if TYPE_CHECKING:
    from apiserver.aggregation.servers import Server


#: Parameters of the media type of aggregated discovery.
AGGREGATED: Final = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

Served = Sequence[tuple[Resource, Version]]


class Discovery:
    """The discovery documents of one server that emulates a release.

    `served` holds each resource with each served version.
    """

    def __init__(self, served: Iterable[tuple[Resource, Version]], release: Release, address: str) -> None:
        """Create the documents; `address` is the server's address for clients."""
        self._release, self._address = release, address
        self._remote: dict[str, dict[str, Server]] = {}
        self.set_served(served)

    def set_served(self, served: Iterable[tuple[Resource, Version]]) -> None:
        """Replace the served resources."""
        self._by_version: dict[str, dict[str, list[tuple[Resource, Version]]]] = {}
        for resource, version in served:
            self._by_version.setdefault(resource.group, {}).setdefault(version.name, []).append((resource, version))
        for versions in self._by_version.values():
            for found in versions.values():
                found.sort(key=lambda item: item[0].plural)

    def set_remote(self, servers: Iterable[Server]) -> None:
        """Add the APIs of aggregated servers to the documents."""
        self._remote = {}
        for server in servers:
            self._remote.setdefault(server.remote.group, {})[server.remote.version] = server

    @property
    def groups(self) -> list[str]:
        """Return the names of all groups but the core one, in order."""
        return sorted({group for group in (*self._by_version, *self._remote) if group}, key=self._get_sort_key)

    def _get_sort_key(self, group: str) -> tuple[bool, int, str]:
        """Return a group's sort key: API services first, others by the highest priority of their API services."""
        found = [group_priority(group)] if group in self._by_version else []
        found += [server.remote.group_priority for server in self._remote.get(group, {}).values()]
        return group != FIRST, -max(found), group

    def versions(self, group: str) -> list[str]:
        """Return a group's served versions, the preferred one first; none if the group is not served."""
        known, remote = self._by_version.get(group, {}), self._remote.get(group, {})

        def sort_key(version: str) -> tuple[int, Any]:
            server = remote.get(version)
            found = version_priority(group, version) if server is None else server.remote.version_priority
            return -found, version_order(version)

        return sorted({*known, *remote}, key=sort_key)

    def custom(self, group: str) -> bool:
        """Return whether a group has only custom resources."""
        versions = self._by_version.get(group, {}).values()
        return all(resource.custom for found in versions for resource, _ in found)

    def core(self) -> Json:
        """Build the document of /api."""
        return {
            "kind": "APIVersions",
            "versions": self.versions(""),
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": self._address}],
        }

    def group_list(self) -> Json:
        """Build the document of /apis."""
        groups = []
        for name in self.groups:
            group = self.group(name)
            groups.append({key: value for key, value in group.items() if key not in ("kind", "apiVersion")})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def group(self, name: str) -> Json:
        """Build the document of /apis/GROUP."""
        versions = [{"groupVersion": api_version(name, version), "version": version} for version in self.versions(name)]
        return {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": name,
            "versions": versions,
            "preferredVersion": versions[0],
        }

    def resource_list(self, group: str, version: str) -> Json:
        """Build the document of /api/v1 or /apis/GROUP/VERSION."""
        entries: list[Json] = []
        for resource, _ in self._by_version[group][version]:
            entries.append(_entry(resource, self._release))
            entries += [_sub_entry(resource, sub) for sub in _sort_subresources(resource)]
        # The list of the core group is as old as that group, and has no version of its own.
        head = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group else {})
        return {**head, "groupVersion": api_version(group, version), "resources": entries}

    def aggregated(self, *, core: bool) -> Json:
        """Build the document of /api or /apis as an APIGroupDiscoveryList."""
        items = []
        for group in [""] if core else self.groups:
            versions = [self._version(group, version) for version in self.versions(group)]
            items.append({"metadata": {"name": group} if group else {}, "versions": versions})
        return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}

    def _version(self, group: str, version: str) -> Json:
        """Return a group's version for aggregated discovery."""
        server = self._remote.get(group, {}).get(version)
        if server is None:
            resources = [_aggregated(resource, form) for resource, form in self._by_version[group][version]]
            return {"version": version, "resources": resources, "freshness": "Current"}
        told = {} if server.resources is None else {"resources": server.resources}
        return {"version": version, **told, "freshness": "Current" if server.fresh else "Stale"}

    def paths(self) -> list[str]:
        """Return the API paths for the list at `/`."""
        found = ["/api", *(f"/api/{version}" for version in self.versions("")), "/apis"]
        for group in sorted(self.groups):
            found += [
                f"/apis/{group}",
                *(f"/apis/{api_version(group, version)}" for version in sorted(self.versions(group))),
            ]
        return found


def _entry(resource: Resource, release: Release) -> Json:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    storage_hash = resource.storage_hash(release)
    if storage_hash:
        entry["storageVersionHash"] = storage_hash
    return entry


def _sort_subresources(resource: Resource) -> list[Subresource]:
    """Sort subresources by name; those of custom resources keep their order."""
    if resource.custom:
        return list(resource.subresources)
    return sorted(resource.subresources, key=lambda sub: sub.name)


def _sub_entry(resource: Resource, sub: Any) -> Json:
    entry: Json = {"name": f"{resource.plural}/{sub.name}", "singularName": "", "namespaced": resource.namespaced}
    if sub.group is not None:
        entry["group"] = sub.group
    if sub.version:
        entry["version"] = sub.version
    return entry | {"kind": sub.kind or resource.kind, "verbs": sorted(sub.verbs)}


def _aggregated(resource: Resource, version: Version) -> Json:
    entry: Json = {
        "resource": resource.plural,
        # Group and version are set only if they differ from the resource's: clients fill them in.
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subs = _sort_subresources(resource)
    if subs:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group or "", "version": sub.version, "kind": sub.kind or resource.kind},
                "verbs": sorted(sub.verbs),
            }
            for sub in subs
        ]
    return entry
