"""What the models of all routes have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A model whose fields are spelled in camel case on the wire, as Kubernetes spells its own. Unknown fields are
    refused.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


Body = TypeVar("Body", bound=Model)


def body_of(model: type[Body]) -> Callable[[Request], Awaitable[Body]]:
    """A dependency that reads a JSON body whatever it says that it is: `kubectl create --raw` says nothing, `curl -d`
    says that it is a form. A body that does not fit is a 400 with one line.
    """

    async def read(request: Request) -> Body:
        try:
            return model.model_validate_json(await request.body())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise HTTPException(400, f"{where}: {first['msg']}" if where else first["msg"]) from error

    return read


def documented(model: type[Model]) -> dict[str, Any]:
    """What a route with such a body says of it in the OpenAPI document."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}
