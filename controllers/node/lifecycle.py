"""What becomes of a pod's containers as time goes by. Pure: a pod with its status and the time in, its next status out.

Nothing is remembered but in the status, so that a kubelet that comes back goes on where it was. Containers do what
annotations say (`annotations`): regular ones run on, init containers end well, unless these say otherwise. Facts:
upstream's pkg/kubelet (restarts wait 10 s, doubled each time, up to 5 min; the first one does not).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from controllers.node import podstatus
from controllers.node.annotations import exit_after, exit_code, ready_after
from controllers.runtime.events import EventType
from controllers.runtime.kinds import Json
from controllers.runtime.times import go_time, parse_time

_FIRST_BACKOFF, _LONGEST_BACKOFF = timedelta(seconds=10), timedelta(minutes=5)
#: (type, reason, message)
Event = tuple[EventType, str, str]


@dataclass(slots=True)
class Step:
    """`status` is the pod's new status; `again`: when something is due next; `over`: every container ended for good."""

    status: Json
    events: list[Event] = field(default_factory=list)
    again: timedelta | None = None
    over: bool = False

    def due(self, delay: timedelta) -> None:
        self.again = delay if self.again is None else min(self.again, delay)


def step(pod: Json, now: datetime) -> Step:
    """Everything that is due by now, for a pod whose sandbox stands."""
    made = Step({})
    spec, initial = pod["spec"], _states(pod, "initContainerStatuses")
    init, ready_to_run, failed = [], True, False
    for container in spec.get("initContainers") or ():
        state = initial.get(container["name"]) or podstatus.waiting(pod, container, "PodInitializing")
        if ready_to_run:
            sidecar = container.get("restartPolicy") == "Always"
            state = _run(made, pod, container, state, now, init=not sidecar)
            failed = not sidecar and _ended(state) and _code(state) != 0
            ready_to_run = _done(container, state)
        init.append(state)
    present = _states(pod, "containerStatuses")
    regular = []
    for container in spec["containers"]:
        reason = "PodInitializing" if spec.get("initContainers") else "ContainerCreating"
        state = present.get(container["name"]) or podstatus.waiting(pod, container, reason)
        regular.append(_run(made, pod, container, state, now) if ready_to_run else state)
    made.over = failed or (ready_to_run and all(map(_ended, regular)))
    made.status = _status(pod, now, init, regular, made.over, failed)
    return made


def _run(made: Step, pod: Json, container: Json, state: Json, now: datetime, *, init: bool = False) -> Json:
    """One container, brought to what it is now."""
    while True:
        current = state["state"]
        if "terminated" in current:
            if not _restarts(pod, container, _code(state), init):
                return state
            left = _backoff(state, current["terminated"], now)
            if left > timedelta():
                made.due(left)
                made.events.append(_back_off(pod, container))
                return podstatus.crashed(pod, container, state, _length(state))
            state = _started(made, pod, container, now, state["restartCount"] + 1, current)
        elif "running" in current:
            began = parse_time(current["running"]["startedAt"])
            after = exit_after(pod, container["name"], timedelta() if init else None)
            if after is not None and now - began >= after:
                code = exit_code(pod, container["name"])
                # Ended when it was due, however late somebody looks; times are in whole seconds.
                state = podstatus.terminated(pod, container, state, go_time(began + after), code)
                continue
            if after is not None:
                made.due(began + after - now)
            return _readied(made, pod, container, state, now - began)
        else:
            last = (state.get("lastState") or {}).get("terminated")
            left = _backoff(state, last, now) if last else timedelta()
            if left > timedelta():
                made.due(left)
                return state
            restarts = state["restartCount"] + 1 if last else 0
            state = _started(made, pod, container, now, restarts, {"terminated": last} if last else {})


def _started(made: Step, pod: Json, container: Json, now: datetime, restarts: int, last: Json) -> Json:
    image = container.get("image", "")
    present = f'Container image "{image}" already present on machine and can be accessed by the pod'
    made.events += [
        ("Normal", "Pulled", present),
        ("Normal", "Created", "Container created"),
        ("Normal", "Started", "Container started"),
    ]
    return podstatus.running(pod, container, go_time(now), restarts, last)


def _readied(made: Step, pod: Json, container: Json, state: Json, ran: timedelta) -> Json:
    after = ready_after(pod, container["name"])
    ready = ran >= after
    if not ready:
        made.due(after - ran)
    return {**state, "ready": ready, "started": True}


def _restarts(pod: Json, container: Json, code: int, init: bool) -> bool:
    if container.get("restartPolicy") == "Always":
        return True
    policy = pod["spec"].get("restartPolicy", "Always")
    if init or policy == "OnFailure":
        return bool(code) and policy != "Never"
    return bool(policy == "Always")


def _length(state: Json) -> timedelta:
    """The pause before the next restart: none before the first."""
    restarts: int = state["restartCount"]
    if not restarts:
        return timedelta()
    return min(_FIRST_BACKOFF * (1 << min(restarts - 1, 10)), _LONGEST_BACKOFF)


def _backoff(state: Json, ended: Json, now: datetime) -> timedelta:
    return parse_time(ended["finishedAt"]) + _length(state) - now


def _back_off(pod: Json, container: Json) -> Event:
    meta = pod["metadata"]
    whose = f"{container['name']} in pod {meta['name']}_{meta['namespace']}({meta['uid']})"
    return ("Warning", "BackOff", f"Back-off restarting failed container {whose}")


def _status(pod: Json, now: datetime, init: list[Json], regular: list[Json], over: bool, failed: bool) -> Json:
    time = go_time(now)
    if over:
        codes = [*map(_code, init), *map(_code, regular)] if failed else map(_code, regular)
        return podstatus.finished(pod, time, init, regular, succeeded=not any(codes))
    incomplete = [
        c["name"] for c, state in zip(pod["spec"].get("initContainers") or (), init, strict=True) if not _done(c, state)
    ]
    unready = [state["name"] for state in (*_sidecars(pod, init), *regular) if not state["ready"]]
    return podstatus.alive(pod, time, init, regular, incomplete, unready)


def _sidecars(pod: Json, init: Iterable[Json]) -> list[Json]:
    containers = pod["spec"].get("initContainers") or ()
    return [state for c, state in zip(containers, init, strict=True) if c.get("restartPolicy") == "Always"]


def _done(container: Json, state: Json) -> bool:
    if container.get("restartPolicy") == "Always":
        return bool(state.get("started"))
    return _ended(state) and not _code(state)


def _states(pod: Json, field: str) -> dict[str, Json]:
    return {state["name"]: state for state in pod.get("status", {}).get(field) or ()}


def _ended(state: Json) -> bool:
    return "terminated" in state["state"]


def _code(state: Json) -> int:
    code: int = state["state"].get("terminated", {}).get("exitCode", 0)
    return code
