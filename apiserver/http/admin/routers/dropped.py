"""`/-/dropped`: fields that disabled feature gates dropped from objects."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from apiserver.http.admin.models import Model
from apiserver.http.admin.operations import Operations
from apiserver.registry.definition.dropped_fields import Loss


class DroppedField(Model):
    """A field of a request that was not stored."""

    path: str = Field(description="path of the field in the stored version")
    gate: str = Field(description="the disabled feature gate")


class DroppedFields(Model):
    """The fields that the last lossy write of an object dropped."""

    group: str
    kind: str
    namespace: str = Field(description="empty for cluster-scoped objects")
    name: str
    when: datetime
    fields: list[DroppedField]

    @classmethod
    def of(cls, loss: Loss) -> DroppedFields:
        fields = [DroppedField(path=field.path, gate=field.gate) for field in loss.fields]
        return cls(
            group=loss.group, kind=loss.kind, namespace=loss.namespace, name=loss.name, when=loss.when, fields=fields
        )


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["objects"])

    @router.get("/-/dropped", summary="Fields dropped by disabled feature gates, latest first")
    async def dropped(
        kind: Annotated[str, Query(description="filter by kind")] = "",
        namespace: Annotated[str, Query(description="filter by namespace")] = "",
        name: Annotated[str, Query(description="filter by object name")] = "",
    ) -> list[DroppedFields]:
        return [DroppedFields.of(loss) for loss in operations.dropped(kind, namespace, name)]

    return router
