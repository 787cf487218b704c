"""Emulate the log of a container from its status and an annotation of its pod."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from apiserver.api.errors.status import bad_request
from apiserver.api.helpers.pod_logs import Line, LogOptions
from apiserver.api.objects import Json
from apiserver.request.messages import Response, Stream
from apiserver.storage.log.types import Expired

if TYPE_CHECKING:
    from apiserver.registry.store.store import Store

__all__ = ["emulated", "emulated_log"]


#: The prefix of emulated containers' ids: `controllers.kubelet.pods.status`.
_EMULATED: Final = "kubedra://"
_NODE: Final = "kubedra.dev/emulated"
_LOG: Final = "kubedra.dev/log"


def emulated(pod: Json, node: Json | None, name: str) -> bool:
    """Return whether the container is emulated, or will be."""
    state = _status(pod, name)
    if state is not None and state.get("containerID"):
        return bool(state["containerID"].startswith(_EMULATED))
    return node is not None and _NODE in (node["metadata"].get("annotations") or {})


def emulated_log(store: Store, pod: Json, name: str, options: LogOptions) -> Response | Stream:
    """Return an emulated log. Raise 400 if the container has not run yet."""
    run = _run(pod, name, options.previous)
    text = options.select(_lines(pod, name, run))
    if not options.follow or "finishedAt" in run or options.full:
        return Response(200, text, "text/plain")
    stream = Stream(200, "text/plain")
    stream.chunks = _followed(store, pod, name, run, text, options, stream)
    return stream


async def _followed(
    store: Store, pod: Json, name: str, run: Json, text: bytes, options: LogOptions, stream: Stream
) -> AsyncIterator[bytes]:
    """Yield the existing lines, and a last line once the container ends."""
    key = store.key(pod["metadata"]["namespace"], pod["metadata"]["name"])
    cursor = store.cache.cursor(store.cache.revision)
    try:
        if text:
            stream.sent += len(text)
            yield text
        while True:
            entry = store.cache.get(key)
            now = None if entry is None else _ended(entry.obj, name, run)
            if entry is None or entry.obj["metadata"]["uid"] != pod["metadata"]["uid"] or now is not None:
                last = options.format(_lines(pod, name, now)[-1:]) if now is not None and not _said(pod, name) else b""
                if last:
                    stream.sent += len(last)
                    yield last
                return
            if not await cursor.wait():
                return
            try:
                cursor.next_batch()
            except Expired:
                cursor = store.cache.cursor(store.cache.revision)
    finally:
        stream.finish()


def _ended(pod: Json, name: str, run: Json) -> Json | None:
    """Return the end of a run of the container, if it ended."""
    state = _status(pod, name) or {}
    found = (state.get("state", {}).get("terminated"), (state.get("lastState") or {}).get("terminated"))
    return next((end for end in found if end and end.get("startedAt") == run["startedAt"]), None)


def _status(pod: Json, name: str) -> Json | None:
    status = pod.get("status", {})
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    return next((state for kind in kinds for state in status.get(kind) or () if state["name"] == name), None)


def _run(pod: Json, name: str, previous: bool) -> Json:
    """Return the requested run of the container: its running or terminated state. Raise 400."""
    state = _status(pod, name) or {"state": {"waiting": {"reason": "ContainerCreating"}}}
    pod_name, last = pod["metadata"]["name"], (state.get("lastState") or {}).get("terminated")
    if previous:
        if last is None:
            raise bad_request(f'previous terminated container "{name}" in pod "{pod_name}" not found')
        return dict(last)
    now = state["state"]
    run = now.get("running") or now.get("terminated") or last
    if run is None:
        reason = now.get("waiting", {}).get("reason", "ContainerCreating")
        raise bad_request(f'container "{name}" in pod "{pod_name}" is waiting to start: {reason}')
    return dict(run)


def _said(pod: Json, name: str) -> str:
    """Return the container's output from the pod's annotation."""
    annotations = pod["metadata"].get("annotations") or {}
    return str(annotations.get(f"{_LOG}.{name}") or annotations.get(_LOG) or "")


def _lines(pod: Json, name: str, run: Json) -> list[Line]:
    began = datetime.fromisoformat(run["startedAt"])
    if said := _said(pod, name):
        return [(began, line) for line in said.removesuffix("\n").split("\n")]
    lines = [(began, f"container {name} is emulated: it was started and writes nothing; see annotation {_LOG}")]
    if "finishedAt" in run:
        lines.append((datetime.fromisoformat(run["finishedAt"]), f"container {name} ended with code {run['exitCode']}"))
    return lines
