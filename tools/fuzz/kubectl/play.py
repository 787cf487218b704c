"""Play sequences on both control planes and compare the output of each command, and the objects at the end."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from apiserver.api.objects import Json
from tests.conformance.compare import differences
from tests.support.patience import Deadline
from tools.fuzz.kubectl.forms import IGNORED_EVENTS, common_object, common_output
from tools.fuzz.kubectl.planes import Plane
from tools.fuzz.kubectl.program import Kubectl
from tools.fuzz.kubectl.sequences import Command, Sequence

#: Fair seconds within which both planes come to the same state.
_PATIENCE: Final = 8.0
_PAUSES: Final = (0.05, 0.1, 0.2, 0.4)
#: Collections that controllers write to.
_DERIVED: Final = {
    "/api/v1": ("pods", "events", "serviceaccounts", "endpoints", "configmaps", "persistentvolumeclaims"),
    "/apis/apps/v1": ("replicasets", "controllerrevisions"), "/apis/batch/v1": ("jobs",),
    "/apis/discovery.k8s.io/v1": ("endpointslices",), "/apis/resource.k8s.io/v1": ("resourceclaims",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of a sequence: the commands up to it, and what differs."""

    sequence: Sequence
    number: int
    lines: tuple[str, ...]

    @property
    def command(self) -> Command | None:
        """Return the command, or None at the final objects."""
        return self.sequence.commands[self.number] if self.number < len(self.sequence.commands) else None


@dataclass(slots=True)
class Report:
    steps: int = 0
    sequences: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    verbs: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)


class Side:
    """One plane with its kubectl and a client for raw requests; used by one thread."""

    def __init__(self, plane: Plane, kubectl: Kubectl) -> None:
        self.kubectl, self.server = kubectl, plane.server()

    def items(self, path: str) -> list[Json]:
        """Return the objects of a collection; none where it is not served."""
        answer, raw = self.server.exchange("GET", path, None)
        return json.loads(raw).get("items") or [] if answer.status == 200 else []

    def close(self) -> None:
        self.kubectl.close()
        self.server.close()


class Player:
    """Plays sequences in one thread."""

    def __init__(self, theirs: Side, ours: Side, files: Path, work: ThreadPoolExecutor) -> None:
        self._theirs, self._ours, self._files, self._work = theirs, ours, files, work

    def play(self, sequence: Sequence, report: Report) -> None:
        """Play a sequence up to its first difference."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": sequence.namespace}}
        for side in (self._theirs, self._ours):
            side.server.exchange("POST", "/api/v1/namespaces", json.dumps(namespace).encode())
        self._settle(sequence)
        try:
            found = self._first_difference(sequence, report)
        finally:
            self._clean(sequence)
        report.sequences += 1
        if found is not None:
            report.differences.append(found)

    def _first_difference(self, sequence: Sequence, report: Report) -> Difference | None:
        for number, command in enumerate(sequence.commands):
            lines, code = self._compare(command)
            report.steps += 1
            report.codes[code] += 1
            report.verbs[command.arguments[0]] += 1
            if lines:
                return Difference(sequence, number, tuple(lines))
            if not command.reads and (lines := self._settle(sequence)):
                return Difference(sequence, number, ("objects after it:", *lines))
        return None

    def _compare(self, command: Command) -> tuple[list[str], int]:
        """Return what differs in the output, and the exit code; a command that only reads is repeated until nothing does."""
        for name, text in command.files.items():
            (self._files / name).write_text(text)
        deadline, pauses = Deadline(_PATIENCE), _lengthening()
        while True:
            theirs, ours = self._both(lambda side: side.kubectl.run(command.arguments))
            want, got = (common_output(command.arguments, output) for output in (theirs, ours))
            lines = list(differences(want, got))
            if not lines or not command.reads or deadline.passed:
                return lines, theirs.code
            time.sleep(next(pauses))

    def _settle(self, sequence: Sequence) -> list[str]:
        """Wait until both planes have the same objects in the namespace; return what still differs in the end."""
        deadline, pauses = Deadline(_PATIENCE), _lengthening()
        while True:
            theirs, ours = self._both(lambda side: _objects(side, sequence))
            lines = list(differences(theirs, ours))
            if not lines or deadline.passed:
                return lines
            time.sleep(next(pauses))

    def _both(self, act: Callable[[Side], Any]) -> tuple[Any, Any]:
        """Do the same on both planes at the same time."""
        other = self._work.submit(act, self._theirs)
        ours = act(self._ours)
        return other.result(), ours

    def _clean(self, sequence: Sequence) -> None:
        """Delete the namespace and the objects outside of it."""
        for side in (self._theirs, self._ours):
            side.server.exchange("DELETE", f"/api/v1/namespaces/{sequence.namespace}", None)
            for kind in sequence.kinds:
                if not kind.namespaced:
                    _delete(side, f"{_root(kind.group, kind.versions[0].name)}/{kind.plural}", sequence.namespace)


def _delete(side: Side, collection: str, namespace: str) -> None:
    for item in side.items(f"{collection}?labelSelector=seq%3D{namespace}"):
        place = f"{collection}/{item['metadata']['name']}"
        if item["metadata"].get("finalizers"):
            body = b'{"metadata":{"finalizers":null}}'
            side.server.exchange("PATCH", place, body, "application/merge-patch+json")
        side.server.exchange("DELETE", place, None)


def _root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _objects(side: Side, sequence: Sequence) -> dict[str, list[Json]]:
    """Return the namespace's objects in common form, by collection; generated names have no order."""
    found: dict[str, list[Json]] = {}
    derived = _DERIVED if sequence.live else {}
    paths = [(root, plural) for root, plurals in derived.items() for plural in plurals]
    own = [(_root(kind.group, kind.versions[0].name), kind.plural) for kind in sequence.kinds if kind.namespaced]
    for root, plural in dict.fromkeys((*paths, *own)):
        items = [common_object(item) for item in side.items(f"{root}/namespaces/{sequence.namespace}/{plural}")]
        if plural == "events":
            items = [event for event in map(_event, items) if event["source"] not in IGNORED_EVENTS]
        found[plural] = sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    if "events" in found:
        # Repetitions of an event depend on the pace of a controller.
        texts = dict.fromkeys(json.dumps(item, sort_keys=True) for item in found["events"])
        found["events"] = [json.loads(text) for text in texts]
    return found


def _event(event: Json) -> Json:
    of = event["involvedObject"]
    return {"of": f"{of.get('kind')} {of.get('name')}", "type": event.get("type"), "reason": event.get("reason"),
            "message": event.get("message"), "source": event.get("reportingComponent") or event["source"].get("component")}  # fmt: skip


def _lengthening() -> Iterator[float]:
    yield from _PAUSES
    while True:
        yield _PAUSES[-1]


@contextlib.contextmanager
def players(
    planes: tuple[Plane, Plane], directory: Path, count: int, kubectl: str, loop: str | None
) -> Iterator[list[Player]]:
    """Yield players, each with its own kubectl of each plane."""
    files = directory / "files"
    files.mkdir()
    editor = files / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/^  labels:/  labels:\\n    edited: "1"/\' "$1"\n')
    editor.chmod(0o755)
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(ThreadPoolExecutor(count))
        made = []
        for number in range(count):
            theirs, ours = (
                Side(plane, Kubectl(kubectl, loop, plane.kubeconfig, files, directory / f"home-{plane.name}-{number}"))
                for plane in planes
            )
            stack.callback(theirs.close)
            stack.callback(ours.close)
            made.append(Player(theirs, ours, files, work))
        yield made
