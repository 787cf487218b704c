"""The pods and containers that set a field, as refusals name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from apiserver.api.objects import Json

__all__ = ["Finding", "PodToCheck", "count", "named", "quoted", "setters"]


class Finding(NamedTuple):
    """A violation: its reason, and its detail."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


class PodToCheck(NamedTuple):
    """A pod, or a pod template."""

    annotations: Json
    spec: Json

    @property
    def security(self) -> Json:
        """The security context of the pod itself."""
        return self.spec.get("securityContext") or {}

    def containers(self) -> Iterator[tuple[str, Json, Json]]:
        """Yield the name, the container and its security context: init containers first, ephemeral ones last."""
        for field in ("initContainers", "containers", "ephemeralContainers"):
            for container in self.spec.get(field) or ():
                yield container.get("name", ""), container, container.get("securityContext") or {}

    @property
    def for_windows(self) -> bool:
        return (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_own_users(self) -> bool:
        """Whether root in the pod is unprivileged on the host."""
        return self.spec.get("hostUsers") is False


def quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def count(word: str, number: int) -> str:
    """Return the singular or plural of a word."""
    return word if number == 1 else word + "s"


def named(word: str, names: list[str]) -> str:
    """Render names with their noun: `container "a"`, `containers "a", "b"`."""
    return f"{count(word, len(names))} {quoted(names)}"


def setters(pod: PodToCheck, wrong: Callable[[Json], bool]) -> list[str]:
    """Return the setters of an invalid security context: the pod, and its containers together."""
    found = ["pod"] if wrong(pod.security) else []
    containers = [name for name, _, security in pod.containers() if wrong(security)]
    return [*found, named("container", containers)] if containers else found
