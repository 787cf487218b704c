"""What rules may ask of kubelets: of nodes whose containers are processes, and of those that listen on a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from apiserver.request.messages import Request, Response, Stream

__all__ = ["KubeletEndpoints", "Kubelets"]


class Kubelets(Protocol):
    """Both give None where the container is no process, and raise StatusError."""

    def serves(self, node: str) -> bool:
        """Whether the node runs processes."""
        ...

    async def log(self, node: str, uid: str, container: str, query: str) -> Response | Stream | None:
        """What a container (of a pod's uid) wrote; `query` as it was asked."""
        ...

    async def execute(
        self, node: str, uid: str, container: str, query: str, headers: Mapping[str, str]
    ) -> Stream | None:
        """A command in a container."""
        ...


class KubeletEndpoints(Protocol):
    """Kubelets of nodes whose status says where they listen. Both raise StatusError."""

    def place(self, node: Mapping[str, Any]) -> tuple[str, int] | None:
        """Where a node's kubelet listens."""
        ...

    async def log(self, place: tuple[str, int], target: str, pod: str, *, insecure: bool = False) -> Stream:
        """What stands at a path of the kubelet; `insecure`: whatever certificate it shows."""
        ...

    async def switch(self, place: tuple[str, int], target: str, request: Request) -> Response | Stream:
        """The kubelet's answer to a request that asks for another protocol."""
        ...
