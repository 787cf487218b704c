"""Play actions into a server at their times."""

from __future__ import annotations

import time as system
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from kubedra.client.paths import join_path
from kubedra.client.responses import ApiError
from kubedra.recording.actions import Action

if TYPE_CHECKING:
    from kubedra.client.client import Client
    from kubedra.client.clock import Clock

__all__ = ["Player"]

_MERGE: Final = "application/merge-patch+json"
#: Reasons of refusals that mean that the replay is ahead or has the object already.
_EXPECTED: Final = frozenset({"AlreadyExists", "NotFound"})


class Player:
    """Plays actions. With a clock virtual time advances; without one real time passes, `speed` times as fast."""

    def __init__(self, client: Client, begin: datetime, clock: Clock | None, speed: float) -> None:
        self._client, self._clock, self._speed = client, clock, speed
        self._reached, self._started = begin, system.monotonic()
        self._begin = begin
        #: Number of refused writes by reason, and of the played ones.
        self.refused: Counter[str] = Counter()
        self.played = 0

    def play(self, actions: Iterable[Action], end: datetime) -> None:
        """Send each action at its time, then let time pass until the end."""
        for action in actions:
            self._pass_until(action.time)
            try:
                self._send(action)
                self.played += 1
            except ApiError as error:
                if error.reason not in _EXPECTED:
                    self.refused[f"{action.kind}: {' '.join(error.message.split())}"] += 1
        self._pass_until(end)

    def _pass_until(self, time: datetime) -> None:
        if time <= self._reached:
            return
        if self._clock is not None:
            self._clock.advance(time - self._reached)
        else:
            due = self._started + (time - self._begin) / timedelta(seconds=1) / self._speed
            system.sleep(max(0.0, due - system.monotonic()))
        self._reached = time

    def _send(self, action: Action) -> None:
        if action.verb == "request":
            body = action.body.get("", action.body) or None
            self._client.request(action.method, action.uri, body, content_type=action.content_type)
            return
        path = self._path(action, "" if action.verb == "create" else action.name)
        if action.verb == "create":
            self._client.request("POST", path, action.body)
        elif action.verb == "patch":
            self._client.request("PATCH", path, action.body, content_type=_MERGE)
        else:
            self._client.request("DELETE", path)

    def _path(self, action: Action, name: str) -> str:
        if action.namespace:
            return self._client.path(action.api_version, action.kind, action.namespace, name)
        path = self._client.path(action.api_version, action.kind, "")
        return path + join_path(name) if name else path
