"""The containers of a node, either emulated (`EmulatedContainers`) or run as processes (`run.containers`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from apiserver.api.objects import Json
from controllers.kubelet.emulation.annotations import exit_after, exit_code, stop_after
from controllers.runtime.times import parse_time

#: Exit code of a killed process.
KILLED = 137
#: Minimum time between SIGTERM and SIGKILL if the preStop hook has used up the grace period.
_LEAST_GRACE = timedelta(seconds=2)


class ContainerError(Exception):
    """A container cannot be started now. `reason` is for its status, as `CreateContainerConfigError`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """The time and exit code of a container's end, possibly in the future."""

    at: datetime
    code: int


@dataclass(frozen=True, slots=True)
class StopTimes:
    """The times of SIGTERM and SIGKILL for a container."""

    terminate_at: datetime
    kill_at: datetime


def stop_times(pod: Json, name: str, requested_at: datetime, deadline: datetime) -> StopTimes:
    """Return the stop times of a container in a terminating pod.

    A sleeping `preStop` hook delays SIGTERM by at most the grace period. Other hooks are ignored.
    """
    every = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    hooks = ((c.get("lifecycle") or {}).get("preStop") or {} for c in every if c["name"] == name)
    pause = timedelta(seconds=next(((hook.get("sleep") or {}).get("seconds", 0) for hook in hooks), 0))
    if not pause:
        return StopTimes(requested_at, deadline)
    terminate_at = min(requested_at + pause, deadline)
    return StopTimes(terminate_at, max(deadline, terminate_at + _LEAST_GRACE) if deadline > requested_at else deadline)


class Containers(Protocol):
    """The containers of one node. A container is an entry of a pod's spec, passed with its status."""

    runs_processes: bool
    """Whether a container can end by itself at an unknown time."""

    async def prepare(self, pod: Json) -> None:
        """Fetch the data needed by the pod's containers; called before each step of the pod."""
        ...

    def start(self, pod: Json, container: Json, restarts: int) -> None:
        """Start a container for the `restarts`-th time again. Raise ContainerError."""
        ...

    def end(self, pod: Json, container: Json, state: Json) -> ContainerExit | None:
        """Return the end of a running container, or None if it is unknown until the end is reported."""
        ...

    def stop(self, pod: Json, status: Json, requested_at: datetime, deadline: datetime) -> ContainerExit | None:
        """Stop a running container, with a request time and a kill deadline. Return its end, or None."""
        ...

    def kill(self, pod: Json, names: Sequence[str]) -> None:
        """Kill containers immediately; those that are not running are skipped."""
        ...

    def remove(self, pod: Json) -> None:
        """Drop the state of a deleted pod."""
        ...


class EmulatedContainers:
    """Containers without processes, controlled by annotations.

    By default regular containers run forever and init containers succeed. `job_duration` returns the default running
    time of a pod's regular containers.
    """

    runs_processes = False

    def __init__(self, job_duration: Callable[[Json], timedelta | None] = lambda pod: None) -> None:
        self._job_duration = job_duration

    async def prepare(self, pod: Json) -> None:
        pass

    def start(self, pod: Json, container: Json, restarts: int) -> None:
        pass

    def end(self, pod: Json, container: Json, state: Json) -> ContainerExit | None:
        name = container["name"]
        init = any(c is container for c in pod["spec"].get("initContainers") or ())
        ends_well = init and container.get("restartPolicy") != "Always"
        default = None if init else self._job_duration(pod)
        after = exit_after(pod, name, timedelta() if ends_well else default, init=ends_well)
        if after is None:
            return None
        return ContainerExit(parse_time(state["state"]["running"]["startedAt"]) + after, exit_code(pod, name))

    def stop(self, pod: Json, status: Json, requested_at: datetime, deadline: datetime) -> ContainerExit | None:
        stop = stop_times(pod, status["name"], requested_at, deadline)
        due = stop.terminate_at + stop_after(pod, status["name"])
        return ContainerExit(due, 0) if due <= stop.kill_at else ContainerExit(stop.kill_at, KILLED)

    def kill(self, pod: Json, names: Sequence[str]) -> None:
        pass

    def remove(self, pod: Json) -> None:
        pass


EMULATED = EmulatedContainers()
