"""The link of `--coverage`: it reports requests, error responses and events to the recorder."""

from __future__ import annotations

from apiserver.api.errors.status import StatusError
from apiserver.http.handlers.chain import Handler
from apiserver.http.sinks.coverage import Coverage
from apiserver.request.messages import Request, Response, Stream

__all__ = ["CoverageLink"]


class CoverageLink:
    """Stands inside of the errors handler, where exceptions still have their details."""

    next: Handler

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage

    def try_fast(self, request: Request) -> Response | None:
        own = request.user is not None
        try:
            answer = self.next.try_fast(request)
        except StatusError as error:
            self._coverage.refuse(request, error)
            raise
        if answer is not None and not own:
            self._coverage.see_answer(request.info, answer.status)
        return answer

    async def handle(self, request: Request) -> Response | Stream:
        if request.info.resource == "events" and request.info.verb == "create":
            self._coverage.see_event(request.body)
        # Clients in this process, such as the scheduler, have a user already.
        own = request.user is not None
        try:
            answer = await self.next.handle(request)
        except StatusError as error:
            self._coverage.refuse(request, error)
            raise
        if not own:
            self._coverage.see_answer(request.info, answer.status)
        return answer
