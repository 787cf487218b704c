"""A component without a server: its informers hold given objects, and its client records what it writes.

client = RecordingClient()
await ReplicaSets(client, make_informers(PODS, make_pod("p")), Options()).reconcile("ns/rs")
assert client.verbs == ["create"]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import Kind, key_of
from controllers.runtime.transport import NoTransport

Answer = Callable[[Json], Json]


class RecordingClient:
    """Records writes. `refuses` maps a verb to the code and reason with which it fails; `there` holds what `get` finds."""

    def __init__(self, answers: dict[str, Answer] | None = None) -> None:
        self.writes: list[tuple[str, str, Any]] = []
        self.refuses: dict[str, tuple[int, str]] = {}
        self.there: dict[tuple[str, str], Json] = {}
        self._answers = answers or {}

    def with_user_agent(self, _: str) -> RecordingClient:
        return self

    for_controller = with_user_agent

    def at(self, kind: Kind) -> Kind:
        return kind

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Any:
        """Return an object of `there`. Raise NotFound without one."""
        if "get" in self.refuses:
            code, reason = self.refuses["get"]
            raise StatusError(code, reason, "refused")
        try:
            return self.there[kind.kind, name]
        except KeyError:
            raise StatusError(404, "NotFound", f"{name} not found") from None

    def _record(self, verb: str, kind: Kind, what: Any) -> Any:
        self.writes.append((verb, kind.kind, what))
        if verb in self.refuses:
            code, reason = self.refuses[verb]
            raise StatusError(code, reason, "refused")
        return self._answers[kind.kind](what) if kind.kind in self._answers else what

    async def create(self, kind: Kind, body: Json, *_: Any, **__: Any) -> Any:
        return self._record("create", kind, body)

    async def update(self, kind: Kind, body: Json, subresource: str = "") -> Any:
        return self._record("/".join(filter(None, ("update", subresource))), kind, body)

    async def update_status(self, kind: Kind, body: Json) -> Any:
        return self._record("update/status", kind, body)

    async def patch(self, kind: Kind, name: str, body: Json, namespace: str = "", **more: Any) -> Any:
        return self._record("/".join(filter(None, ("patch", more.get("subresource", "")))), kind, (name, body))

    async def delete(self, kind: Kind, name: str, namespace: str = "", **more: Any) -> Any:
        return self._record("delete", kind, (f"{namespace}/{name}" if namespace else name, more))

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _, _ in self.writes]


def make_informers(kind: Kind, *objects: Json, informers: Informers | None = None, **selectors: Any) -> Informers:
    """Return informers whose store of a kind holds these objects."""
    made = informers or Informers(Client(NoTransport()))
    for obj in objects:
        made.of(kind, **selectors).set_object(key_of(obj), obj)
    return made


class FakeRecorder:
    """Records events: type, reason and message."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def record(self, _: Json, type: str, reason: str, message: str, *__: Any) -> None:
        self.events.append((type, reason, message))

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events]
