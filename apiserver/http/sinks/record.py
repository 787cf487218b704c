"""The record of one request."""

from __future__ import annotations

from datetime import datetime
from sys import intern
from typing import Any, Final

from apiserver.messages import Request
from apiserver.requestinfo import RequestInfo, request_info

#: Stages, in the words of upstream's audit log: a watch has opened; an answer is complete.
STARTED: Final = "ResponseStarted"
COMPLETE: Final = "ResponseComplete"


class RequestRecord:
    """Who asked for what, and what the answer was.

    `time` is when the server took up the request, in the record of a watch's end when it ended; `seconds` passed from
    the request's coming to the stage; `code` 0 means that the connection was closed instead of an answer; `size` is
    the answer's body in bytes, of a watch all its events; `annotations` are what rules noted of the request.

    Many are kept, so it holds little: what the request is about is read from its path again by whoever asks.
    """

    __slots__ = (
        "annotations", "code", "fault", "method", "path", "query", "seconds", "size", "stage", "time", "user",
        "user_agent",
    )  # fmt: skip

    def __init__(
        self, request: Request, time: datetime, seconds: float, code: int, size: int, stage: str = COMPLETE
    ) -> None:
        self.time = time
        self.seconds = seconds
        self.code = code
        self.size = size
        self.stage = stage
        self.method = request.method
        self.path = request.path
        self.query = request.query
        self.fault = request.fault
        self.annotations = request.annotations or None
        self.user = request.user.name if request.user is not None else ""
        self.user_agent = intern(request.headers.get("user-agent", ""))

    @property
    def info(self) -> RequestInfo:
        """What the request was about."""
        return request_info(self.method, self.path, self.query)

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it. What the path does not name is left out."""
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
