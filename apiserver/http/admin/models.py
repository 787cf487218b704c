"""The base of the models of all routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A model with fields in camel case on the wire, as Kubernetes has them. Unknown fields are rejected."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


Body = TypeVar("Body", bound=Model)


def parse_body_as(model: type[Body]) -> Callable[[Request], Awaitable[Body]]:
    """Return a dependency that parses a JSON body regardless of its Content-Type.

    `kubectl create --raw` sends no type, `curl -d` that of a form. An invalid body is a 400 with one line.
    """

    async def read(request: Request) -> Body:
        try:
            return model.model_validate_json(await request.body())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise HTTPException(400, f"{where}: {first['msg']}" if where else first["msg"]) from error

    return read


def describe_body(model: type[Model]) -> dict[str, Any]:
    """Return the OpenAPI description of a route with such a body."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}
