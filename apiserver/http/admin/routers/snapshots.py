"""`/-/snapshots`: keep the state of the cluster, go back to it, and exchange it as a file."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from fastapi.responses import Response
from pydantic import Field

from apiserver.http.admin.models import Model, describe_body, parse_body_as
from apiserver.http.admin.operations import Operations
from apiserver.state.snapshots import StoredSnapshot
from apiserver.storage.log.types import StorageError
from kubedra.archive.archive import ArchiveError

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
#: The current state, without a snapshot.
_NOW: Final = "now"
_MEDIA: Final = "application/vnd.kubedra.archive"
_Name = Annotated[str, Path(pattern=_NAME)]


class SnapshotRequest(Model):
    """How to take a snapshot."""

    name: str = Field(
        "", pattern=rf"^$|{_NAME}", description="name; by default a new one. A snapshot of that name is replaced"
    )


class SnapshotInfo(Model):
    """A snapshot in the server's memory."""

    name: str
    created: str = Field(description="time of the server that took it")
    resource_version: str = Field(description="resourceVersion of the whole state")
    objects: int = Field(description="number of objects")
    release: str = Field(description="emulated release of the server that took it")
    kubedra: str = Field(description="release of kubedra that took it")
    clock: str = Field(description="real or virtual")
    seed: int | None = Field(description="seed of the server that took it")


class RestoreRequest(Model):
    """How to go back."""

    reset: bool = Field(False, description="also delete faults and records of requests and drivers' calls, as /-/reset")


class RestoreResult(Model):
    """The effect of going back to a snapshot, as numbers of objects."""

    created: int
    updated: int
    deleted: int
    resource_version: str = Field(description="resourceVersion after it; it grows as with any write")


def _info(snapshot: StoredSnapshot) -> SnapshotInfo:
    header = snapshot.header
    return SnapshotInfo(
        name=snapshot.name,
        created=header["created"],
        resource_version=str(header["revision"]),
        objects=len(snapshot.records),
        release=header["release"],
        kubedra=header["kubedra"],
        clock=header.get("clock", "real"),
        seed=header.get("seed"),
    )


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["snapshots"])
    snapshots = operations.snapshots

    def find(name: str) -> StoredSnapshot:
        try:
            return snapshots.get(name)
        except KeyError:
            raise HTTPException(404, f"no snapshot {name!r}; `kubedra snapshot list` lists them") from None

    @router.get("/-/snapshots", summary="List the snapshots in the server's memory, oldest first")
    async def list_snapshots() -> list[SnapshotInfo]:
        return list(map(_info, snapshots.all()))

    @router.post("/-/snapshots", summary="Take a snapshot", openapi_extra=describe_body(SnapshotRequest))
    async def take(body: Annotated[SnapshotRequest, Depends(parse_body_as(SnapshotRequest))]) -> SnapshotInfo:
        """Keep all objects in the server's memory, with their revisions."""
        if body.name == _NOW:
            raise HTTPException(400, f"name: {_NOW} is the current state; use another name")
        return _info(await snapshots.take(body.name))

    @router.get("/-/snapshots/{name}", summary="Describe a snapshot")
    async def get(name: _Name) -> SnapshotInfo:
        return _info(find(name))

    @router.delete("/-/snapshots/{name}", status_code=204, summary="Delete a snapshot")
    async def delete(name: _Name) -> None:
        find(name)
        snapshots.delete(name)

    @router.post(
        "/-/snapshots/{name}/restore", summary="Go back to a snapshot", openapi_extra=describe_body(RestoreRequest)
    )
    async def restore(
        name: _Name, body: Annotated[RestoreRequest, Depends(parse_body_as(RestoreRequest))]
    ) -> RestoreResult:
        """Create, update and delete what differs, in one commit. Objects keep their uids.

        Watches get these changes as events. After more than 5000 changes they end with 410, so that informers list
        again. Time does not go back.
        """
        find(name)
        try:
            found = await operations.restore(name, body.reset)
        except StorageError as error:
            raise HTTPException(507, f"nothing was changed: {error}") from error
        return RestoreResult(
            created=found.created, updated=found.updated, deleted=found.deleted, resource_version=str(found.revision)
        )

    @router.get(
        "/-/snapshots/{name}/file",
        summary="Download a snapshot",
        response_class=Response,
        responses={200: {"content": {_MEDIA: {}}}},
    )
    async def download(name: _Name) -> Response:
        """Return the file of a snapshot. `now` is the current state. It contains Secrets and the keys of tokens."""
        if name == _NOW:
            contents = await snapshots.read()
        else:
            contents = snapshots.contents(find(name))
        return Response(await snapshots.render(contents), media_type=_MEDIA)

    @router.put(
        "/-/snapshots/{name}/file",
        summary="Upload a snapshot",
        openapi_extra={"requestBody": {"required": True, "content": {_MEDIA: {}}}},
    )
    async def upload(
        name: _Name,
        request: Request,
        part: Annotated[int, Query(ge=0, description="number of this part of the file")] = 0,
        last: Annotated[bool, Query(description="whether the file ends with this part")] = True,
    ) -> SnapshotInfo | None:
        """Keep a file as a snapshot. A request has at most 3 MiB; send a larger file in parts, in order."""
        if name == _NOW:
            raise HTTPException(400, f"name: {_NOW} is the current state; use another name")
        try:
            found = await snapshots.receive(name, part, await request.body(), last=last)
        except ArchiveError as error:
            raise HTTPException(400, str(error)) from error
        return None if found is None else _info(found)

    return router
