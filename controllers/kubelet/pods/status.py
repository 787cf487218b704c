"""The kubelet's part of a pod's status. Pure: pod and time in, status out.

Conditions have the kubelet's order. Foreign conditions stay, because the status is sent as a strategic merge patch,
which merges conditions by type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from types import MappingProxyType

from apiserver.api.objects import Json
from controllers.kubelet.pods.containers import KILLED

DEADLINE_EXCEEDED = "Pod was active on the node longer than the specified deadline"


def build_admitted(now: str, host_ip: str) -> Json:
    """Build the status fields of a pod's admission by its node."""
    return {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}], "startTime": now}


def build_starting(pod: Json, now: str, host_ip: str) -> Json:
    """Build the status of an admitted pod whose containers are being created."""
    initial = pod["spec"].get("initContainers") or ()
    reason = "PodInitializing" if initial else "ContainerCreating"
    names = [container["name"] for container in pod["spec"]["containers"]]
    status: Json = {
        "phase": "Pending",
        **build_admitted(now, host_ip),
        "conditions": [
            _build_condition(pod, "PodReadyToStartContainers", "False", now),
            _build_initialized(pod, now, [container["name"] for container in initial]),
            *_build_readiness(pod, now, names),
            _build_scheduled(pod, now),
        ],
        "containerStatuses": [build_waiting(pod, container, reason) for container in pod["spec"]["containers"]],
    }
    if initial:
        status["initContainerStatuses"] = [build_waiting(pod, container, reason) for container in initial]
    return status | _observed_generation(pod)


def build_alive(
    pod: Json, now: str, init: list[Json], regular: list[Json], incomplete: Sequence[str], unready: Sequence[str]
) -> Json:
    """Build the status of a pod with running or waiting containers.

    `incomplete` init containers block the others. `unready` containers make the pod unready.
    """
    conditions = [
        _build_condition(pod, "PodReadyToStartContainers", "True", now),
        _build_initialized(pod, now, incomplete),
        *_build_readiness(pod, now, unready),
        _build_scheduled(pod, now),
    ]
    # The pod stays Pending until every container has started once.
    waits = any(
        "waiting" in state["state"] and not (state.get("lastState") or {}).get("terminated") for state in regular
    )
    phase = "Pending" if incomplete or waits else "Running"
    return {"phase": phase, "conditions": conditions, **_containers(init, regular)} | _observed_generation(pod)


def build_finished(
    pod: Json, now: str, init: list[Json], regular: list[Json], succeeded: bool, incomplete: Sequence[str] = ()
) -> Json:
    """Build the status of a pod whose containers have ended permanently.

    `incomplete` init containers have ended without success.
    """
    phase, reason = ("Succeeded", "PodCompleted") if succeeded else ("Failed", "PodFailed")
    conditions = [
        _build_condition(pod, "PodReadyToStartContainers", "False", now),
        _build_initialized(pod, now, incomplete, reason if succeeded else ""),
        _build_condition(pod, "Ready", "False", now, reason),
        _build_condition(pod, "ContainersReady", "False", now, reason),
        _build_scheduled(pod, now),
    ]
    stopped = [build_stopped(pod, state, now) for state in init]
    return {"phase": phase, "conditions": conditions, **_containers(stopped, regular)} | _observed_generation(pod)


def build_killed(
    pod: Json, now: str, ends: Mapping[str, tuple[str, int]] = MappingProxyType({}), code: int = 0
) -> Json:
    """Build the status of a pod whose running containers are stopped.

    `ends` has the end time and exit code of containers by name. The others end now with `code`, also those that never
    ran.
    """
    status = pod.get("status", {})

    def stopped(state: Json) -> Json:
        return build_stopped(pod, state, *ends.get(state["name"], (now, code)))

    init = [stopped(state) for state in status.get("initContainerStatuses") or ()]
    states = {state["name"]: state for state in status.get("containerStatuses") or ()}
    regular = []
    for container in pod["spec"]["containers"]:
        state = stopped(states.get(container["name"]) or build_waiting(pod, container, "ContainerCreating"))
        regular.append(state if "terminated" in state["state"] else build_terminated(pod, container, state, now, code))
    succeeded = not any(state["state"]["terminated"]["exitCode"] for state in regular)
    ended = build_finished(pod, now, init, regular, succeeded)
    if debugging := status.get("ephemeralContainerStatuses"):
        ended["ephemeralContainerStatuses"] = [stopped(state) for state in debugging]
    return ended


def build_overdue(pod: Json, now: str) -> Json:
    """Build the status of a pod killed at its deadline: Failed, whatever its containers' exit codes."""
    why = {"reason": "DeadlineExceeded", "message": DEADLINE_EXCEEDED}
    return {**build_killed(pod, now, code=KILLED), "phase": "Failed", **why}


def build_rejected(pod: Json, reason: str, message: str) -> Json:
    """Build the status of a pod rejected by its node."""
    return {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"} | _observed_generation(pod)


def build_waiting(pod: Json, container: Json, reason: str) -> Json:
    """Build the status of a container that has not started yet."""
    return _build_container(pod, container, {"waiting": {"reason": reason}})


def build_not_started(pod: Json, container: Json, before: Json, reason: str, message: str) -> Json:
    """Build the status of a container that could not be started; its last termination stays."""
    ended = before["state"].get("terminated")
    last = {"terminated": ended} if ended else before.get("lastState") or {}
    waiting = {"waiting": {"reason": reason, "message": message}}
    return _build_container(pod, container, waiting, before["restartCount"], last)


def build_running(pod: Json, container: Json, now: str, restarts: int, last: Json) -> Json:
    """Build the status of a started container. `last` is its previous termination."""
    state = {"running": {"startedAt": now}}
    return _build_container(pod, container, state, restarts, last) | {"ready": True, "started": True}


def build_terminated(pod: Json, container: Json, before: Json, now: str, code: int) -> Json:
    """Build the status of an ended container."""
    began = before["state"].get("running", {}).get("startedAt", now)
    end = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": began,
        "finishedAt": now,
        "containerID": _container_id(pod, container["name"], before["restartCount"]),
    }
    done = _build_container(pod, container, {"terminated": end}, before["restartCount"], before.get("lastState") or {})
    # A successful init container counts as ready.
    ready = not code and any(c["name"] == container["name"] for c in pod["spec"].get("initContainers") or ())
    return done | {"ready": ready}


def build_crashed(pod: Json, container: Json, before: Json, pause: timedelta) -> Json:
    """Build the status of an ended container that restarts after a pause."""
    meta, seconds = pod["metadata"], int(pause.total_seconds())
    length = f"{seconds // 60}m{seconds % 60}s" if seconds >= 60 else f"{seconds}s"
    whose = f"container={container['name']} pod={meta['name']}_{meta['namespace']}({meta['uid']})"
    reason = {"reason": "CrashLoopBackOff", "message": f"back-off {length} restarting failed {whose}"}
    state = _build_container(pod, container, {"waiting": reason}, before["restartCount"], before["state"])
    return state | {"containerID": before["containerID"], "imageID": before["imageID"]}


def build_stopped(pod: Json, state: Json, now: str, code: int = 0) -> Json:
    """Return a container's status with its end, if it is running."""
    if "running" not in state["state"]:
        return state
    container = {"name": state["name"], "image": state["image"]}
    return {**build_terminated(pod, container, state, now, code), "ready": False}


def _containers(init: list[Json], regular: list[Json]) -> Json:
    return {"containerStatuses": regular, **({"initContainerStatuses": init} if init else {})}


def _observed_generation(pod: Json) -> Json:
    generation = pod["metadata"].get("generation")
    return {"observedGeneration": generation} if generation else {}


def _build_condition(pod: Json, kind: str, status: str, now: str, reason: str = "", message: str = "") -> Json:
    """Build a condition; lastTransitionTime stays while the status does.

    Empty reasons and messages delete old ones.
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
    return condition | _observed_generation(pod)


def _build_scheduled(pod: Json, now: str) -> Json:
    """Build PodScheduled, written by the kubelet for its observedGeneration only."""
    return _build_condition(pod, "PodScheduled", "True", now)


def _build_initialized(pod: Json, now: str, incomplete: Sequence[str], reason: str = "") -> Json:
    if not incomplete:
        return _build_condition(pod, "Initialized", "True", now, reason)
    message = f"containers with incomplete status: [{' '.join(incomplete)}]"
    return _build_condition(pod, "Initialized", "False", now, "ContainersNotInitialized", message)


def _build_readiness(pod: Json, now: str, unready: Sequence[str]) -> list[Json]:
    if not unready:
        return [_build_ready(pod, now), _build_condition(pod, "ContainersReady", "True", now)]
    message = f"containers with unready status: [{' '.join(unready)}]"
    kinds = ("Ready", "ContainersReady")
    return [_build_condition(pod, kind, "False", now, "ContainersNotReady", message) for kind in kinds]


def _build_ready(pod: Json, now: str) -> Json:
    """Build the readiness of a pod with ready containers from its readiness gates."""
    known = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions") or ()}
    waiting_for = []
    for gate in pod["spec"].get("readinessGates") or ():
        kind = gate["conditionType"]
        if kind not in known:
            waiting_for.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif known[kind] != "True":
            waiting_for.append(f'the status of pod readiness gate "{kind}" is not "True", but {known[kind]}')
    if waiting_for:
        return _build_condition(pod, "Ready", "False", now, "ReadinessGatesNotReady", ", ".join(waiting_for))
    return _build_condition(pod, "Ready", "True", now)


def _container_id(pod: Json, name: str, restarts: int) -> str:
    return "kubedra://" + sha256(f"{pod['metadata']['uid']}/{name}/{restarts}".encode()).hexdigest()


def _build_container(pod: Json, container: Json, state: Json, restarts: int = 0, last: Json | None = None) -> Json:
    """Build a container's status. The patch replaces the list of statuses as a whole."""
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
