"""A node's own objects: its status, labels and lease, and the slices of its example driver.

Slices are published before the node becomes Ready, so that a client that waits for the node finds its devices.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.kubelet.emulation.addresses import Pool
from controllers.kubelet.emulation.annotations import DEVICES, EMULATED, PROFILE, annotation, is_emulated
from controllers.kubelet.emulation.devices import example_class
from controllers.kubelet.emulation.publishing import EmulatedSlices
from controllers.options.command_line import FlagError
from controllers.options.options import Options
from controllers.runtime.client import Client, is_reason
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import DEVICE_CLASSES, LEASES, NODES, RESOURCE_SLICES, Kind
from controllers.runtime.times import go_time, micro_time, parse_time
from controllers.runtime.workqueue import Resync

CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
log = logging.getLogger(__name__)
#: The names of created nodes.
_NUMBERED = re.compile(r"node-\d+")
_FRESH = "start with --fresh to delete the old data, or use another --data-dir"
#: The annotation with the SHA-256 of the kubelet's certificate, which the server verifies. Its prefix is not that of
#: the annotations that users set.
CERTIFICATE = "kubelet.kubedra.dev/certificate"
_LEASE_SECONDS = 40
_RENEW = Resync(seconds=10)
_HEARTBEAT = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a kubelet that serves logs and exec, and the SHA-256 of its certificate."""

    address: str
    port: int
    certificate: str

    @property
    def addresses(self) -> list[Json]:
        """The node's addresses. The server prefers the hostname, which must be the one of this machine."""
        return [{"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": "localhost"}]

    def is_announced(self, status: Json) -> bool:
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        return port == self.port and all(each in (status.get("addresses") or ()) for each in self.addresses)


class Registration:
    """The nodes of `options.nodes`, created at start, and the state of every emulated node."""

    def __init__(
        self, client: Client, informers: Informers, options: Options, changed: Callable[[str], None] = lambda node: None
    ) -> None:
        """Create the registration. `changed` is called with the name of a node with changed slices."""
        self._kubelet = client.with_user_agent("kubelet")
        self._options = options
        # The kubelet of one node has no example driver and may not read the slices of other nodes.
        self.slices = None if options.node else informers.device_kind(RESOURCE_SLICES, options.features)
        self._addresses = Pool("172.18.0.0/16", options.node)
        self._capacity: dict[str, Json] = {}
        self._lease_due: dict[str, datetime] = {}
        #: The endpoint of the kubelet of `options.node`, if it serves one.
        self.endpoint: Endpoint | None = None
        self._publishing = None
        if self.slices is not None:
            self._publishing = EmulatedSlices(client.with_user_agent("dra-example-driver"), self.slices, changed)

    def record(self, node: Json) -> None:
        """Record the address of an existing node."""
        for entry in node.get("status", {}).get("addresses") or ():
            if entry["type"] == "InternalIP":
                self._addresses.record(node["metadata"]["uid"], entry["address"])

    def remove(self, node: Json) -> None:
        """Drop the state of a deleted node; the garbage collector deletes its objects."""
        self._addresses.remove(node["metadata"]["uid"])
        self._lease_due.pop(node["metadata"]["uid"], None)
        self._capacity.pop(node["metadata"]["uid"], None)
        if self._publishing is not None:
            self._publishing.remove(node)

    async def provision(self) -> None:
        """Create the nodes of `--nodes N --devices DRIVER`. Existing objects stay as they are.

        On a server without the DRA API the nodes have no devices.
        """
        if self._options.node:
            node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._options.node}}
            exists = not await self._create(NODES, node)
            if exists and is_emulated(await self._kubelet.get(NODES, self._options.node)):
                raise FlagError(f"node {self._options.node} is emulated by the control plane; use another name")
            return
        driver = "" if self._options.devices == "none" or self._options.profile else self._options.devices
        if driver and self._options.nodes:
            try:
                await self._create(DEVICE_CLASSES, example_class(driver))
            except Exception as error:
                if not is_reason(error, "NotFound"):
                    raise
                kind = self._kubelet.at(DEVICE_CLASSES)
                log.warning(
                    "nodes have no devices: the server does not serve %s; enable it with --runtime-config",
                    f"{kind.plural} of {kind.api_version}",
                )
                driver = ""
        for name in self.node_names():
            meta = {"name": name, "annotations": {EMULATED: "true", **self._hardware(name, driver)}}
            await self._create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": meta})

    def _hardware(self, name: str, driver: str) -> dict[str, str]:
        """Return the annotations of a created node's devices."""
        if name == self._options.plugin_node:
            return {}
        if self._options.profile:
            return {PROFILE: self._options.profile}
        return {DEVICES: f"{driver}={self._options.devices_per_node}"} if driver else {}

    def differences(self, nodes: Iterable[Json]) -> list[str]:
        """Return a warning if existing nodes differ from those of the flags, as after an earlier start."""
        if self._options.node:
            return []
        names, found = set(self.node_names()), dict[str, None]()
        driver = "" if self._options.devices == "none" else self._options.devices
        for node in nodes:
            name = node["metadata"]["name"]
            if name in names:
                own = {key: annotation(node, key) for key in (DEVICES, PROFILE)}
                wanted = self._hardware(name, driver)
                if any(value != wanted.get(key) for key, value in own.items()):
                    found[f"{name} has {own[DEVICES] or own[PROFILE] or 'no devices'}"[:100]] = None
            elif _NUMBERED.fullmatch(name):
                found[f"{name} exists"] = None
        if not found:
            return []
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        return [f"nodes of an earlier start differ from the flags: {', '.join([*found][:3])}{more}; {_FRESH}"]

    def node_names(self) -> list[str]:
        """Return the names of the nodes that `provision` creates."""
        return [self._options.node] if self._options.node else [f"node-{i + 1}" for i in range(self._options.nodes)]

    async def _create(self, kind: Kind, obj: Json) -> bool:
        """Create an object. Return False if it exists."""
        try:
            await self._kubelet.create(kind, obj)
        except Exception as error:
            if not is_reason(error, "AlreadyExists"):
                raise
            return False
        return True

    async def reconcile(self, node: Json) -> timedelta:
        """Reconcile one node. Return the delay until the next pass."""
        if self._publishing is not None:
            await self._publishing.reconcile(node)
        await self._label(node)
        await self._report(node)
        await self._renew(node)
        return _RENEW

    async def _label(self, node: Json) -> None:
        name = node["metadata"]["name"]
        own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        missing = {key: value for key, value in own.items() if key not in (node["metadata"].get("labels") or {})}
        wanted = {} if self.endpoint is None else {CERTIFICATE: self.endpoint.certificate}
        present = node["metadata"].get("annotations") or {}
        if missing or any(present.get(key) != value for key, value in wanted.items()):
            metadata = {"uid": node["metadata"]["uid"], "labels": missing, "annotations": wanted}
            body = {"metadata": {name: value for name, value in metadata.items() if value}}
            await self._kubelet.patch(NODES, name, body, type="merge")

    async def _report(self, node: Json) -> None:
        """Write the status as a kubelet does: on changes, else every five minutes."""
        status = node.get("status", {})
        ready = {c["type"]: c["status"] for c in status.get("conditions") or ()}
        complete = status.get("capacity") and status.get("allocatable") and status.get("addresses")
        grown = self._follow_capacity(node)
        announced = self.endpoint is None or self.endpoint.is_announced(status)
        well = complete and announced and not grown and all(ready.get(kind) == value for kind, value, _, _ in _HEALTHY)
        if well and clock.now() - _last_heartbeat(status) < _HEARTBEAT:
            return
        name, now = node["metadata"]["name"], go_time(clock.now())
        capacity = {**CAPACITY, **(status.get("capacity") or {})}
        since = {c["type"]: c.get("lastTransitionTime") for c in status.get("conditions") or ()}
        conditions = [
            {
                "type": kind,
                "status": value,
                "lastHeartbeatTime": now,
                "lastTransitionTime": (ready.get(kind) == value and since.get(kind)) or now,
                "reason": reason,
                "message": message,
            }
            for kind, value, reason, message in _HEALTHY
        ]
        body: Json = {
            "capacity": capacity,
            "allocatable": {**capacity, **(status.get("allocatable") or {}), **grown},
            "conditions": conditions,
            "nodeInfo": _node_info(node, self._options.emulated_version),
        }
        if self.endpoint is not None:
            body["addresses"] = self.endpoint.addresses
            body["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self.endpoint.port}}
        elif not status.get("addresses"):
            body["addresses"] = [
                {"type": "InternalIP", "address": self._addresses.assign(node["metadata"]["uid"])},
                {"type": "Hostname", "address": name},
            ]
        patch = {"metadata": {"uid": node["metadata"]["uid"]}, "status": body}
        await self._kubelet.patch(NODES, name, patch, subresource="status")

    def _follow_capacity(self, node: Json) -> Json:
        """Return the allocatable amounts of new or changed capacity.

        An allocatable amount set lower at the beginning stays.
        """
        status, uid = node.get("status", {}), node["metadata"]["uid"]
        capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
        before = self._capacity.get(uid, capacity)
        self._capacity[uid] = capacity
        return {
            name: amount for name, amount in capacity.items()
            if name not in allocatable or (before.get(name) != amount and allocatable[name] != amount)
        }  # fmt: skip

    async def _renew(self, node: Json) -> None:
        """Renew the node's lease, at most every ten seconds."""
        name, uid, now = node["metadata"]["name"], node["metadata"]["uid"], clock.now()
        due = self._lease_due.get(uid)
        if due is not None and now < due:
            return
        self._lease_due[uid] = now + _RENEW
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        spec = {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": micro_time(now)}
        # The owner is written each time: the lease may be left from a deleted node of the same name.
        body = {"metadata": {"ownerReferences": [owner]}, "spec": spec}
        try:
            await self._kubelet.patch(LEASES, name, body, "kube-node-lease", type="merge")
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
            meta = {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]}
            await self._create(
                LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
            )


_OS_IMAGE = "kubedra emulated node"


def _node_info(node: Json, release: tuple[int, int]) -> Json:
    """Build the nodeInfo of an emulated machine with the kubelet version of the emulated release.

    The machine of a copied node keeps its own.
    """
    present: Json = node.get("status", {}).get("nodeInfo") or {}
    if present.get("osImage") not in (None, "", _OS_IMAGE):
        return present
    version = f"v{release[0]}.{release[1]}.0"
    return {
        "machineID": node["metadata"]["uid"].replace("-", ""),
        "systemUUID": node["metadata"]["uid"],
        "bootID": node["metadata"]["uid"],
        "kernelVersion": "6.8.0",
        "osImage": _OS_IMAGE,
        "containerRuntimeVersion": "kubedra://1",
        "kubeletVersion": version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _last_heartbeat(status: Json) -> datetime:
    """Return the time of the kubelet's last status write."""
    times = [c["lastHeartbeatTime"] for c in status.get("conditions") or () if c.get("lastHeartbeatTime")]
    return parse_time(max(times)) if times else datetime.min.replace(tzinfo=UTC)
