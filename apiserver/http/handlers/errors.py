"""The handler that makes answers of what the handlers behind it raise, and headers of their warnings."""

from __future__ import annotations

from apiserver.http.formats.errors import error_response
from apiserver.http.formats.warning import warning_headers
from apiserver.http.handlers.chain import Handler, anew
from apiserver.messages import ConnectionClosed, Request, Response, Stream
from apiserver.settling import Unsettled, settle_again


class Errors:
    """Behind it anything may be raised, before it nothing but ConnectionClosed."""

    next: Handler

    def try_fast(self, request: Request) -> Response | None:
        try:
            answer = self.next.try_fast(request)
        except Unsettled:
            return None
        except Exception as error:  # noqa: BLE001 - each kind has its answer
            answer = error_response(request, error)
        if request.warnings and answer is not None:
            answer.headers += warning_headers(request.warnings)
        return answer

    async def handle(self, request: Request) -> Response | Stream:
        answer: Response | Stream
        try:
            try:
                answer = await self.next.handle(request)
            except Unsettled as lacking:
                answer = await settle_again(lacking, lambda: anew(self.next, request))
        except ConnectionClosed:
            raise
        except Exception as error:  # noqa: BLE001 - each kind has its answer
            answer = error_response(request, error)
        if request.warnings:
            answer.headers += warning_headers(request.warnings)
        return answer
