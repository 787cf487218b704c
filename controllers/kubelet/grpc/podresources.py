"""The kubelet's pod resources API, limited to claims: the devices of the containers of a node's pods.

Source of facts: Kubernetes 1.36, staging/src/k8s.io/kubelet/pkg/apis/podresources/v1 and pkg/kubelet/apis/podresources.
Nodes have no device plugins, and no exclusive CPUs or memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Stream

from apiserver.api.objects import Json
from apiserver.runtime.metrics import Counter
from controllers.kubelet.dra.cache import ClaimInfo
from controllers.kubelet.dra.manager import DraError, DraManager
from kubedra.driver import wire
from kubedra.driver.messages import Empty
from kubedra.driver.sockets import SocketServer

log = logging.getLogger(__name__)
SERVICE: Final = "v1.PodResourcesLister"
#: Path of the socket in the kubelet's directory.
SOCKET: Final = Path("pod-resources") / "kubelet.sock"


@dataclass(frozen=True, slots=True)
class PodName:
    """GetPodResourcesRequest."""

    name: str = ""
    namespace: str = ""

    def encode(self) -> bytes:
        return wire.field(1, self.name) + wire.field(2, self.namespace)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        fields = dict(wire.fields(data))
        return cls(wire.text(fields.get(1, b"")), wire.text(fields.get(2, b"")))


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """An encoded response. It is never decoded here."""

    data: bytes = b""

    def encode(self) -> bytes:
        return self.data


class PodResources:
    """The API of one node. `pods` returns the node's pods."""

    def __init__(self, claims: DraManager, pods: Callable[[], Iterable[Json]]) -> None:
        self._claims, self._pods = claims, pods
        names = ("total", "list", "get", "get_allocatable")
        self._counters = {
            name: Counter(
                "pod_resources_endpoint_requests_" + (name if name == "total" else f"{name}_total"),
                "Requests to the pod resources API.",
                ("server_api_version",),
            )
            for name in names
        }

    @property
    def metrics(self) -> tuple[Counter, ...]:
        return tuple(self._counters.values())

    async def run(self, directory: Path) -> None:
        """Serve until cancelled. Log a warning and return if the socket cannot be opened."""
        path = directory / SOCKET
        server = SocketServer(path, self._methods())
        try:
            await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
            await server.listen()
        except OSError as error:
            log.warning("cannot serve the pod resources API at %s: %s", path, error)
            return
        try:
            await asyncio.Event().wait()
        finally:
            await server.stop()

    def _methods(self) -> Mapping[str, Handler]:
        work = {"List": (self._list, Empty), "Get": (self._get, PodName), "GetAllocatableResources": (self._all, Empty)}
        return {
            f"/{SERVICE}/{name}": Handler(does, Cardinality.UNARY_UNARY, request, EncodedMessage)
            for name, (does, request) in work.items()
        }

    async def _list(self, stream: Stream[Empty, EncodedMessage]) -> None:
        await stream.recv_message()
        self._count("list")
        await stream.send_message(EncodedMessage(wire.repeated(1, map(self._pod, self._pods()))))

    async def _get(self, stream: Stream[PodName, EncodedMessage]) -> None:
        asked = await stream.recv_message()
        assert asked is not None
        self._count("get")
        for pod in self._pods():
            if (pod["metadata"]["name"], pod["metadata"]["namespace"]) == (asked.name, asked.namespace):
                await stream.send_message(EncodedMessage(wire.message(1, self._pod(pod))))
                return
        raise GRPCError(Status.UNKNOWN, f"pod {asked.name} in namespace {asked.namespace} not found")

    async def _all(self, stream: Stream[Empty, EncodedMessage]) -> None:
        await stream.recv_message()
        self._count("get_allocatable")
        await stream.send_message(EncodedMessage())

    def _count(self, name: str) -> None:
        for counter in ("total", name):
            self._counters[counter].inc("v1")

    def _pod(self, pod: Json) -> bytes:
        """Encode a pod with its regular and sidecar containers."""
        init = (c for c in pod["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always")
        containers = (self._container(pod, container) for container in (*init, *pod["spec"]["containers"]))
        head = wire.field(1, pod["metadata"]["name"]) + wire.field(2, pod["metadata"]["namespace"])
        return head + wire.repeated(3, containers)

    def _container(self, pod: Json, container: Json) -> bytes:
        try:
            claims = self._claims.container_claims(pod, container)
        except DraError as error:
            log.debug("resources of container %s: %s", container["name"], error)
            claims = []
        return wire.field(1, container["name"]) + wire.repeated(5, map(_claim, claims))


def _claim(info: ClaimInfo) -> bytes:
    devices = []
    for driver, device in info.devices():
        cdi = wire.repeated(1, (wire.field(1, name) for name in device.cdi_ids))
        names = wire.field(2, driver) + wire.field(3, device.pool) + wire.field(4, device.device)
        share = b"" if device.share_id is None else wire.message(5, device.share_id.encode())
        devices.append(cdi + names + share)
    return wire.field(2, info.name) + wire.field(3, info.namespace) + wire.repeated(4, devices)
