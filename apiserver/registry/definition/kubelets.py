"""Interfaces of rules to kubelets: of nodes with local processes, and of nodes on a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from apiserver.request.messages import Request, Response, Stream

__all__ = ["KubeletEndpoints", "Kubelets", "Place"]


class Place(NamedTuple):
    """The address of a kubelet. `certificate` is the SHA-256 of its certificate, "" to accept any that is trusted."""

    host: str
    port: int
    certificate: str = ""


class Kubelets(Protocol):
    """Kubelets with local processes. Both calls return None if the container is no process, and raise StatusError."""

    def serves(self, node: str) -> bool:
        """Return whether the node runs processes."""
        ...

    async def log(self, node: str, uid: str, container: str, query: str) -> Response | Stream | None:
        """Return the log of a container of a pod's UID; `query` is the request's."""
        ...

    async def execute(
        self, node: str, uid: str, container: str, query: str, headers: Mapping[str, str]
    ) -> Stream | None:
        """Run a command in a container."""
        ...


class KubeletEndpoints(Protocol):
    """Kubelets at the addresses in their nodes' status. Both calls raise StatusError."""

    def place(self, node: Mapping[str, Any]) -> Place | None:
        """Return the address of a node's kubelet, or None."""
        ...

    async def log(self, place: Place, target: str, pod: str, *, insecure: bool = False) -> Stream:
        """Return the response at a path of the kubelet. With `insecure` its certificate is not verified."""
        ...

    async def switch(self, place: Place, target: str, request: Request) -> Response | Stream:
        """Return the kubelet's response to a request for another protocol."""
        ...
