"""kubedra: the Kubernetes control plane for Dynamic Resource Allocation, as a library.

    from kubedra import ControlPlane

    with ControlPlane(nodes=2) as plane, plane.client() as client:
        print(plane.url, plane.kubeconfig)
        client.apply("pod.yaml")

A host project imports only this package. It starts the server as a child process and connects to it over HTTP. It never
imports the server's own packages (docs/adr/0005-names-and-packaging.md). Importing it takes little time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubedra.version import __version__

if TYPE_CHECKING:
    from kubedra.client.client import ApiError, AsyncClient, AtRestError, Client
    from kubedra.exploration.plane import LoopControlPlane
    from kubedra.plane.control_plane import ControlPlane

__all__ = ["ApiError", "AsyncClient", "AtRestError", "Client", "ControlPlane", "LoopControlPlane", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "ControlPlane":
        from kubedra.plane.control_plane import ControlPlane

        return ControlPlane
    if name == "LoopControlPlane":
        from kubedra.exploration.plane import LoopControlPlane

        return LoopControlPlane
    if name in {"ApiError", "AsyncClient", "AtRestError", "Client"}:
        from kubedra.client import client

        return getattr(client, name)
    raise AttributeError(f"module 'kubedra' has no attribute {name!r}")
