"""What becomes of a pod's containers as time goes by. Pure: a pod with its status and the time in, its next status out.

Nothing is remembered but in the status, so that a kubelet that comes back goes on where it was. What containers do is
the business of `containers`, what probes find of `probes`. Facts: upstream's pkg/kubelet (restarts wait 10 s, doubled
each time, up to 5 min; the first one does not).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from apiserver.api.helpers.pod_lifecycle import may_restart
from controllers.kubelet.emulation.annotations import MISSING_IMAGES, ready_after
from controllers.kubelet.pods import status as podstatus
from controllers.kubelet.pods.containers import EMULATED, KILLED, ContainerError, Containers
from controllers.kubelet.pods.probes import findings
from controllers.kubelet.pods.subpaths import check as check_sub_paths
from controllers.kubelet.pods.users import check as check_user
from controllers.runtime.events import EventType
from controllers.runtime.kinds import Json
from controllers.runtime.times import go_time, parse_time

_FIRST_BACKOFF, _LONGEST_BACKOFF = timedelta(seconds=10), timedelta(minutes=5)
#: After a pull has failed, before its status says that it waits for the next one.
_FIRST_PAUSE = timedelta(seconds=1)
_PULLING = ("ErrImagePull", "ImagePullBackOff")
#: (type, reason, message)
Event = tuple[EventType, str, str]


@dataclass(slots=True)
class Step:
    """`status` is the pod's new status; `again`: when something is due next; `over`: every container ended for good."""

    status: Json
    containers: Containers
    now: datetime
    #: Images that cannot be pulled.
    missing: Collection[str] = ()
    events: list[Event] = field(default_factory=list)
    again: timedelta | None = None
    over: bool = False

    def due(self, delay: timedelta) -> None:
        self.again = delay if self.again is None else min(self.again, delay)


def step(pod: Json, now: datetime, containers: Containers = EMULATED, missing: Collection[str] = ()) -> Step:
    """Everything that is due by now, for a pod whose sandbox stands. `missing`: images that cannot be pulled."""
    made = Step({}, containers, now, missing)
    spec, initial = pod["spec"], _states(pod, "initContainerStatuses")
    present = _states(pod, "containerStatuses")
    # From then on sidecars are started again on their own, and nobody waits for them.
    begun = any("waiting" not in state["state"] or state.get("lastState") for state in present.values())
    init, ready_to_run, failed = [], True, False
    for container in spec.get("initContainers") or ():
        state = initial.get(container["name"]) or podstatus.waiting(pod, container, "PodInitializing")
        if ready_to_run:
            sidecar = container.get("restartPolicy") == "Always"
            state = _run(made, pod, container, state, init=not sidecar)
            failed = not sidecar and _ended(state) and _code(state) != 0
            ready_to_run = begun or _done(container, state)
        init.append(state)
    regular = []
    for container in spec["containers"]:
        reason = "PodInitializing" if spec.get("initContainers") else "ContainerCreating"
        state = present.get(container["name"]) or podstatus.waiting(pod, container, reason)
        regular.append(_run(made, pod, container, state) if ready_to_run else state)
    made.over = failed or (ready_to_run and all(map(_ended, regular)))
    debugging = _debugging(made, pod) if ready_to_run else []
    if made.over:
        containers.kill(pod, [state["name"] for state in (*init, *debugging) if "running" in state["state"]])
        debugging = [podstatus.stop(pod, state, go_time(now), KILLED) for state in debugging]
    made.status = _status(pod, now, init, regular, made.over, failed)
    if debugging:
        made.status["ephemeralContainerStatuses"] = debugging
    return made


def _debugging(made: Step, pod: Json) -> list[Json]:
    """The ephemeral containers: each runs once, and the pod depends on none of them."""
    present = _states(pod, "ephemeralContainerStatuses")
    states = []
    for container in pod["spec"].get("ephemeralContainers") or ():
        state = present.get(container["name"]) or podstatus.waiting(pod, container, "ContainerCreating")
        states.append({**_run(made, pod, container, state, once=True), "ready": False})
    return states


def _run(made: Step, pod: Json, container: Json, state: Json, *, init: bool = False, once: bool = False) -> Json:
    """One container, brought to what it is now; `once`: it is not started again."""
    now = made.now
    while True:
        current = state["state"]
        if "terminated" in current:
            if once or not _restarts(pod, container, _code(state), init):
                return state
            left = _backoff(state, current["terminated"], now)
            if left > timedelta():
                made.due(left)
                made.events.append(_back_off(pod, container))
                return podstatus.crashed(pod, container, state, _length(state))
            state, going = _started(made, pod, container, state, state["restartCount"] + 1, current)
            if not going:
                return state
        elif "running" in current:
            ended = _ended_by_now(made, pod, container, state, init=init)
            if ended is None:
                return _probed(made, pod, container, state, init=init)
            state = ended
        else:
            last = (state.get("lastState") or {}).get("terminated")
            left = _backoff(state, last, now) if last else timedelta()
            if left > timedelta():
                made.due(left)
                return state
            restarts = state["restartCount"] + 1 if last else 0
            state, going = _started(made, pod, container, state, restarts, {"terminated": last} if last else {})
            if not going:
                return state


def _ended_by_now(made: Step, pod: Json, container: Json, state: Json, *, init: bool) -> Json | None:
    """The container's status after its end, by itself or by a probe that failed; None while it runs. It ended when that
    was due, however late somebody looks; times are in whole seconds.
    """
    began = parse_time(state["state"]["running"]["startedAt"])
    end = made.containers.end(pod, container, state)
    # Only what is kept running is probed.
    killed = None if init else findings(pod, container, made.now - began).killed
    if killed is not None and (end is None or began + killed[0] < end.at):
        after, probe = killed
        name = container["name"]
        made.events.append(("Warning", "Unhealthy", _said_of(probe)))
        made.events.append(("Normal", "Killing", f"Container {name} failed {probe} probe, will be restarted"))
        made.containers.kill(pod, [name])
        return podstatus.terminated(pod, container, state, go_time(began + after), KILLED)
    if end is None:
        return None
    if end.at <= made.now:
        return podstatus.terminated(pod, container, state, go_time(end.at), end.code)
    made.due(end.at - made.now)
    return None


def _started(made: Step, pod: Json, container: Json, before: Json, restarts: int, last: Json) -> tuple[Json, bool]:
    """The status of a container that is started, and whether it goes on from there."""
    image = container.get("image", "")
    if image in made.missing:
        return _not_pulled(made, pod, container, before), False
    present = f'Container image "{image}" already present on machine and can be accessed by the pod'
    made.events.append(("Normal", "Pulled", present))
    try:
        check_user(pod, container)
        check_sub_paths(pod, container)
        made.containers.start(pod, container, restarts)
    except ContainerError as error:
        made.events.append(("Warning", "Failed", f"Error: {error}"))
        made.due(_FIRST_BACKOFF)
        return podstatus.not_started(pod, container, before, error.reason, str(error)), False
    made.events += [("Normal", "Created", "Container created"), ("Normal", "Started", "Container started")]
    return podstatus.running(pod, container, go_time(made.now), restarts, last), True


def _not_pulled(made: Step, pod: Json, container: Json, before: Json) -> Json:
    """Its image cannot be pulled: said at once, and from then on it waits. It is tried again when the node changes."""
    image, why = container["image"], f"the annotation {MISSING_IMAGES} of the node names it"
    reason = (before["state"].get("waiting") or {}).get("reason")
    if reason not in _PULLING:
        made.due(_FIRST_PAUSE)
        failed = f'Failed to pull image "{image}": {why}'
        made.events += [
            ("Normal", "Pulling", f'Pulling image "{image}"'),
            ("Warning", "Failed", failed),
            ("Warning", "Failed", "Error: ErrImagePull"),
        ]
        return podstatus.not_started(pod, container, before, "ErrImagePull", why)
    waits = f'Back-off pulling image "{image}"'
    if reason == "ErrImagePull":
        made.events += [("Normal", "BackOff", waits), ("Warning", "Failed", "Error: ImagePullBackOff")]
    return podstatus.not_started(pod, container, before, "ImagePullBackOff", f"{waits}: ErrImagePull: {why}")


def _probed(made: Step, pod: Json, container: Json, state: Json, *, init: bool) -> Json:
    """A running container as its probes see it."""
    ran, after = made.now - parse_time(state["state"]["running"]["startedAt"]), ready_after(pod, container["name"])
    if init:
        return {**state, "ready": False, "started": True}
    found = findings(pod, container, ran)
    if found.again is not None:
        made.due(found.again - ran)
    if ran < after:
        made.due(after - ran)
    made.events += [("Warning", "Unhealthy", _said_of(probe)) for probe in found.failed]
    return {**state, "ready": found.ready and ran >= after, "started": found.started}


def _said_of(probe: str) -> str:
    return f"{probe.capitalize()} probe failed: the annotation kubedra.dev/{probe.lower()}-fails says so"


def _restarts(pod: Json, container: Json, code: int, init: bool) -> bool:
    # An init container that ended well has done its work.
    return bool(code or not init) and may_restart(pod["spec"], container, code)


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
    incomplete = [
        c["name"] for c, state in zip(pod["spec"].get("initContainers") or (), init, strict=True) if not _done(c, state)
    ]
    if over:
        codes = [*map(_code, init), *map(_code, regular)] if failed else map(_code, regular)
        return podstatus.finished(pod, time, init, regular, not any(codes), incomplete if failed else ())
    if any("waiting" not in state["state"] for state in regular):
        # It was initialized before, whatever has become of its sidecars.
        incomplete = []
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
