"""Build a pod's table row: one scan of its container statuses gives readiness, status and restarts.

The status texts are wire facts of pkg/printers/internalversion.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from apiserver.api.objects import Json
from apiserver.api.values.durations import age
from apiserver.registry.definition.resource import Column
from apiserver.resources.common.columns import AGE, NAME

__all__ = ["COLUMNS", "row_conditions"]


_INITIALIZING: Final = "PodInitializing"
_UNREACHABLE: Final = "NodeLost"


class Summary(NamedTuple):
    """The values of the columns. `restarted` is the time when a container last ended, or ""."""

    ready: int
    total: int
    word: str
    restarts: int
    restarted: str


def _is_sidecar(container: Json | None) -> bool:
    return container is not None and container.get("restartPolicy") == "Always"


def _ended(state: Json, prefix: str = "") -> str:
    """Return why a terminated container ended."""
    if state.get("reason"):
        return f"{prefix}{state['reason']}"
    if state.get("signal"):
        return f"{prefix}Signal:{state['signal']}"
    return f"{prefix}ExitCode:{state.get('exitCode', 0)}"


class _Restarts:
    """Counts restarts and the time of the latest end."""

    __slots__ = ("count", "latest")

    def __init__(self) -> None:
        self.count, self.latest = 0, ""

    def add(self, status: Json) -> None:
        self.count += status.get("restartCount", 0)
        ended = (status.get("lastState") or {}).get("terminated")
        if ended is not None and (ended.get("finishedAt") or "") > self.latest:
            self.latest = ended["finishedAt"]


def _init_word(index: int, total: int, state: Json) -> str:
    """Return the status text of an unfinished init container."""
    if state.get("terminated") is not None:
        return _ended(state["terminated"], "Init:")
    reason = (state.get("waiting") or {}).get("reason", "")
    return f"Init:{reason}" if reason and reason != _INITIALIZING else f"Init:{index}/{total}"


def _scan_init(spec: Json, statuses: list[Json], every: _Restarts, sidecars: _Restarts) -> tuple[str, int]:
    """Return the status text of an initializing pod ("" after initialization), and the number of ready sidecars."""
    declared = {container["name"]: container for container in spec.get("initContainers") or ()}
    ready = 0
    for index, status in enumerate(statuses):
        every.add(status)
        sidecar = _is_sidecar(declared.get(status.get("name", "")))
        if sidecar:
            sidecars.add(status)
        state = status.get("state") or {}
        terminated = state.get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and status.get("started"):
            ready += bool(status.get("ready"))
            continue
        return _init_word(index, len(declared), state), ready
    return "", ready


def _condition(status: Json, kind: str) -> Json | None:
    return next((c for c in status.get("conditions") or () if c.get("type") == kind), None)


def _is_true(status: Json, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in status.get("conditions") or ())


def _scan_containers(status: Json, word: str, restarts: _Restarts) -> tuple[str, int]:
    """Return the status text by the containers' states, last one first, and the number of ready running containers."""
    ready, failed = 0, ""
    for container in reversed(status.get("containerStatuses") or ()):
        restarts.add(container)
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            word = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            word = _ended(state["terminated"])
            if state["terminated"].get("exitCode"):
                failed = word
        elif container.get("ready") and state.get("running") is not None:
            ready += 1
    if word == "Completed":
        if ready and _is_true(status, "Ready"):
            word = "Running"
        elif failed:
            word = failed
        elif ready:
            word = "NotReady"
    return word, ready


def summary(obj: Json) -> Summary:
    spec, status = obj["spec"], obj.get("status") or {}
    total = len(spec.get("containers") or ()) + sum(map(_is_sidecar, spec.get("initContainers") or ()))
    phase = status.get("phase", "")
    word = status.get("reason") or phase
    if any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in status.get("conditions") or ()
    ):
        word = "SchedulingGated"
    restarts, sidecars = _Restarts(), _Restarts()
    initializing, ready = _scan_init(spec, status.get("initContainerStatuses") or [], restarts, sidecars)
    word = initializing or word
    if not initializing or _is_true(status, "Initialized"):
        restarts = sidecars
        word, running = _scan_containers(status, word, restarts)
        ready += running
    if "deletionTimestamp" in obj["metadata"]:
        if status.get("reason") == _UNREACHABLE:
            word = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            word = "Terminating"
    return Summary(ready, total, word, restarts.count, restarts.latest)


def _ready(obj: Json) -> str:
    shown = summary(obj)
    return f"{shown.ready}/{shown.total}"


def _restarts(obj: Json, now: datetime) -> str:
    shown = summary(obj)
    return (
        f"{shown.restarts} ({age(shown.restarted, now)} ago)"
        if shown.restarts and shown.restarted
        else str(shown.restarts)
    )


def _address(obj: Json) -> str:
    addresses = (obj.get("status") or {}).get("podIPs") or ()
    return (addresses[0].get("ip") if addresses else "") or "<none>"


def _gates(obj: Json) -> str:
    gates = obj["spec"].get("readinessGates") or ()
    if not gates:
        return "<none>"
    status = obj.get("status") or {}
    true = sum((_condition(status, gate.get("conditionType", "")) or {}).get("status") == "True" for gate in gates)
    return f"{true}/{len(gates)}"


def row_conditions(obj: Json) -> list[Json]:
    """Mark finished pods, so that clients can gray them out."""
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Succeeded":
        return [
            {
                "type": "Completed",
                "status": "True",
                "reason": "Succeeded",
                "message": "The pod has completed successfully.",
            }
        ]
    if phase == "Failed":
        return [{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}]
    return []


COLUMNS: Final = (
    NAME,
    Column(name="Ready", cell=_ready, description="Ready containers of the total."),
    Column(name="Status", cell=lambda obj: summary(obj).word, description="Summarized state of the pod."),
    Column(
        name="Restarts", cell=_restarts, timed=True, description="Container restarts, with the time since the last one."
    ),
    AGE,
    Column(name="IP", cell=_address, priority=1, description="Address of the pod."),
    Column(
        name="Node",
        cell=lambda obj: obj["spec"].get("nodeName") or "<none>",
        priority=1,
        description="Node of the pod.",
    ),
    Column(
        name="Nominated Node",
        cell=lambda obj: (obj.get("status") or {}).get("nominatedNodeName") or "<none>",
        priority=1,
        description="Node nominated by preemption.",
    ),
    Column(name="Readiness Gates", cell=_gates, priority=1, description="True readiness gates of the total."),
)
