"""Holds conversations with a server over a socket and compares every answer."""

from __future__ import annotations

import copy
import hashlib
import http.client
import itertools
import json
import os
import re
from dataclasses import dataclass, field
from time import time_ns
from typing import Any, Final, Protocol, Self

from apiserver.api.objects import Json
from tests.conformance.commonform import CommonForm, decode, dig, in_any_order, leave_out
from tests.conformance.compare import differences
from tests.conformance.conversation import Conversation
from tests.conformance.streams import EventStream
from tests.conformance.webhook import Webhook
from tests.support.patience import PATIENCE
from tests.support.server import SystemTime

_HEADERS: Final = ("content-type", "warning", "location", "allow")
#: Field managers are called after it.
_USER_AGENT: Final = "replay/1.0"
_REPEATED = re.compile(r"\$\{(.):(\d+)\}")
_VARIABLE = re.compile(r"\$(\w+)")
_numbers = itertools.count()


@dataclass(slots=True)
class Outcome:
    """How a conversation went: steps compared, steps equal, a line for each difference."""

    steps: int = 0
    equal: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.differences


class Speaker(Protocol):
    """What a conversation is held with: an address and, where it can be moved, a clock."""

    url: str

    @property
    def time(self) -> SystemTime: ...


class Elsewhere:
    """A server that runs by itself, on the system's time."""

    def __init__(self, url: str) -> None:
        self.url, self.time = url, SystemTime()


def play(
    server: Speaker, conversation: Conversation, *, patience: float = PATIENCE, to_first_difference: bool = False
) -> Outcome:
    """Hold a whole conversation, or as much as it takes to see that it differs.

    `patience` limits the wait of an `until`, in seconds.
    """
    outcome = Outcome()
    with Player(server.url, conversation.name, server.time, patience) as player:
        for number, step in enumerate(conversation.steps):
            got = player.attempt(step)
            if "expect" not in step:
                continue
            found = [f"step {number} {about(step)}{line}" for line in differences(player.expected(step), got)]
            outcome.steps += 1
            outcome.equal += not found
            outcome.differences += found
            if found and to_first_difference:
                break
    return outcome


def about(step: Json) -> str:
    """Name a step in a word or two."""
    return str(next((step[key] for key in ("do", "path", "read", "calls", "until") if key in step), ""))


class Player:
    """One conversation under way: its variables, its streams, its webhooks. A context manager. `time` is the server's."""

    def __init__(self, url: str, name: str, time: SystemTime, patience: float = PATIENCE) -> None:
        self._host, _, port = url.removeprefix("http://").partition(":")
        self._port, self._patience, self._time = int(port), patience, time
        unique = f"{name} {os.getpid()} {next(_numbers)} {time_ns()}"
        namespace = "t" + hashlib.sha256(unique.encode()).hexdigest()[:9]
        self.variables: dict[str, Any] = {"ns": namespace}
        self.common = CommonForm(namespace)
        self._streams: dict[str, EventStream] = {}
        self._webhooks: dict[str, Webhook] = {}
        self._connection = http.client.HTTPConnection(self._host, self._port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for open_ends in (self._streams, self._webhooks):
            for open_end in open_ends.values():
                open_end.close()
        self._connection.close()

    def attempt(self, step: Json) -> Json | None:
        """Return the step's outcome in common form, or None if nothing is compared.

        A server may answer anything, so an exception is an outcome.
        """
        try:
            return self._step(step)
        except Exception as error:  # noqa: BLE001 - see above
            return {"failed": f"{type(error).__name__}: {error}"}

    def expected(self, step: Json) -> Any:
        """Return the step's expected outcome in common form, without its `written` part."""
        want = step["expect"]
        if not step.get("written"):
            return want
        return {part: self._expected(value) for part, value in want.items()}

    def _expected(self, value: Any) -> Any:
        """Fill the variables of a handwritten value, whose keys are paths."""
        if isinstance(value, list):
            return [self._expected(item) for item in value]
        if not isinstance(value, dict):
            return self.common.value(self.fill(value))
        return {path: self.common.value(self.fill(item), path.rpartition(".")[2]) for path, item in value.items()}

    def _step(self, step: Json) -> Json | None:
        match step:
            case {"sleep": seconds}:
                (self._time.advance if step.get("virtual") else self._time.sleep)(seconds)
            case {"watch": name}:
                return self._watch(name, step)
            case {"read": name}:
                return self._read(self._streams[name], step)
            case {"close": name}:
                (self._webhooks if name in self._webhooks else self._streams).pop(name).close()
            case {"webhook": name}:
                self._script(name, step)
            case {"calls": name}:
                return self._calls(self._webhooks[name], step)
            case {"until": _}:
                return {"reached": self._until(step)}
            case _:
                return self._request(step)
        return None

    def fill(self, value: Any) -> Any:
        """Fill the variables of a value."""
        match value:
            case str():
                value = _REPEATED.sub(lambda found: found[1] * int(found[2]), value)
                return _VARIABLE.sub(lambda found: str(self.variables.get(found[1], found[0])), value)
            case list():
                return [self.fill(item) for item in value]
            case dict():
                return {self.fill(name): self.fill(item) for name, item in value.items()}
        return value

    def _send(self, do: str, step: Json) -> tuple[int, dict[str, str], bytes]:
        """(status, headers, body) of the answer to one request."""
        method, _, path = self.fill(do).partition(" ")
        body = None
        if "raw" in step:
            body = self.fill(step["raw"]).encode()
        elif "body" in step:
            body = json.dumps(self.fill(step["body"])).encode()
        try:
            return self._exchange(method, path, body, self._headers(step, body))
        except (http.client.HTTPException, OSError):
            self._connection.close()  # the server ended a connection that was kept; a new one is opened
            return self._exchange(method, path, body, self._headers(step, body))

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        self._connection.request(method, path, body, headers)
        self._time.await_answer(self._connection.sock)
        answer = self._connection.getresponse()
        given: dict[str, str] = {}
        for name, value in answer.getheaders():  # a header that is sent twice is one list
            given[name.lower()] = f"{given[name.lower()]}, {value}" if name.lower() in given else value
        return answer.status, given, answer.read()

    def _headers(self, step: Json, body: bytes | None) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "User-Agent": _USER_AGENT,
            "Authorization": f"Bearer {step.get('as', 'admin')}token",
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        return {**headers, **self.fill(step.get("headers", {}))}

    def _save(self, step: Json, answer: Any) -> None:
        for name, path in step.get("save", {}).items():
            self.variables[name] = dig(answer, path)

    def _request(self, step: Json) -> Json:
        status, headers, raw = self._send(step["do"], step)
        body = decode(raw, headers.get("content-type"))
        self._save(step, body)
        compared = step.get("answer_headers", _HEADERS)
        kept = {name: self.common.text(headers[name.lower()]) for name in compared if name.lower() in headers}
        outcome: Json = {"status": status, "headers": kept, "body": self.common(body)}
        for path, conditions in step.get("where", {}).items():
            items, wanted = dig(outcome["body"], path), self.common.value(self.fill(conditions))
            if isinstance(items, list):
                items[:] = [item for item in items if all(dig(item, key) == value for key, value in wanted.items())]
        for path in step.get("ignore", ()):
            leave_out(outcome, path if path.startswith("headers") else f"body.{path}")
        if "only" in step:
            outcome["body"] = {path: dig(outcome["body"], path) for path in step["only"]}
        return in_any_order(outcome) if step.get("unordered") else outcome

    def _watch(self, name: str, step: Json) -> Json:
        stream = EventStream(self._host, self._port, self.fill(step["path"]), self._headers(step, None), self._time)
        self._streams[name] = stream
        if stream.status != http.client.OK:
            return {"status": stream.status, "body": self.common(decode(stream.refusal, stream.content_type))}
        return {"status": stream.status}

    def _read(self, stream: EventStream, step: Json) -> Json:
        expected = len(step.get("expect", {}).get("events", ()))
        events = stream.read(
            step["events"], expected, step.get("timeout", 5), self._patience, bookmarks=bool(step.get("bookmarks"))
        )
        self._save(step, events)
        outcome = {"events": self.common(events)}
        if "event_paths" in step:
            named = zip(outcome["events"], step["event_paths"], strict=False)  # fewer events are a difference
            outcome["events"] = [{path: dig(event, path) for path in paths} for event, paths in named]
        for path in step.get("ignore", ()):
            leave_out(outcome, f"events.*.{path}")
        return outcome

    def _until(self, step: Json) -> bool:
        left = min(step.get("timeout", 10), self._patience)
        while not self._reached(step):
            if left <= 0:
                self._patience = min(self._patience, 1.0)  # what follows it will hardly come either
                return False
            left -= self._time.step(left)
        return True

    def _reached(self, step: Json) -> bool:
        status, headers, raw = self._send(step["until"], step)
        if status == (404 if step.get("absent") else step.get("status")):
            return True
        if "field" not in step or status not in (200, 201):
            return False
        found = dig(decode(raw, headers.get("content-type")), self.fill(step["field"]))
        return bool(found == self.fill(step.get("equals")))

    def _script(self, name: str, step: Json) -> None:
        webhook = self._webhooks.get(name)
        if webhook is None:
            webhook = self._webhooks[name] = Webhook()
            self.variables |= {f"{name}_url": f"https://{webhook.address}", f"{name}_ca": webhook.authority}
            self.common.name_place(webhook.address, name)
            self.common.name_place(webhook.authority, f"{name}_ca")
        webhook.script(self.fill(step.get("answers", {})))

    def _calls(self, webhook: Webhook, step: Json) -> Json:
        calls = webhook.calls()
        if step.get("sorted"):
            calls.sort(key=lambda call: str(call["path"]))
        calls = self.common(calls)
        for call in calls:
            for path in step.get("ignore", ()):
                leave_out(call["body"], path)
            if "only" in step:
                call["body"] = {path: dig(call["body"], path) for path in step["only"]}
        if step.get("once"):
            first = {re.sub(r"<uid#\d+>", "<uid>", json.dumps(call)): call for call in reversed(calls)}
            calls = list(reversed(first.values()))
        return {"calls": copy.deepcopy(calls)}
