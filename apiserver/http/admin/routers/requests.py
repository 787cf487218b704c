"""`/-/requests`: the latest requests and their responses."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from apiserver.http.admin.models import Model
from apiserver.http.admin.operations import Operations
from apiserver.request.records import RequestRecord


class RecordedRequest(Model):
    """A request and its response. A watch has two records: when it opened and when it ended."""

    time: datetime = Field(description="start of the request; for the end of a watch, the end")
    stage: Literal["ResponseStarted", "ResponseComplete"]
    user: str = Field(description="empty if authentication failed")
    verb: str = Field(description="get, list, watch, create, …; for non-resource paths, the HTTP method")
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    method: str
    uri: str
    code: int = Field(description="HTTP status; 0 if the connection was closed without a response")
    seconds: float = Field(description="time from the request to this stage")
    bytes: int = Field(description="size of the response body")
    user_agent: str
    fault: str = Field("", description="ID of the injected fault")
    annotations: dict[str, str] = Field({}, description="audit annotations of admission policies")


class Filter(Model):
    """A filter of requests: all given parameters must match."""

    user: str = ""
    user_agent: str = Field("", description="prefix of the user agent")
    verb: str = ""
    resource: str = Field("", description="plural, or with a subresource: pods/status")
    namespace: str = ""
    name: str = ""
    code: int | None = None
    limit: int = Field(100, ge=1, description="maximum number of requests to return, latest first")

    def fits(self, record: RequestRecord) -> bool:
        info = record.info
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        query = (self.user, self.verb, self.resource, self.namespace, self.name)
        found = (record.user, info.verb, resource, info.namespace, info.name)
        return (
            all(want in ("", given) for want, given in zip(query, found, strict=True))
            and record.user_agent.startswith(self.user_agent)
            and self.code in (None, record.code)
        )


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["requests"])

    @router.get("/-/requests", summary="The latest requests and their responses, newest first")
    async def requests(query: Annotated[Filter, Query()]) -> list[RecordedRequest]:
        """Return the latest requests of all clients, including components in this server, except those below `/-/`.

        The server keeps a bounded number; `--request-log` writes all of them to a file.
        """
        records = (record for record in operations.requests.latest() if query.fits(record))
        return [RecordedRequest.model_validate(record.to_dict()) for record in islice(records, query.limit)]

    @router.delete("/-/requests", status_code=204, summary="Delete all recorded requests")
    async def delete() -> None:
        operations.requests.clear()

    return router
