"""The status that a kubelet gives a pod at each step of its life. Pure: pod and time in, status out.

Conditions stand in the kubelet's order; PodScheduled is the scheduler's and is left alone, as are foreign ones: the
status is sent as a strategic merge patch, which merges conditions by type.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

Json = dict[str, Any]


def starting(pod: Json, now: str, host_ip: str) -> Json:
    """Admitted: containers are being created."""
    initial = bool(pod["spec"].get("initContainers"))
    reason = "PodInitializing" if initial else "ContainerCreating"
    waiting = {"waiting": {"reason": reason}}
    status: Json = {
        "phase": "Pending",
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": now,
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", "False", now),
            _not("Initialized", "ContainersNotInitialized", "incomplete", pod, "initContainers", now)
            if initial
            else _condition(pod, "Initialized", "True", now),
            _not("Ready", "ContainersNotReady", "unready", pod, "containers", now),
            _not("ContainersReady", "ContainersNotReady", "unready", pod, "containers", now),
        ],
        "containerStatuses": [
            _container(pod, c, waiting, ready=False, started=False) for c in pod["spec"]["containers"]
        ],
    }
    if initial:
        status["initContainerStatuses"] = [
            _container(pod, c, waiting, ready=False, started=False) for c in pod["spec"]["initContainers"]
        ]
    return status | _observed(pod)


def running(pod: Json, now: str, pod_ip: str) -> Json:
    """Every init container has ended well, every container runs and is ready."""
    up = {"running": {"startedAt": now}}
    status: Json = {
        "phase": "Running",
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "conditions": [
            _condition(pod, kind, "True", now)
            for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
        ],
        "containerStatuses": [_container(pod, c, up, ready=True, started=True) for c in pod["spec"]["containers"]],
    }
    if pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = [_init_container(pod, c, now) for c in pod["spec"]["initContainers"]]
    return status | _observed(pod)


def ended(pod: Json, now: str, code: int) -> Json:
    """All containers have ended with `code`: the pod is Succeeded or Failed."""
    phase, reason = ("Succeeded", "PodCompleted") if code == 0 else ("Failed", "PodFailed")
    started = {
        s["name"]: s.get("state", {}).get("running", {}).get("startedAt", now)
        for s in pod.get("status", {}).get("containerStatuses") or ()
    }
    containers = []
    for container in pod["spec"]["containers"]:
        ident = _container_id(pod, container["name"])
        end = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "startedAt": started.get(container["name"], now),
            "finishedAt": now,
            "containerID": ident,
        }
        containers.append(_container(pod, container, {"terminated": end}, ready=False, started=False))
    conditions = [
        _condition(pod, "PodReadyToStartContainers", "False", now),
        _condition(pod, "Initialized", "True", now, reason if code == 0 else ""),
        _condition(pod, "Ready", "False", now, reason),
        _condition(pod, "ContainersReady", "False", now, reason),
    ]
    return {"phase": phase, "conditions": conditions, "containerStatuses": containers} | _observed(pod)


def exit_code_of(pod: Json) -> int:
    """The first exit code that is not 0 among containers that have ended."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    codes = (status.get("state", {}).get("terminated", {}).get("exitCode", 0) for status in statuses)
    return next((code for code in codes if code), 0)


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


def _not(kind: str, reason: str, adjective: str, pod: Json, containers: str, now: str) -> Json:
    names = " ".join(container["name"] for container in pod["spec"][containers])
    return _condition(pod, kind, "False", now, reason, f"containers with {adjective} status: [{names}]")


def _container_id(pod: Json, name: str) -> str:
    return "kubedra://" + sha256(f"{pod['metadata']['uid']}/{name}".encode()).hexdigest()


def _container(pod: Json, container: Json, state: Json, *, ready: bool, started: bool) -> Json:
    """A container's status; the patch replaces the list of them as a whole."""
    alive = "waiting" not in state
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": container.get("image", "") if alive else "",
        "containerID": _container_id(pod, container["name"]) if alive else "",
        "ready": ready,
        "started": started,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def _init_container(pod: Json, container: Json, now: str) -> Json:
    """An init container that has done its work; one that restarts always (a sidecar) runs on."""
    if container.get("restartPolicy") == "Always":
        return _container(pod, container, {"running": {"startedAt": now}}, ready=True, started=True)
    done = {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": now,
        "finishedAt": now,
        "containerID": _container_id(pod, container["name"]),
    }
    return _container(pod, container, {"terminated": done}, ready=True, started=False)
