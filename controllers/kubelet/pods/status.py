"""The parts of the status that a kubelet gives a pod. Pure: pod and time in, status out.

Conditions stand in the kubelet's order, foreign ones are left alone: the
status is sent as a strategic merge patch, which merges conditions by type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from controllers.kubelet.pods.containers import KILLED

Json = dict[str, Any]

DEADLINE_EXCEEDED = "Pod was active on the node longer than the specified deadline"


def admitted(now: str, host_ip: str) -> Json:
    """Since when it is its node's."""
    return {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}], "startTime": now}


def starting(pod: Json, now: str, host_ip: str) -> Json:
    """Admitted: containers are being created."""
    initial = pod["spec"].get("initContainers") or ()
    reason = "PodInitializing" if initial else "ContainerCreating"
    names = [container["name"] for container in pod["spec"]["containers"]]
    status: Json = {
        "phase": "Pending",
        **admitted(now, host_ip),
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", "False", now),
            _initialized(pod, now, [container["name"] for container in initial]),
            *_readiness(pod, now, names),
            _scheduled(pod, now),
        ],
        "containerStatuses": [waiting(pod, container, reason) for container in pod["spec"]["containers"]],
    }
    if initial:
        status["initContainerStatuses"] = [waiting(pod, container, reason) for container in initial]
    return status | _observed(pod)


def alive(
    pod: Json, now: str, init: list[Json], regular: list[Json], incomplete: Sequence[str], unready: Sequence[str]
) -> Json:
    """Containers run, or are about to. `incomplete` init containers hold up the others; `unready` ones the pod."""
    conditions = [
        _condition(pod, "PodReadyToStartContainers", "True", now),
        _initialized(pod, now, incomplete),
        *_readiness(pod, now, unready),
        _scheduled(pod, now),
    ]
    # As long as one has never started the pod has not begun to run.
    waits = any(
        "waiting" in state["state"] and not (state.get("lastState") or {}).get("terminated") for state in regular
    )
    phase = "Pending" if incomplete or waits else "Running"
    return {"phase": phase, "conditions": conditions, **_containers(init, regular)} | _observed(pod)


def finished(
    pod: Json, now: str, init: list[Json], regular: list[Json], succeeded: bool, incomplete: Sequence[str] = ()
) -> Json:
    """Every container has ended for good; `incomplete` init containers without having done their work."""
    phase, reason = ("Succeeded", "PodCompleted") if succeeded else ("Failed", "PodFailed")
    conditions = [
        _condition(pod, "PodReadyToStartContainers", "False", now),
        _initialized(pod, now, incomplete, reason if succeeded else ""),
        _condition(pod, "Ready", "False", now, reason),
        _condition(pod, "ContainersReady", "False", now, reason),
        _scheduled(pod, now),
    ]
    stopped = [stop(pod, state, now) for state in init]
    return {"phase": phase, "conditions": conditions, **_containers(stopped, regular)} | _observed(pod)


def killed(pod: Json, now: str, ends: Mapping[str, tuple[str, int]] = MappingProxyType({}), code: int = 0) -> Json:
    """Containers that still run are stopped: each ended at a time with a code (`ends`), the others now with `code`.
    Those that never ran are over with them.
    """
    status = pod.get("status", {})

    def stopped(state: Json) -> Json:
        return stop(pod, state, *ends.get(state["name"], (now, code)))

    init = [stopped(state) for state in status.get("initContainerStatuses") or ()]
    states = {state["name"]: state for state in status.get("containerStatuses") or ()}
    regular = []
    for container in pod["spec"]["containers"]:
        state = stopped(states.get(container["name"]) or waiting(pod, container, "ContainerCreating"))
        regular.append(state if "terminated" in state["state"] else terminated(pod, container, state, now, code))
    succeeded = not any(state["state"]["terminated"]["exitCode"] for state in regular)
    ended = finished(pod, now, init, regular, succeeded)
    if debugging := status.get("ephemeralContainerStatuses"):
        ended["ephemeralContainerStatuses"] = [stopped(state) for state in debugging]
    return ended


def overdue(pod: Json, now: str) -> Json:
    """Its deadline has passed: its containers are killed, and the pod has failed however they end."""
    why = {"reason": "DeadlineExceeded", "message": DEADLINE_EXCEEDED}
    return {**killed(pod, now, code=KILLED), "phase": "Failed", **why}


def rejected(pod: Json, reason: str, message: str) -> Json:
    """A pod that its node does not take."""
    return {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"} | _observed(pod)


def waiting(pod: Json, container: Json, reason: str) -> Json:
    """Not started yet."""
    return _container(pod, container, {"waiting": {"reason": reason}})


def not_started(pod: Json, container: Json, before: Json, reason: str, message: str) -> Json:
    """It could not be started; how it ended before, if it did, stays."""
    ended = before["state"].get("terminated")
    last = {"terminated": ended} if ended else before.get("lastState") or {}
    waiting = {"waiting": {"reason": reason, "message": message}}
    return _container(pod, container, waiting, before["restartCount"], last)


def running(pod: Json, container: Json, now: str, restarts: int, last: Json) -> Json:
    """Just started, for the so many-th time again; `last` is how it ended before."""
    state = {"running": {"startedAt": now}}
    return _container(pod, container, state, restarts, last) | {"ready": True, "started": True}


def terminated(pod: Json, container: Json, before: Json, now: str, code: int) -> Json:
    """Ended."""
    began = before["state"].get("running", {}).get("startedAt", now)
    end = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": began,
        "finishedAt": now,
        "containerID": _container_id(pod, container["name"], before["restartCount"]),
    }
    done = _container(pod, container, {"terminated": end}, before["restartCount"], before.get("lastState") or {})
    # An init container that ended well is what its pod needs: it counts as ready.
    ready = not code and any(c["name"] == container["name"] for c in pod["spec"].get("initContainers") or ())
    return done | {"ready": ready}


def crashed(pod: Json, container: Json, before: Json, pause: timedelta) -> Json:
    """Ended, and to be started again after a pause."""
    meta, seconds = pod["metadata"], int(pause.total_seconds())
    length = f"{seconds // 60}m{seconds % 60}s" if seconds >= 60 else f"{seconds}s"
    whose = f"container={container['name']} pod={meta['name']}_{meta['namespace']}({meta['uid']})"
    reason = {"reason": "CrashLoopBackOff", "message": f"back-off {length} restarting failed {whose}"}
    state = _container(pod, container, {"waiting": reason}, before["restartCount"], before["state"])
    return state | {"containerID": before["containerID"], "imageID": before["imageID"]}


def stop(pod: Json, state: Json, now: str, code: int = 0) -> Json:
    """A container's status once it was stopped; those that do not run stay as they are."""
    if "running" not in state["state"]:
        return state
    container = {"name": state["name"], "image": state["image"]}
    return {**terminated(pod, container, state, now, code), "ready": False}


def _containers(init: list[Json], regular: list[Json]) -> Json:
    return {"containerStatuses": regular, **({"initContainerStatuses": init} if init else {})}


def _observed(pod: Json) -> Json:
    generation = pod["metadata"].get("generation")
    return {"observedGeneration": generation} if generation else {}


def _condition(pod: Json, kind: str, status: str, now: str, reason: str = "", message: str = "") -> Json:
    """A condition; the time of its last transition stays while its status does. Empty reasons and messages take old
    ones away.
    """
    old = next((c for c in pod.get("status", {}).get("conditions") or () if c["type"] == kind), None)
    since = (
        old["lastTransitionTime"]
        if old is not None and old["status"] == status and old.get("lastTransitionTime")
        else now
    )
    condition = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": since,
        "reason": reason or None,
        "message": message or None,
    }
    return condition | _observed(pod)


def _scheduled(pod: Json, now: str) -> Json:
    """That it has a node; with it stands of which generation of the pod that was seen."""
    return _condition(pod, "PodScheduled", "True", now)


def _initialized(pod: Json, now: str, incomplete: Sequence[str], reason: str = "") -> Json:
    if not incomplete:
        return _condition(pod, "Initialized", "True", now, reason)
    message = f"containers with incomplete status: [{' '.join(incomplete)}]"
    return _condition(pod, "Initialized", "False", now, "ContainersNotInitialized", message)


def _readiness(pod: Json, now: str, unready: Sequence[str]) -> list[Json]:
    if not unready:
        return [_ready(pod, now), _condition(pod, "ContainersReady", "True", now)]
    message = f"containers with unready status: [{' '.join(unready)}]"
    kinds = ("Ready", "ContainersReady")
    return [_condition(pod, kind, "False", now, "ContainersNotReady", message) for kind in kinds]


def _ready(pod: Json, now: str) -> Json:
    """The readiness of a pod whose containers are ready: what its readiness gates say."""
    known = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions") or ()}
    waiting_for = []
    for gate in pod["spec"].get("readinessGates") or ():
        kind = gate["conditionType"]
        if kind not in known:
            waiting_for.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif known[kind] != "True":
            waiting_for.append(f'the status of pod readiness gate "{kind}" is not "True", but {known[kind]}')
    if waiting_for:
        return _condition(pod, "Ready", "False", now, "ReadinessGatesNotReady", ", ".join(waiting_for))
    return _condition(pod, "Ready", "True", now)


def _container_id(pod: Json, name: str, restarts: int) -> str:
    return "kubedra://" + sha256(f"{pod['metadata']['uid']}/{name}/{restarts}".encode()).hexdigest()


def _container(pod: Json, container: Json, state: Json, restarts: int = 0, last: Json | None = None) -> Json:
    """A container's status; the patch replaces the list of them as a whole."""
    made = "waiting" not in state
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": container.get("image", "") if made else "",
        "containerID": _container_id(pod, container["name"], restarts) if made else "",
        "ready": False,
        "started": False,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }
