"""The handler that adds the same headers to each response. It is in the chain only if there are any."""

from __future__ import annotations

from apiserver.http.handlers.chain import Handler
from apiserver.request.messages import Request, Response, Stream

__all__ = ["FixedHeaders"]


class FixedHeaders:
    """Adds `headers` to each response; the response has none of them itself."""

    next: Handler

    def __init__(self, *headers: tuple[str, str]) -> None:
        self._headers = headers

    def try_fast(self, request: Request) -> Response | None:
        answer = self.next.try_fast(request)
        if answer is not None:
            answer.headers += self._headers
        return answer

    async def handle(self, request: Request) -> Response | Stream:
        answer = await self.next.handle(request)
        answer.headers += self._headers
        return answer
