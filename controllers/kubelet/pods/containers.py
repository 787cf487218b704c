"""What the containers of a node do: as annotations say (`EmulatedContainers`), or as processes (`processes`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from controllers.kubelet.emulation.annotations import exit_after, exit_code, stop_after
from controllers.runtime.kinds import Json
from controllers.runtime.times import parse_time

#: How a process ends that is killed.
KILLED = 137
#: What a container has between SIGTERM and SIGKILL at least, where its hook has used up the grace period.
_LEAST_GRACE = timedelta(seconds=2)


class ContainerError(Exception):
    """A container cannot be started now. `reason` is what its status says, as `CreateContainerConfigError`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class End:
    """How and when a container ends, or has ended."""

    at: datetime
    code: int


@dataclass(frozen=True, slots=True)
class Stop:
    """When a container is told to end, and when it is killed."""

    told: datetime
    killed: datetime


def stop_of(pod: Json, name: str, asked: datetime, deadline: datetime) -> Stop:
    """For a container of a pod that was told to end: first its `preStop` hook sleeps, no longer than the grace period.
    Other hooks do not count.
    """
    every = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    hooks = ((c.get("lifecycle") or {}).get("preStop") or {} for c in every if c["name"] == name)
    pause = timedelta(seconds=next(((hook.get("sleep") or {}).get("seconds", 0) for hook in hooks), 0))
    if not pause:
        return Stop(asked, deadline)
    told = min(asked + pause, deadline)
    return Stop(told, max(deadline, told + _LEAST_GRACE) if deadline > asked else deadline)


class Containers(Protocol):
    """The containers of one node. A container is one of a pod's spec, with its status."""

    async def prepare(self, pod: Json) -> None:
        """Before a step of the pod: what its containers need is fetched."""
        ...

    def start(self, pod: Json, container: Json, restarts: int) -> None:
        """Starts it for the so many-th time again. Raises ContainerError."""
        ...

    def end(self, pod: Json, container: Json, state: Json) -> End | None:
        """When a running container ends by itself; None where that is not known: whoever learns of it says so."""
        ...

    def stopped(self, pod: Json, status: Json, asked: datetime, deadline: datetime) -> End | None:
        """When a running container ends that was told to at a time, and is killed at the deadline; None: not yet."""
        ...

    def kill(self, pod: Json, names: Sequence[str]) -> None:
        """Kills containers at once; those that do not run are passed over."""
        ...

    def forget(self, pod: Json) -> None:
        """The pod is gone."""
        ...


class EmulatedContainers:
    """Nothing runs: regular containers go on and init containers end well, unless annotations say otherwise."""

    async def prepare(self, pod: Json) -> None:
        pass

    def start(self, pod: Json, container: Json, restarts: int) -> None:
        pass

    def end(self, pod: Json, container: Json, state: Json) -> End | None:
        name = container["name"]
        init = any(c is container for c in pod["spec"].get("initContainers") or ())
        ends_well = init and container.get("restartPolicy") != "Always"
        after = exit_after(pod, name, timedelta() if ends_well else None)
        if after is None:
            return None
        return End(parse_time(state["state"]["running"]["startedAt"]) + after, exit_code(pod, name))

    def stopped(self, pod: Json, status: Json, asked: datetime, deadline: datetime) -> End | None:
        stop = stop_of(pod, status["name"], asked, deadline)
        due = stop.told + stop_after(pod, status["name"])
        return End(due, 0) if due <= stop.killed else End(stop.killed, KILLED)

    def kill(self, pod: Json, names: Sequence[str]) -> None:
        pass

    def forget(self, pod: Json) -> None:
        pass


EMULATED = EmulatedContainers()
