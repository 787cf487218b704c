"""Records of answered requests, for request logs, audit and `/-/requests`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from sys import intern
from typing import Any, Final, NamedTuple

from apiserver.request.info import RequestInfo, request_info
from apiserver.request.messages import Request, redact

#: Stages, in the words of upstream's audit log: an open watch; a complete response.
STARTED: Final = "ResponseStarted"
COMPLETE: Final = "ResponseComplete"


class RequestRecord(NamedTuple):
    """The user, the request and the outcome of a response.

    `time` is the start of the request, or the end of a watch in the record of its end. `seconds` is the time from the
    arrival of the request to the stage. `code` 0 means that the connection was closed without a response. `size` is
    the body's size in bytes, for a watch that of all its events. `annotations` are those that rules set.

    Many records are kept, so they hold little: readers parse the path again.
    """

    time: datetime
    seconds: float
    code: int
    size: int
    stage: str
    method: str
    path: str
    query: str
    fault: str
    annotations: Mapping[str, str] | None
    user: str
    user_agent: str

    @classmethod
    def of(
        cls, request: Request, time: datetime, seconds: float, code: int, size: int, stage: str = COMPLETE
    ) -> RequestRecord:
        """Build the record of an answered request."""
        user = request.user
        # Same as `cls(...)`, in half the time.
        return tuple.__new__(cls, (
            time, seconds, code, size, stage, request.method, request.path, redact(request.query), request.fault,
            request.annotations or None, user.name if user is not None else "",
            intern(request.headers.get("user-agent", "")),
        ))  # fmt: skip

    @property
    def info(self) -> RequestInfo:
        """Return the resource, object and verb of the request."""
        return request_info(self.method, self.path, self.query)

    def to_dict(self) -> dict[str, Any]:
        """Render the record for JSON. Parts missing in the path are left out."""
        info = self.info
        named = {
            "group": info.group,
            "version": info.version,
            "resource": info.resource,
            "subresource": info.subresource,
            "namespace": info.namespace,
            "name": info.name,
        }
        return {
            "time": self.time.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "stage": self.stage,
            "user": self.user,
            "verb": info.verb,
            **{key: value for key, value in named.items() if value},
            "method": self.method,
            "uri": f"{self.path}?{self.query}" if self.query else self.path,
            "code": self.code,
            "seconds": round(self.seconds, 6),
            "bytes": self.size,
            "userAgent": self.user_agent,
            **({"fault": self.fault} if self.fault else {}),
            **({"annotations": dict(self.annotations)} if self.annotations else {}),
        }
