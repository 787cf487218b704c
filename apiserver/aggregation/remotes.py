"""What an APIService that names a service says: where the server of a group and version is, and whom to trust there."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from apiserver.webhooks.services import HTTPS, Service, Services

__all__ = ["SLICE_LABEL", "Addresses", "Remote", "Verdict", "asked_of", "remote_of"]

_SLICES: Final = ("discovery.k8s.io", "endpointslices")
#: Of an EndpointSlice: whose it is.
SLICE_LABEL: Final = "kubernetes.io/service-name"


class Verdict(NamedTuple):
    """A condition Available: its status, reason and message."""

    status: str
    reason: str
    message: str


class Remote(NamedTuple):
    """The server of a group in a version. `group_priority` and `version_priority` say where they stand in lists."""

    name: str
    group: str
    version: str
    service: Service
    authority: bytes
    insecure: bool
    group_priority: int
    version_priority: int
    available: bool

    @property
    def path(self) -> str:
        """The path below which it is asked."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


def remote_of(item: Any) -> Remote | None:
    """The remote of a stored APIService; None of a local one."""
    spec = item["spec"]
    service = spec.get("service")
    if service is None:
        return None
    conditions = (item.get("status") or {}).get("conditions") or ()
    available = any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
    return Remote(
        item["metadata"]["name"],
        spec.get("group", ""),
        spec.get("version", ""),
        Service(service.get("namespace", ""), service.get("name", ""), service.get("port") or HTTPS),
        b64decode(spec.get("caBundle") or "").strip(),
        bool(spec.get("insecureSkipTLSVerify")),
        spec.get("groupPriorityMinimum", 0),
        spec.get("versionPriority", 0),
        available,
    )


def asked_of(item: Any) -> Remote | None:
    """The remote without what is found out of it: where and how it is asked."""
    remote = remote_of(item)
    return remote and remote._replace(available=False)


Lookup = Callable[[str, str, str, str], Any]
All = Callable[[str, str], Iterable[Any]]


class Addresses:
    """Where services are: as the flags say, else as the cluster says of those that something outside of it stands
    behind. `lookup` and `all_of` are the registry's.
    """

    def __init__(self, given: Services, lookup: Lookup, all_of: All) -> None:
        self._given, self._lookup, self._all_of = given, lookup, all_of

    def find(self, service: Service) -> tuple[str, int] | Verdict:
        """Host and port of a service, or why there are none.
        (kube-aggregator/pkg/controllers/status/remote, apiserver/pkg/util/proxy)
        """
        if (given := self._given.get(service)) is not None:
            return given
        where = f'service/{service.name} in "{service.namespace}"'
        stored = self._lookup("", "services", service.namespace, service.name)
        if stored is None:
            return Verdict("False", "ServiceNotFound", f"{where} is not present")
        spec = stored["spec"]
        if spec.get("type") == "ExternalName":
            return spec["externalName"], service.port
        port = next((each for each in spec.get("ports") or () if each.get("port") == service.port), None)
        if port is None:
            return Verdict("False", "ServicePortError", f"{where} is not listening on port {service.port}")
        slices = [
            item
            for item in self._all_of(*_SLICES)
            if item["metadata"].get("namespace") == service.namespace
            and (item["metadata"].get("labels") or {}).get(SLICE_LABEL) == service.name
        ]
        if not slices:
            return Verdict("False", "EndpointsNotFound", f"cannot find endpointslices for {where}")
        return _in_slices(slices, port.get("name") or "", service, where)


def _in_slices(slices: list[Any], name: str, service: Service, where: str) -> tuple[str, int] | Verdict:
    """A ready endpoint's address. Those of pods lead nowhere here, whatever they are."""
    ready = False
    for item in slices:
        ports = [
            port["port"] for port in item.get("ports") or () if (port.get("name") or "") == name and "port" in port
        ]
        for endpoint in item.get("endpoints") or () if ports else ():
            if (endpoint.get("conditions") or {}).get("ready") is False:
                continue
            ready = True
            if (endpoint.get("targetRef") or {}).get("kind") != "Pod":
                return endpoint["addresses"][0], ports[0]
    if not ready:
        text = f'endpointslices for {where} have no addresses with port name "{name}"'
        return Verdict("False", "MissingEndpoints", text)
    of = f"{service.namespace}/{service.name}:{service.port}"
    text = f"no pod listens anywhere here: name where {where} is with --service-address={of}=HOST:PORT"
    return Verdict("False", "FailedDiscoveryCheck", text)
