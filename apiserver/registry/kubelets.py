"""What rules may ask of the kubelets of nodes whose containers are processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from apiserver.messages import Response, Stream

__all__ = ["Kubelets"]


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
