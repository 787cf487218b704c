"""Servers of APIServices with a service: their group version, address and trust."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from apiserver.webhooks.services import HTTPS, Service, Services

__all__ = ["SLICE_LABEL", "Addresses", "Remote", "Verdict", "endpoint_of", "remote_of"]

_SLICES: Final = ("discovery.k8s.io", "endpointslices")
#: Label of an EndpointSlice with the name of its service.
SLICE_LABEL: Final = "kubernetes.io/service-name"


class Verdict(NamedTuple):
    """A condition Available: its status, reason and message."""

    status: str
    reason: str
    message: str


class Remote(NamedTuple):
    """The server of a group version. `group_priority` and `version_priority` set its position in lists."""

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
        """The path prefix of its requests."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


def remote_of(item: Any) -> Remote | None:
    """Return the remote of a stored APIService, or None for a local one."""
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


def endpoint_of(item: Any) -> Remote | None:
    """Return the remote without its availability: only how to reach it."""
    remote = remote_of(item)
    return remote and remote._replace(available=False)


Lookup = Callable[[str, str, str, str], Any]
All = Callable[[str, str], Iterable[Any]]


class Addresses:
    """Addresses of services: from the flags, else from Services and EndpointSlices with external endpoints.

    `lookup` and `all_of` are the registry's.
    """

    def __init__(self, given: Services, lookup: Lookup, all_of: All) -> None:
        self._given, self._lookup, self._all_of = given, lookup, all_of

    def find(self, service: Service) -> tuple[str, int] | Verdict:
        """Return host and port of a service, or the reason why there are none.

        Facts: kube-aggregator/pkg/controllers/status/remote, apiserver/pkg/util/proxy.
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
    """Return a ready endpoint's address. Addresses of pods are unreachable here."""
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
    text = f"pods have no network here: set the address of {where} with --service-address={of}=HOST:PORT"
    return Verdict("False", "FailedDiscoveryCheck", text)
