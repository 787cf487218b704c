"""One run of the components in a separate process: wait for the server, acquire the lease, work, release the lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from apiserver.api.errors.status import StatusError
from apiserver.runtime.metrics import text
from controllers.manager.manager import Manager
from controllers.options.options import Options
from controllers.runtime.client import Client
from controllers.runtime.election import Election, LeaderElector
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.transport import TransportError

log = logging.getLogger("controllers")
_PAUSE = timedelta(milliseconds=200)


#: Returns the client and the options to work with. Raises StatusError and TransportError.
Resolve = Callable[[Client, Options], Awaitable[tuple[Client, Options]]]


class CredentialsError(Exception):
    """The server rejects the credentials; the message is one line."""


class Instance:
    """The components of one process.

    `server` names the server in messages. `renewing` is a separate client for the lease, if any. `resolve` returns the
    client and the options to work with, once the server is reachable.
    """

    def __init__(
        self,
        client: Client,
        options: Options,
        names: tuple[str, ...],
        election: Election | None,
        server: str,
        renewing: Client | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self._client, self._options, self._names, self._server = client, options, names, server
        self._election, self._resolve = election, resolve
        self._events = CoreEventRecorder(client.with_user_agent("leader-election"), "kubedra")
        self.elector = (
            LeaderElector(renewing or client, election, observed=self._on_leader_change) if election else None
        )
        self.manager: Manager | None = None
        self._state = f"waiting for {server}"

    def unready(self) -> str:
        """Return why this process is not ready; "" while it works or stands by."""
        return self._state

    def metrics(self) -> str:
        """Return the metrics of the components in Prometheus text format."""
        return text(self.manager.metrics() if self.manager else ())

    async def run(self) -> None:
        """Run until cancelled. Errors of components are raised unchanged.

        Raises:
            LeaseLostError: Another instance may lead.
            CredentialsError: The server rejects the credentials.
        """
        await self._wait_reachable()
        try:
            await (self._work() if self.elector is None else self._lead(self.elector))
        except BaseExceptionGroup as group:
            raise _first(group) from group
        finally:
            if self.elector is not None:
                # All components have stopped: the next leader may start immediately.
                await self.elector.release()

    async def _lead(self, elector: LeaderElector) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run(), name="events")
            self._state = ""
            await elector.acquire()
            group.create_task(elector.hold(), name="election")
            await self._work()

    async def _work(self) -> None:
        client, options = await self._settings()
        self._state = "listing collections"
        self.manager = Manager(client, options, self._names)
        running = asyncio.ensure_future(self.manager.run())
        try:
            synced = asyncio.ensure_future(self.manager.wait_ready())
            await asyncio.wait((running, synced), return_when=asyncio.FIRST_COMPLETED)
            synced.cancel()
            self._state = ""
            log.info("running %s", ", ".join(self._names))
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _settings(self) -> tuple[Client, Options]:
        """Return the client and the options to work with. Wait while the server is not reachable."""
        while self._resolve is not None:
            try:
                return await self._resolve(self._client, self._options)
            except (TransportError, StatusError) as error:
                if isinstance(error, StatusError) and error.code < 500 and error.code != 429:
                    raise CredentialsError(f"{self._server} refuses /version: {error.message}") from error
            await asyncio.sleep(_PAUSE.total_seconds())
            await self._wait_reachable()
        return self._client, self._options

    def _on_leader_change(self, holder: str) -> None:
        assert self._election is not None
        if not holder:
            return
        ours = holder == self._election.identity
        log.warning("lease %s: %s", self._election, "this instance leads" if ours else f"standing by, {holder} leads")
        if ours:
            metadata = {"name": self._election.name, "namespace": self._election.namespace}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            self._events.record(lease, "Normal", "LeaderElection", f"{holder} became leader")

    async def _wait_reachable(self) -> None:
        """Wait until the server is ready. It may be starting at the same time."""
        logged = ""
        while True:
            try:
                status, _, body = await self._client.transport.request("GET", "/readyz", "", {}, b"")
                problem = "" if status == 200 else f"not ready: {status} {body.decode(errors='replace')[:200]}"
                if status == 401:
                    raise CredentialsError(f"{self._server} does not accept these credentials (401 Unauthorized)")
            except TransportError as error:
                problem = str(error)
            if not problem:
                return
            if problem != logged:
                log.warning("waiting for %s: %s", self._server, " ".join(problem.split()))
            logged = problem
            await asyncio.sleep(_PAUSE.total_seconds())


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the failure that cancelled the others."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
