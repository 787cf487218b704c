"""The built-in objects of every server, created at its start if missing.

They are namespaces, priority classes, roles, the service address range, and the service `kubernetes`, which leads to
the server itself.
Facts: pkg/controlplane (controller/kubernetesservice, controller/defaultservicecidr, reconcilers).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.values.networks import ip_family
from apiserver.api.values.times import timestamp
from apiserver.authentication.authenticator import ADMIN
from apiserver.controlplane.address_repair import AddressRepair
from apiserver.controlplane.authentication_trust import AuthenticationInfo
from apiserver.controlplane.flow_schemas import FlowSchemaStatus
from apiserver.controlplane.token_tracking import TokenTracking
from apiserver.registry.verbs.server_writes import create_own, delete_own, rewrite_own
from apiserver.resources.flowcontrol.bootstrap import AUTO_UPDATE, LEVELS, SCHEMAS
from apiserver.resources.scheduling.priorityclasses import SYSTEM_CLASSES
from apiserver.resources.services.network import ADDRESSES, ServiceNetwork

if TYPE_CHECKING:
    from apiserver.authentication.x509.client_certificates import ClientCertificates
    from apiserver.options.settings import Settings
    from apiserver.registry.store.store import Registry

__all__ = ["BUILT_IN", "BuiltIn"]


#: The built-in namespaces; /-/reset keeps them.
BUILT_IN: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_KUBERNETES: Final = "kubernetes"
_FLOW_GROUP: Final = "flowcontrol.apiserver.k8s.io"
_FLOW_CONTROL: Final = {"prioritylevelconfigurations": LEVELS, "flowschemas": SCHEMAS}
_FLOW_MANAGER: Final = "api-priority-and-fairness-config-producer-v1"
_RANGES: Final = ("networking.k8s.io", "servicecidrs")
#: A reserved address (RFC 5737, RFC 3849): Endpoints may not name a loopback one.
_NOBODY: Final = {4: "192.0.2.1", 6: "2001:db8::1"}
#: Attempts to find the service that another server creates, and seconds between them.
_ATTEMPTS: Final = 60
_PAUSE: Final = 0.05
_LOG: Final = logging.getLogger(__name__)
#: Port without a listener, for servers without a known port.
_ANY_PORT: Final = 443


def _range_manager(condition: Json) -> Json:
    """Return the managedFields entry of the range's condition Ready, as of an apply of its status."""
    fields: Json = {".": {}} | {f"f:{name}": {} for name in sorted(condition) if condition[name]}
    return {
        "manager": "kubernetes-service-cidr-controller",
        "operation": "Apply",
        "apiVersion": f"{_RANGES[0]}/v1",
        "time": condition["lastTransitionTime"],
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:conditions": {'k:{"type":"Ready"}': fields}}},
        "subresource": "status",
    }


class BuiltIn:
    """The built-in objects of one server."""

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        network: ServiceNetwork,
        host: str,
        certificates: ClientCertificates | None = None,
    ) -> None:
        self._registry, self._settings, self._network = registry, settings, network
        self.address_repair = AddressRepair(registry, host)
        self.tokens = TokenTracking(registry)
        #: The authentication settings published for other servers.
        self.authentication = AuthenticationInfo(registry, settings.identity, certificates)

    async def ensure(self) -> None:
        """Create the missing objects."""
        for name in BUILT_IN:
            await self._ensure("", "namespaces", {"metadata": {"name": name}})
        for name, (value, about) in SYSTEM_CLASSES.items():
            body = {"metadata": {"name": name}, "value": value, "description": about}
            await self._ensure("scheduling.k8s.io", "priorityclasses", body)
        if "RBAC" in self._settings.access.modes:
            from apiserver.authorization.bootstrap import ensure_policy

            await ensure_policy(self._registry, self._settings.features, ADMIN)
        await self._config_maps()
        await self._flow_control()
        await self._range()
        await self.address_repair.repair()
        await self._kubernetes()

    async def _ensure(self, group: str, plural: str, obj: Json, manager: str = "") -> None:
        """Create an object if it is missing. A refusal is logged."""
        refused = await self._create_missing(group, plural, obj, manager)
        if refused is not None:
            _LOG.warning("%s", refused)

    async def _create_missing(self, group: str, plural: str, obj: Json, manager: str = "") -> StatusError | None:
        """Create an object if it is missing; return the refusal, or None if the object exists.

        A refusal comes from the configuration or from stored objects. Another server may create the object at the same
        time. Raise StatusError for a failure (5xx).
        """
        metadata = obj["metadata"]
        if self._registry.lookup(group, plural, metadata.get("namespace", ""), metadata["name"]) is None:
            try:
                await create_own(self._registry, ADMIN, group, plural, obj, manager=manager)
            except StatusError as error:
                if error.code >= 500:
                    raise
                return error
        return None

    def get_initial_keys(self) -> list[str]:
        """Return the keys that a reset keeps: namespaces, and objects without relation to workloads."""
        stores = self._registry.stores
        keys = [stores["", "namespaces"].key("", name) for name in BUILT_IN]
        for plural, objects in _FLOW_CONTROL.items():
            keys += [stores[_FLOW_GROUP, plural].key("", name) for name in objects]
        return keys

    async def _flow_control(self) -> None:
        """Create the missing schemas and levels concurrently, so that they share commits."""
        annotations = {AUTO_UPDATE: "true"}
        for plural, objects in _FLOW_CONTROL.items():
            made = (
                {"metadata": {"name": name, "annotations": annotations}, "spec": spec} for name, spec in objects.items()
            )
            await asyncio.gather(*(self._ensure(_FLOW_GROUP, plural, obj, _FLOW_MANAGER) for obj in made))
        await FlowSchemaStatus(self._registry).ensure()

    async def _config_maps(self) -> None:
        """Create kube-apiserver's ConfigMaps in kube-system.

        They hold the start of the tracking of legacy tokens, and the certificates and headers that authenticate users.
        """
        try:
            await self.tokens.ensure()
        except StatusError as error:
            if error.code >= 500:
                raise
            _LOG.warning("%s", error)
        await self.authentication.ensure()

    async def _range(self) -> None:
        """Create the range of the flags; a second family joins an existing range."""
        cidrs = list(self._network.cidrs)
        await self._ensure(*_RANGES, {"metadata": {"name": _KUBERNETES}, "spec": {"cidrs": cidrs}})
        found = self._registry.lookup(*_RANGES, "", _KUBERNETES)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return
        ready = any(item["type"] == "Ready" for item in (found.get("status") or {}).get("conditions") or ())
        joins = found["spec"]["cidrs"] == cidrs[:1] and len(cidrs) == 2
        if ready and not joins:
            return
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "",
            "message": "Kubernetes default Service CIDR is ready",
            "lastTransitionTime": timestamp(self._registry.clock()),
        }

        def mark(obj: Json) -> Json:
            if joins:
                obj["spec"] = {"cidrs": cidrs}
            if obj["spec"]["cidrs"] == cidrs and not ready:
                obj["status"] = {"conditions": [condition]}
                managers = obj["metadata"].get("managedFields") or []
                obj["metadata"]["managedFields"] = [_range_manager(condition), *managers]
            return obj

        await rewrite_own(self._registry, ADMIN, *_RANGES, "", _KUBERNETES, mark)

    async def _kubernetes(self) -> None:
        port = self._settings.port or _ANY_PORT
        labels = {"component": "apiserver", "provider": _KUBERNETES}
        metadata: Json = {"name": _KUBERNETES, "namespace": "default", "labels": labels}
        spec = {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": self._network.own_address,
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "type": "ClusterIP",
        }
        await self._service({"metadata": metadata, "spec": spec})
        await self._endpoints(self._address(), port)

    async def _service(self, obj: Json) -> None:
        """Create the service.

        Another server that creates it holds its address first: wait for that server. If it never stores the service,
        take the address over.
        """
        refused = await self._create_missing("", "services", obj)
        for _ in range(_ATTEMPTS):
            if refused is None:
                return
            if self._registry.lookup(*ADDRESSES, "", self._network.own_address) is None:
                break  # refused for another reason
            await asyncio.sleep(_PAUSE)
            refused = await self._create_missing("", "services", obj)
        held = self._registry.lookup(*ADDRESSES, "", self._network.own_address)
        parent = held["spec"]["parentRef"] if held is not None else {}
        if (parent.get("namespace"), parent.get("name")) == ("default", _KUBERNETES):
            await delete_own(self._registry, ADMIN, *ADDRESSES, "", self._network.own_address)
        await self._ensure("", "services", obj)

    def _address(self) -> str:
        """Return the server's address for other clients; a reserved one if it listens on loopback or everywhere."""
        told = self._settings.network.advertise or self._settings.bind_address
        address = ipaddress.ip_address(told)
        return _NOBODY[address.version] if address.is_loopback or address.is_unspecified else told

    async def _endpoints(self, address: str, port: int) -> None:
        """Store the addresses of all servers of a database, each of which adds its own."""
        name = {"name": _KUBERNETES, "namespace": "default"}
        ports = [{"name": "https", "port": port, "protocol": "TCP"}]
        found: Any = self._registry.lookup("", "endpoints", "default", _KUBERNETES) or {}
        known = [
            item["ip"]
            for subset in found.get("subsets") or ()
            if subset.get("ports") == ports
            for item in subset.get("addresses") or ()
        ]
        addresses = sorted({address, *(known if self._registry.shared else ())})
        family = ip_family(address)
        slices = {
            "metadata": {**name, "labels": {"kubernetes.io/service-name": _KUBERNETES}},
            "addressType": f"IPv{family}",
            "endpoints": [
                {"addresses": [ip], "conditions": {"ready": True}} for ip in addresses if ip_family(ip) == family
            ],
            "ports": ports,
        }
        mirror = {
            "metadata": {**name, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": ip} for ip in addresses], "ports": ports}],
        }
        await self._put("", "endpoints", mirror, "subsets")
        await self._put("discovery.k8s.io", "endpointslices", slices, "addressType", "endpoints", "ports")

    async def _put(self, group: str, plural: str, obj: Json, *fields: str) -> None:
        """Create an object, or update these of its fields."""
        if self._registry.lookup(group, plural, "default", _KUBERNETES) is None:
            await self._ensure(group, plural, obj)
            return
        changed = {field: obj[field] for field in fields}
        await rewrite_own(
            self._registry, ADMIN, group, plural, "default", _KUBERNETES, lambda stored: {**stored, **changed}
        )
