"""`/-/clusters`: copies of this control plane in forked processes, each with an address and a state of its own."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, HTTPException, Path
from pydantic import Field

from apiserver.http.admin.models import Model, describe_body, parse_body_as
from apiserver.http.admin.operations import Clusters, ForkError, Operations

_NAME: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_Name = Annotated[str, Path(pattern=_NAME)]


class ClusterRequest(Model):
    """How to copy this control plane."""

    name: str = Field(pattern=_NAME, description="name of the copy, a DNS label")
    snapshot: str = Field("", description="name of a snapshot in this server to begin with; by default its state now")


class Cluster(Model):
    """A copy of this control plane."""

    name: str
    url: str
    kubeconfig: str = Field(description="path of a kubeconfig on the server's machine")
    pid: int


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["clusters"])

    def clusters() -> Clusters:
        found = operations.clusters()
        if found is None:
            raise HTTPException(409, "this server cannot be forked")
        return found

    def build(name: str, announcement: Any) -> Cluster:
        fields = {field: announcement[field] for field in ("url", "kubeconfig", "pid")}
        return Cluster(name=name, **fields)

    @router.get("/-/clusters", summary="List the copies of this control plane")
    async def list_clusters() -> list[Cluster]:
        return [build(name, announcement) for name, announcement in clusters().all().items()]

    @router.post("/-/clusters", summary="Copy this control plane", openapi_extra=describe_body(ClusterRequest))
    async def create_cluster(body: Annotated[ClusterRequest, Depends(parse_body_as(ClusterRequest))]) -> Cluster:
        """Fork this server: the copy has its own address and continues with the same objects, revisions and time.

        Needs a server with `--forks` or `--clock virtual`, and memory storage. The copy ends with this server.
        """
        if body.snapshot:
            try:
                operations.snapshots.get(body.snapshot)
            except KeyError:
                raise HTTPException(404, f"no snapshot {body.snapshot!r}") from None
        try:
            return build(body.name, await clusters().create(body.name, body.snapshot))
        except ForkError as error:
            raise HTTPException(409, str(error)) from error

    @router.delete("/-/clusters/{name}", status_code=204, summary="End a copy of this control plane")
    async def delete(name: _Name) -> None:
        try:
            await clusters().delete(name)
        except KeyError:
            raise HTTPException(404, f"no cluster {name!r}; `kubedra clusters list` lists them") from None

    return router
