"""A reconciler with its queue: informers enqueue keys, workers reconcile each key's objects.

    controller = Controller("resourceclaim", reconcile)
    controller.follow(pods)                                    # key of the object itself
    controller.follow(claims, lambda claim: owner_keys(claim))  # or keys of others
    await controller.run()

`reconcile(key)` reads from informers and acts. The key's object may be gone. It returns None when the key is
reconciled, or the delay before the next pass. An exception retries the key after a backoff that doubles. Raise
NotYetError for expected failures. Reconciling must be idempotent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Protocol

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime.metrics import Family
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import key_of
from controllers.runtime.workqueue import DEFAULT, RetryDelays, Workqueue

Reconcile = Callable[[str], Awaitable[timedelta | None]]
log = logging.getLogger(__name__)


class NotYetError(Exception):
    """Raised when a precondition of the work is not met yet; the key is retried and no traceback is logged."""


class Component(Protocol):
    """A part that the manager runs until it is cancelled."""

    name: str

    async def run(self) -> None: ...

    @property
    def idle(self) -> bool:
        """Return whether no work is pending, timers aside."""
        ...

    @property
    def due(self) -> float | None:
        """Return the loop time of the next timer that is not upkeep; None without one."""
        ...

    @property
    def metrics(self) -> Sequence[Family]:
        """Return the metric families; may be empty."""
        ...


class ControllerComponent:
    """A component with one controller."""

    _controller: Controller

    @property
    def idle(self) -> bool:
        return self._controller.idle

    @property
    def due(self) -> float | None:
        return self._controller.queue.due

    @property
    def metrics(self) -> Sequence[Family]:
        return self._controller.metrics

    async def run(self) -> None:
        await self._controller.run()


class ComponentOfSeveral:
    """A component with several controllers and other coroutines beside them."""

    _controllers: Sequence[Controller] = ()
    _beside: Sequence[Callable[[], Awaitable[None]]] = ()

    @property
    def idle(self) -> bool:
        return all(controller.idle for controller in self._controllers)

    @property
    def due(self) -> float | None:
        return min((due for each in self._controllers if (due := each.queue.due) is not None), default=None)

    @property
    def metrics(self) -> Sequence[Family]:
        return [family for controller in self._controllers for family in controller.metrics]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for run in self._beside:
                group.create_task(_as_task(run))
            for controller in self._controllers:
                group.create_task(controller.run())


class Controller:
    """A queue, its workers, and the informers that feed it. `Informers` runs the informers."""

    def __init__(
        self, name: str, reconcile: Reconcile, *, workers: int = 1, queue: str = "", retry_delays: RetryDelays = DEFAULT
    ) -> None:
        """Create a controller.

        Args:
            name: The name in logs.
            reconcile: The work for one key.
            workers: The number of keys reconciled concurrently.
            queue: The queue's name in metrics; the controller's name by default.
            retry_delays: The delays of failing keys.
        """
        self.name = name
        self.queue = Workqueue(retry_delays, name=queue or name)
        self._reconcile = reconcile
        self._workers = workers
        self._informers: list[Informer] = []
        self._alongside: list[Callable[[], Awaitable[None]]] = []

    def follow(self, informer: Informer, keys: Callable[[Json], Iterable[str]] | None = None) -> None:
        """Enqueue the keys of every added, changed or deleted object.

        A change enqueues the keys before and after it. Without `keys` an object has its own key, and its deletion
        cancels the delayed passes of that key.
        """
        self.require(informer)
        keys_of = keys or _own_key

        def enqueue(obj: Json) -> None:
            for key in keys_of(obj):
                self.queue.add(key)

        def updated(old: Json, new: Json) -> None:
            enqueue(old)
            enqueue(new)

        def deleted(obj: Json) -> None:
            if keys is None:
                self.queue.drop(key_of(obj))
            enqueue(obj)

        informer.on(added=enqueue, updated=updated, deleted=deleted)

    def require(self, informer: Informer) -> None:
        """Delay the work until the informer has synced."""
        if informer not in self._informers:
            self._informers.append(informer)

    def alongside(self, run: Callable[[], Awaitable[None]]) -> None:
        """Run something else, such as an event recorder, as long as the controller runs."""
        self._alongside.append(run)

    @property
    def idle(self) -> bool:
        return self.queue.idle

    @property
    def metrics(self) -> Sequence[Family]:
        return self.queue.metrics.families

    async def run(self) -> None:
        for informer in self._informers:
            await informer.wait_synced()
        try:
            async with asyncio.TaskGroup() as group:
                for run in self._alongside:
                    group.create_task(_as_task(run), name=f"{self.name}: {run.__qualname__}")
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self.queue.close()

    async def _work(self) -> None:
        while (key := await self.queue.get()) is not None:
            try:
                await self._process(key)
            finally:
                self.queue.done(key)

    async def _process(self, key: str) -> None:
        try:
            again = await self._reconcile(key)
        except NotYetError as error:
            log.info("%s: %s: %s", self.name, key, error)
            self.queue.retry(key)
        except StatusError as error:
            log.log(logging.DEBUG if error.code == 409 else logging.WARNING, "%s: %s: %s", self.name, key, error)
            self.queue.retry(key)
        except Exception:
            log.exception("%s: %s failed; retrying", self.name, key)
            self.queue.retry(key)
        else:
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)


def _own_key(obj: Json) -> tuple[str]:
    return (key_of(obj),)


async def _as_task(run: Callable[[], Awaitable[None]]) -> None:
    await run()
