"""The state of a pod's containers over time. Pure: the pod with its status and the time in, the next status out.

All state is in the status, so that a restarted kubelet continues where it was. Containers are run by `containers` and
probed by `probes`. Facts: upstream's pkg/kubelet. The first restart is immediate; later ones wait 10 s, doubled each
time up to 5 min.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from apiserver.api.helpers.pod_lifecycle import may_restart
from apiserver.api.objects import Json
from controllers.kubelet.emulation.annotations import MISSING_IMAGES, ready_after
from controllers.kubelet.pods import status as podstatus
from controllers.kubelet.pods.containers import EMULATED, KILLED, ContainerError, Containers
from controllers.kubelet.pods.probes import evaluate_probes
from controllers.kubelet.pods.subpaths import check as check_sub_paths
from controllers.kubelet.pods.users import check as check_user
from controllers.runtime.events import EventType
from controllers.runtime.times import go_time, parse_time

_FIRST_BACKOFF, _LONGEST_BACKOFF = timedelta(seconds=10), timedelta(minutes=5)
#: Delay between ErrImagePull and ImagePullBackOff.
_FIRST_PAUSE = timedelta(seconds=1)
_PULLING = ("ErrImagePull", "ImagePullBackOff")
#: Type, reason and message.
Event = tuple[EventType, str, str]


@dataclass(slots=True)
class Step:
    """One step of a pod.

    `status` is its new status. `requeue_after` is the delay until the next step. `all_ended` is set once all containers
    have ended permanently.
    """

    status: Json
    containers: Containers
    now: datetime
    #: Images whose pull fails.
    missing: Collection[str] = ()
    events: list[Event] = field(default_factory=list)
    requeue_after: timedelta | None = None
    all_ended: bool = False

    def requeue(self, delay: timedelta) -> None:
        self.requeue_after = delay if self.requeue_after is None else min(self.requeue_after, delay)


def step(pod: Json, now: datetime, containers: Containers = EMULATED, missing: Collection[str] = ()) -> Step:
    """Advance a pod with a running sandbox to the present. `missing`: images whose pull fails."""
    result = Step({}, containers, now, missing)
    spec, initial = pod["spec"], _states(pod, "initContainerStatuses")
    present = _states(pod, "containerStatuses")
    # Once regular containers have started, sidecars restart on their own and do not block others.
    begun = any("waiting" not in state["state"] or state.get("lastState") for state in present.values())
    init, ready_to_run, failed = [], True, False
    for container in spec.get("initContainers") or ():
        state = initial.get(container["name"]) or podstatus.build_waiting(pod, container, "PodInitializing")
        if ready_to_run:
            sidecar = container.get("restartPolicy") == "Always"
            state = _advance_container(result, pod, container, state, init=not sidecar)
            failed = not sidecar and _has_ended(state) and _exit_code(state) != 0
            ready_to_run = begun or _is_done(container, state)
        init.append(state)
    regular = []
    for container in spec["containers"]:
        reason = "PodInitializing" if spec.get("initContainers") else "ContainerCreating"
        state = present.get(container["name"]) or podstatus.build_waiting(pod, container, reason)
        regular.append(_advance_container(result, pod, container, state) if ready_to_run else state)
    result.all_ended = failed or (ready_to_run and all(map(_has_ended, regular)))
    debugging = _advance_ephemeral(result, pod) if ready_to_run else []
    if result.all_ended:
        containers.kill(pod, [state["name"] for state in (*init, *debugging) if "running" in state["state"]])
        debugging = [podstatus.build_stopped(pod, state, go_time(now), KILLED) for state in debugging]
    result.status = _status(pod, now, init, regular, result.all_ended, failed)
    if debugging:
        result.status["ephemeralContainerStatuses"] = debugging
    return result


def _advance_ephemeral(result: Step, pod: Json) -> list[Json]:
    """Advance the ephemeral containers. Each runs once, without effect on the pod."""
    present = _states(pod, "ephemeralContainerStatuses")
    states = []
    for container in pod["spec"].get("ephemeralContainers") or ():
        state = present.get(container["name"]) or podstatus.build_waiting(pod, container, "ContainerCreating")
        states.append({**_advance_container(result, pod, container, state, once=True), "ready": False})
    return states


def _advance_container(
    result: Step, pod: Json, container: Json, state: Json, *, init: bool = False, once: bool = False
) -> Json:
    """Advance one container to the present. `once` disables restarts."""
    now = result.now
    while True:
        current = state["state"]
        if "terminated" in current:
            if once or not _should_restart(pod, container, _exit_code(state), init):
                return state
            left = _remaining_backoff(state, current["terminated"], now)
            if left > timedelta():
                result.requeue(left)
                result.events.append(_backoff_event(pod, container))
                return podstatus.build_crashed(pod, container, state, _restart_delay(state))
            state, going = _start(result, pod, container, state, state["restartCount"] + 1, current)
            if not going:
                return state
        elif "running" in current:
            ended = _find_end(result, pod, container, state, init=init)
            if ended is None:
                return _apply_probes(result, pod, container, state, init=init)
            state = ended
        else:
            last = (state.get("lastState") or {}).get("terminated")
            left = _remaining_backoff(state, last, now) if last else timedelta()
            if left > timedelta():
                result.requeue(left)
                return state
            restarts = state["restartCount"] + 1 if last else 0
            state, going = _start(result, pod, container, state, restarts, {"terminated": last} if last else {})
            if not going:
                return state


def _find_end(result: Step, pod: Json, container: Json, state: Json, *, init: bool) -> Json | None:
    """Return the container's status after its end or failed probe; None while it runs.

    The end has the time at which it was due, however late this is called. Times have whole seconds.
    """
    began = parse_time(state["state"]["running"]["startedAt"])
    end = result.containers.end(pod, container, state)
    # Init containers have no probes, except sidecars.
    killed = None if init else evaluate_probes(pod, container, result.now - began).killed
    if killed is not None and (end is None or began + killed[0] < end.at):
        after, probe = killed
        name = container["name"]
        result.events.append(("Warning", "Unhealthy", _probe_message(probe)))
        result.events.append(("Normal", "Killing", f"Container {name} failed {probe} probe, will be restarted"))
        result.containers.kill(pod, [name])
        return podstatus.build_terminated(pod, container, state, go_time(began + after), KILLED)
    if end is None:
        return None
    if end.at <= result.now:
        return podstatus.build_terminated(pod, container, state, go_time(end.at), end.code)
    result.requeue(end.at - result.now)
    return None


def _start(result: Step, pod: Json, container: Json, before: Json, restarts: int, last: Json) -> tuple[Json, bool]:
    """Start a container. Return its status and whether it runs."""
    image = container.get("image", "")
    if image in result.missing:
        return _fail_pull(result, pod, container, before), False
    present = f'Container image "{image}" already present on machine and can be accessed by the pod'
    result.events.append(("Normal", "Pulled", present))
    try:
        check_user(pod, container)
        check_sub_paths(pod, container)
        result.containers.start(pod, container, restarts)
    except ContainerError as error:
        result.events.append(("Warning", "Failed", f"Error: {error}"))
        result.requeue(_FIRST_BACKOFF)
        return podstatus.build_not_started(pod, container, before, error.reason, str(error)), False
    result.events += [("Normal", "Created", "Container created"), ("Normal", "Started", "Container started")]
    return podstatus.build_running(pod, container, go_time(result.now), restarts, last), True


def _fail_pull(result: Step, pod: Json, container: Json, before: Json) -> Json:
    """Return the status of a container whose image cannot be pulled.

    ErrImagePull becomes ImagePullBackOff after a moment. The pull is retried when the node changes.
    """
    image, why = container["image"], f"listed in the node's annotation {MISSING_IMAGES}"
    reason = (before["state"].get("waiting") or {}).get("reason")
    if reason not in _PULLING:
        result.requeue(_FIRST_PAUSE)
        failed = f'Failed to pull image "{image}": {why}'
        result.events += [
            ("Normal", "Pulling", f'Pulling image "{image}"'),
            ("Warning", "Failed", failed),
            ("Warning", "Failed", "Error: ErrImagePull"),
        ]
        return podstatus.build_not_started(pod, container, before, "ErrImagePull", why)
    waits = f'Back-off pulling image "{image}"'
    if reason == "ErrImagePull":
        result.events += [("Normal", "BackOff", waits), ("Warning", "Failed", "Error: ImagePullBackOff")]
    return podstatus.build_not_started(pod, container, before, "ImagePullBackOff", f"{waits}: ErrImagePull: {why}")


def _apply_probes(result: Step, pod: Json, container: Json, state: Json, *, init: bool) -> Json:
    """Return the status of a running container with the results of its probes."""
    ran, after = result.now - parse_time(state["state"]["running"]["startedAt"]), ready_after(pod, container["name"])
    if init:
        return {**state, "ready": False, "started": True}
    found = evaluate_probes(pod, container, ran)
    if found.next_probe is not None:
        result.requeue(found.next_probe - ran)
    if ran < after:
        result.requeue(after - ran)
    result.events += [("Warning", "Unhealthy", _probe_message(probe)) for probe in found.failed]
    return {**state, "ready": found.ready and ran >= after, "started": found.started}


def _probe_message(probe: str) -> str:
    return f"{probe.capitalize()} probe failed: set by the annotation kubedra.dev/{probe.lower()}-fails"


def _should_restart(pod: Json, container: Json, code: int, init: bool) -> bool:
    # A successful init container is complete.
    return bool(code or not init) and may_restart(pod["spec"], container, code)


def _restart_delay(state: Json) -> timedelta:
    """Return the pause before the next restart: zero before the first."""
    restarts: int = state["restartCount"]
    if not restarts:
        return timedelta()
    return min(_FIRST_BACKOFF * (1 << min(restarts - 1, 10)), _LONGEST_BACKOFF)


def _remaining_backoff(state: Json, ended: Json, now: datetime) -> timedelta:
    return parse_time(ended["finishedAt"]) + _restart_delay(state) - now


def _backoff_event(pod: Json, container: Json) -> Event:
    meta = pod["metadata"]
    whose = f"{container['name']} in pod {meta['name']}_{meta['namespace']}({meta['uid']})"
    return ("Warning", "BackOff", f"Back-off restarting failed container {whose}")


def _status(pod: Json, now: datetime, init: list[Json], regular: list[Json], all_ended: bool, failed: bool) -> Json:
    time = go_time(now)
    incomplete = [
        c["name"]
        for c, state in zip(pod["spec"].get("initContainers") or (), init, strict=True)
        if not _is_done(c, state)
    ]
    if all_ended:
        codes = [*map(_exit_code, init), *map(_exit_code, regular)] if failed else map(_exit_code, regular)
        return podstatus.build_finished(pod, time, init, regular, not any(codes), incomplete if failed else ())
    if any("waiting" not in state["state"] for state in regular):
        # The pod was initialized before, whatever the state of its sidecars.
        incomplete = []
    unready = [state["name"] for state in (*_sidecars(pod, init), *regular) if not state["ready"]]
    return podstatus.build_alive(pod, time, init, regular, incomplete, unready)


def _sidecars(pod: Json, init: Iterable[Json]) -> list[Json]:
    containers = pod["spec"].get("initContainers") or ()
    return [state for c, state in zip(containers, init, strict=True) if c.get("restartPolicy") == "Always"]


def _is_done(container: Json, state: Json) -> bool:
    if container.get("restartPolicy") == "Always":
        return bool(state.get("started"))
    return _has_ended(state) and not _exit_code(state)


def _states(pod: Json, field: str) -> dict[str, Json]:
    return {state["name"]: state for state in pod.get("status", {}).get(field) or ()}


def _has_ended(state: Json) -> bool:
    return "terminated" in state["state"]


def _exit_code(state: Json) -> int:
    code: int = state["state"].get("terminated", {}).get("exitCode", 0)
    return code
