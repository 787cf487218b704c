"""Answers the questions of the routes about the history: changes, timelines, and the revision at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from apiserver.history.changes import Change, History
from apiserver.history.moments import Moment, find_moment
from apiserver.history.report import timeline_text
from apiserver.history.timeline import Attempt, Entry, build_timeline, claim_names

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry

__all__ = ["HistoryReader"]

#: Maximum number of changes of one object in a timeline.
_CHANGES: Final = 1000
#: Calls of a kubelet to a driver that belong to a timeline.
_CALLS: Final = frozenset({"NodePrepareResources", "NodeUnprepareResources"})


class HistoryReader:
    """The history of one server's objects.

    Args:
        registry: the server's objects and their log.
        last_reset: returns the revision of the last reset, or 0.
        attempts: returns the scheduler's record of the attempts for a pod's UID, as (RFC 3339 time, result, text).
        calls: returns the latest calls of kubelets to drivers.
        clock: returns the server's time.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        last_reset: Callable[[], int],
        attempts: Callable[[str], Awaitable[Iterable[tuple[str, str, str]]]],
        calls: Callable[[], Awaitable[Iterable[dict[str, Any]]]],
        clock: Callable[[], datetime],
    ) -> None:
        self._registry, self._history = registry, History(registry, last_reset)
        self._attempts, self._calls, self._clock = attempts, calls, clock

    async def changes(self, group: str, plural: str, namespace: str, name: str, limit: int) -> list[Change]:
        """Return the latest changes of an object, oldest first. Raise LookupError if there are none."""
        return await self._history.changes(group, plural, namespace, name, limit)

    async def moment(self, text: str) -> Moment:
        """Return the revision of a revision, time or duration. Raise InvalidMomentError or TooOldError."""
        return await find_moment(self._registry.log, text, self._clock())

    async def timeline(self, group: str, plural: str, namespace: str, name: str) -> dict[str, Any]:
        """Return the timeline of an object's last life. Raise LookupError if the history has no such object."""
        changes = await self._history.changes(group, plural, namespace, name, _CHANGES)
        kind = self._registry.stores[group, plural].resource.kind
        uid = changes[-1].obj["metadata"].get("uid", "")
        claims = [] if kind != "Pod" else [await self._claim(namespace, each) for each in claim_names(changes)]
        events = await self._history.events(namespace, name, [uid])
        attempts = [] if kind != "Pod" else await self._attempts(uid)
        entries = build_timeline(
            kind,
            changes,
            claims=[claim for claim in claims if claim],
            events=events,
            attempts=[Attempt(datetime.fromisoformat(time), result, text) for time, result, text in attempts],
            calls=_call_entries(await self._calls(), [claim[-1] for claim in claims if claim]) if claims else (),
            now=self._clock(),
        )
        place = f"{namespace}/{name}" if namespace else name
        return {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "uid": uid,
            "entries": [entry.as_json() for entry in entries],
            "report": timeline_text(f"{kind} {place}: {_describe_state(changes[-1])}", entries),
        }

    async def _claim(self, namespace: str, name: str) -> list[Change]:
        try:
            return await self._history.changes("resource.k8s.io", "resourceclaims", namespace, name, _CHANGES)
        except LookupError:
            return []


def _describe_state(change: Change) -> str:
    """Return the present state of an object in a few words."""
    if change.deleted:
        return "deleted"
    status, spec = change.obj.get("status") or {}, change.obj.get("spec") or {}
    phase = status.get("phase") or "present"
    return f"{phase} on {spec['nodeName']}" if spec.get("nodeName") else phase


def _call_entries(calls: Iterable[dict[str, Any]], claims: Iterable[Change]) -> Iterable[Entry]:
    uids = {claim.obj["metadata"]["uid"] for claim in claims}
    for call in calls:
        if call["method"] in _CALLS and any(claim["uid"] in uids for claim in call["claims"]):
            code = call["code"] or "still running"
            end = f"{code} after {call['seconds']:.3f} s" if call["code"] else code
            detail = f"{call['method']} of {call['driver']}: {end}{call['error'] and ': '}{call['error']}"
            yield Entry(datetime.fromisoformat(call["time"]), 0, "driver", detail, stage=False)
