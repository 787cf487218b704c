"""Creates and deletes pods for an owner, with events.

Facts: upstream's pkg/controller/controller_utils.go (RealPodControl) and pkg/controller/replicaset (slowStartBatch).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from apiserver.api.objects import Json
from controllers.runtime.client import Client, StatusError, is_reason
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.kinds import PODS, Kind
from controllers.workloads.common.references import controller_reference
from controllers.workloads.common.templates import build_pod

#: Maximum number of pods created or deleted per pass.
BURST = 500


class PodControl:
    """The creation and deletion of pods for the owners of one kind."""

    def __init__(self, client: Client, recorder: CoreEventRecorder, kind: Kind) -> None:
        self._client, self._recorder, self._kind = client, recorder, kind

    async def create(self, owner: Json, template: Json) -> Json:
        """Create a pod from a template, with a generated name. Raise StatusError."""
        return await self.create_pod(owner, build_pod(template, owner, controller_reference(owner, self._kind)))

    async def create_pod(self, owner: Json, pod: Json) -> Json:
        """Create a pod. Raise StatusError; in a terminating namespace without an event."""
        try:
            made = await self._client.create(PODS, pod)
        except StatusError as error:
            if not in_terminating_namespace(error):
                self._recorder.record(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        self._recorder.record(owner, "Normal", "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        return made

    async def delete(self, owner: Json, pod: Json) -> None:
        """Delete a pod. Raise StatusError, also if it is gone (NotFound)."""
        metadata = pod["metadata"]
        try:
            await self._client.delete(PODS, metadata["name"], metadata["namespace"])
        except StatusError as error:
            if not is_reason(error, "NotFound"):
                self._recorder.record(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self._recorder.record(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {metadata['name']}")


def in_terminating_namespace(error: BaseException) -> bool:
    """Return whether the server rejected a request because the namespace is terminating."""
    causes = ((error.details or {}).get("causes") or ()) if isinstance(error, StatusError) else ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


async def slow_start(count: int, work: Callable[[int], Awaitable[None]]) -> tuple[int, Exception | None]:
    """Call `work` with 0 to count - 1 in batches of doubling size until a batch has a failure.

    A common error thus costs few requests. Return the number of successes and the first failure.
    """
    begun, done, size = 0, 0, 1
    while begun < count:
        batch = range(begun, min(begun + size, count))
        failures = await all_of(work(number) for number in batch)
        begun, done, size = batch.stop, done + len(batch) - len(failures), size * 2
        if failures:
            return done, failures[0]
    return done, None


async def all_of(works: Iterable[Awaitable[None]]) -> list[Exception]:
    """Run all concurrently to completion. Return the failures."""
    results = await asyncio.gather(*works, return_exceptions=True)
    failures = []
    for result in results:
        if isinstance(result, Exception):
            failures.append(result)
        elif isinstance(result, BaseException):
            raise result
    return failures
