"""`/-/import`: store the objects of another cluster."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import Field

from apiserver.api.errors.status import StatusError
from apiserver.http.admin.models import Model
from apiserver.http.admin.operations import Operations


class Part(Model):
    """The place of a part in its copy."""

    copy_id: str = Field("", alias="copy", description="any text that is the same for all parts of a copy")
    parts: int = Field(1, ge=0, description="number of parts, in the last part; 0 in the others")


class RefusedObject(Model):
    """An object that was not stored, and the reason."""

    kind: str
    namespace: str = ""
    name: str
    reason: str


class ImportResult(Model):
    """The result of an import. All numbers are zero before the last part."""

    created: int = 0
    replaced: int = 0
    unchanged: int = 0
    refused: list[RefusedObject] = Field(default_factory=list)
    warnings: dict[str, int] = Field(
        default_factory=dict, description="number of objects with each warning, such as an unknown field"
    )
    resource_version: str = ""


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.post("/-/import", summary="Store the objects of another cluster as they are")
    async def store(request: Request, part: Annotated[Part, Query()]) -> ImportResult:
        """Store objects with their uids, statuses, owners and managed fields. They replace others of the same name.

        The body is a list of objects in JSON, at most 3 MiB. A larger copy is sent in several parts with the same
        `copy`. Nothing is stored before the last part, which has the number of `parts`.
        """
        body = await request.body()
        try:
            if not part.parts:
                operations.adoption.stage(part.copy_id, body)
                return ImportResult()
            adopted = await operations.adoption.store(part.copy_id, body, part.parts)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        except StatusError as error:
            raise HTTPException(error.code, error.message) from error
        return ImportResult.model_validate(adopted.as_json())

    return router
