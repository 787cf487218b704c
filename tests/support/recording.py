"""A component without a server: its informers hold given objects, and its client records writes and events.

client = await reconcile_once(Jobs, "ns/j", job, make_pod("p"), refuses={"create": (500, "InternalError")})
assert (client.verbs, client.reasons) == (["create"], ["FailedCreate"])

`build` makes such a component without reconciling; `await client.reconcile(key)` reconciles it, as often as wanted.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any, Self, TypeVar
from unittest.mock import patch

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime.clock import now
from controllers.options.options import Options
from controllers.runtime import kinds
from controllers.runtime.client import Client
from controllers.runtime.controller import NotYetError
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informer, Informers
from controllers.runtime.kinds import Kind, key_of
from controllers.runtime.times import go_time
from controllers.runtime.transport import NoTransport
from controllers.volumes import VolumeError

Answer = Callable[[Json], Json]
#: The kinds that components use, by name.
KINDS: dict[str, Kind] = {kind.kind: kind for kind in vars(kinds).values() if isinstance(kind, Kind)}


class RecordingClient:
    """Records writes, and the events and the end of `reconcile`.

    `refuses` maps a verb to the code and reason with which it fails, and perhaps the details; `there` holds what `get` finds.
    """

    component: Any = None
    requeue_after: timedelta | None = None
    error: Exception | None = None

    def __init__(self, answers: dict[str, Answer] | None = None) -> None:
        self.writes: list[tuple[str, str, Any]] = []
        self.refuses: dict[str, tuple[Any, ...]] = {}
        self.there: dict[tuple[str, str], Json] = {}
        self.given: list[Json] = []
        self.recorder = FakeRecorder()
        self.informers = Informers(Client(NoTransport()))
        #: The field selectors of the component's informers, by kind.
        self.field_selectors: dict[str, str] = {}
        self._answers = answers or {}

    def with_user_agent(self, _: str) -> RecordingClient:
        return self

    for_controller = with_user_agent

    def at(self, kind: Kind) -> Kind:
        return kind

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Any:
        """Return an object of `there`. Raise NotFound without one."""
        if "get" in self.refuses:
            code, reason, *details = self.refuses["get"]
            raise StatusError(code, reason, "refused", *details)
        try:
            return self.there[kind.kind, name]
        except KeyError:
            raise StatusError(404, "NotFound", f"{name} not found") from None

    def _record(self, verb: str, kind: Kind, what: Any) -> Any:
        self.writes.append((verb, kind.kind, copy.deepcopy(what)))
        if verb in self.refuses:
            code, reason, *details = self.refuses[verb]
            raise StatusError(code, reason, "refused", *details)
        return self._answers[kind.kind](what) if kind.kind in self._answers and verb != "delete" else what

    async def create(self, kind: Kind, body: Json, *_: Any, **__: Any) -> Any:
        made = self._record("create", kind, body)
        served = {"name": "made", "uid": "made", "creationTimestamp": go_time(now())}
        return {**made, "metadata": {**served, **made.get("metadata", {})}}

    async def update(self, kind: Kind, body: Json, subresource: str = "") -> Any:
        return self._record("/".join(filter(None, ("update", subresource))), kind, body)

    async def update_status(self, kind: Kind, body: Json) -> Any:
        return self._record("update/status", kind, body)

    async def patch(self, kind: Kind, name: str, body: Json, namespace: str = "", **more: Any) -> Any:
        return self._record("/".join(filter(None, ("patch", more.get("subresource", "")))), kind, (name, body))

    async def delete(self, kind: Kind, name: str, namespace: str = "", **more: Any) -> Any:
        self._record("delete", kind, (f"{namespace}/{name}" if namespace else name, more))
        return {}

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _, _ in self.writes]

    def bodies(self, verb: str, kind: str = "") -> list[Any]:
        """Return the bodies of writes; of a patch or deletion, the name with the body or the options."""
        return [body for done, of, body in self.writes if done == verb and kind in ("", of)]

    @property
    def statuses(self) -> list[Any]:
        """The statuses that were written, in order."""
        return [body["status"] for body in self.bodies("update/status")]

    @property
    def status(self) -> Any:
        """The status that was written last, or else that of the first given object."""
        return [*(obj.get("status") for obj in self.given[:1]), *self.statuses][-1]

    @property
    def events(self) -> list[tuple[str, str, str]]:
        return self.recorder.events

    @property
    def reasons(self) -> list[str]:
        return self.recorder.reasons

    def serve(self, *objects: Json) -> Self:
        """Let `get` find these objects."""
        self.there |= {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
        return self

    def informer(self, kind: str) -> Informer:
        """Return the informer of a kind that the component uses."""
        return self.informers.of(KINDS[kind], field_selector=self.field_selectors.get(kind, ""))

    def set_objects(self, *objects: Json) -> Self:
        """Let the informers hold these objects."""
        with self._records_events():
            for obj in objects:
                self.informer(obj["kind"]).set_object(key_of(obj), obj)
        return self

    def remove_objects(self, *objects: Json) -> Self:
        """Remove objects from the informers."""
        with self._records_events():
            for obj in objects:
                self.informer(obj["kind"]).set_object(key_of(obj), None)
        return self

    def queued(self) -> list[str]:
        """Return the keys that the component has queued since the last call."""
        queue = self.component._controller.queue
        keys = sorted(queue._order)
        queue._order.clear()
        queue._dirty.clear()
        return keys

    def _records_events(self) -> Any:
        return patch.object(CoreEventRecorder, "record", self.recorder.record)

    async def reconcile(self, key: str) -> Self:
        """Reconcile a key with the component."""
        return await self.run(self.component.reconcile(key))

    async def run(self, work: Awaitable[timedelta | None]) -> Self:
        """Run work of the component. `requeue_after` and `error` (one that means a retry) tell how it ended."""
        self.requeue_after = self.error = None
        with self._records_events():
            try:
                self.requeue_after = await work
            except (StatusError, NotYetError, VolumeError) as error:
                self.error = error
        return self


def make_informers(kind: Kind, *objects: Json, informers: Informers | None = None, **selectors: Any) -> Informers:
    """Return informers whose store of a kind holds these objects."""
    made = informers or Informers(Client(NoTransport()))
    for obj in objects:
        made.of(kind, **selectors).set_object(key_of(obj), obj)
    return made


C = TypeVar("C", bound=RecordingClient)
Builder = Callable[[Any, Informers, Options], Any]


def build(
    builder: Builder, client: C, *given: Json | None, live: Iterable[Json] = (), refuses: Any = None, **options: Any
) -> C:
    """Build a component over informers that hold these objects, and return its client.

    Args:
        builder: the component's class or function.
        client: records its writes.
        given: the objects; None stands for an object that does not exist.
        live: objects of the server that informers do not hold, or hold in another version.
        refuses: the code and the reason with which a verb fails.
        options: fields of Options.
    """
    objects = [obj for obj in given if obj is not None]
    client.serve(*objects, *live)
    client.given += objects
    client.refuses |= refuses or {}
    client.component = builder(client, client.set_objects(*objects).informers, Options(**options))
    return client


async def reconcile_once(builder: Builder, key: str, *objects: Json | None, **more: Any) -> RecordingClient:
    """Build a component as `build` does, reconcile one key, and return the client."""
    return await build(builder, RecordingClient(), *objects, **more).reconcile(key)


class FakeRecorder:
    """Records events: type, reason and message."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def record(self, _: Json, type: str, reason: str, message: str, *__: Any) -> None:
        self.events.append((type, reason, message))

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events]
