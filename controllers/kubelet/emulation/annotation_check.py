"""Warning events about `kubedra.dev/…` annotations with an unknown name or a malformed value.

Without them a typo has no effect and no message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.numbers import int64
from apiserver.api.values.quantity import Quantity
from controllers.kubelet.emulation import annotations as marks
from controllers.runtime.client import Client
from controllers.runtime.events import CoreEventRecorder
from controllers.runtime.informer import Informer
from kubedra import profiles
from kubedra.runtime.user_settings import suggest

__all__ = ["AnnotationWarnings", "annotation_problems"]

_PREFIX: Final = "kubedra.dev/"
#: Reason and message of an event.
UnknownOrInvalid = tuple[str, str]
_PROBES: Final = tuple(marks.PROBE_FAILS.format(probe=probe) for probe in ("startup", "liveness", "readiness"))
#: Annotations that have an effect only on Nodes, and some on Namespaces.
_OF_NODES: Final = frozenset(
    (marks.EMULATED, marks.DEVICES, marks.PROFILE, marks.LOST_DEVICES, marks.TAINTED_DEVICES, marks.UNHEALTHY_DEVICES,
     marks.MISSING_DRIVERS, marks.PREPARE_ERROR, marks.PREPARE_ERROR_DEVICES, marks.UNPREPARE_ERROR,
     marks.MISSING_IMAGES, marks.UNSAFE_SYSCTLS, marks.PREPARE_TAKES, marks.JOBS_EXIT_AFTER)
)  # fmt: skip
#: Annotations of Pods that `.NAME` limits to one container.
_OF_CONTAINERS: Final = (marks.EXIT_AFTER, marks.EXIT_CODE, marks.READY_AFTER, marks.STOP_AFTER, *_PROBES)
#: Prefixes of metrics; their names are free.
_METRICS: Final = ("usage.", "metric.", "load.")
_KNOWN: Final = frozenset(
    value for value in vars(marks).values() if isinstance(value, str) and value.startswith(_PREFIX) and "{" not in value
) | frozenset(_PROBES)


class AnnotationWarnings:
    """Emits one event per problem of each Node and Pod."""

    def __init__(self, client: Client, nodes: Informer, pods: Informer) -> None:
        self._recorder = CoreEventRecorder(client, "kubelet")
        self._emitted: dict[str, set[UnknownOrInvalid]] = {}
        for kind, informer in (("Node", nodes), ("Pod", pods)):
            informer.on(partial(self._check, kind), partial(self._recheck, kind), self._remove)
        self.run = self._recorder.run

    def _check(self, kind: str, obj: Json) -> None:
        problems = annotation_problems(obj, kind)
        if not problems:
            return
        emitted = self._emitted.setdefault(obj["metadata"]["uid"], set())
        for problem in problems:
            if problem not in emitted:
                emitted.add(problem)
                self._recorder.record(obj, "Warning", *problem)

    def _recheck(self, kind: str, _: Json, obj: Json) -> None:
        self._check(kind, obj)

    def _remove(self, obj: Json) -> None:
        self._emitted.pop(obj["metadata"]["uid"], None)


def annotation_problems(obj: Json, kind: str) -> list[UnknownOrInvalid]:
    """Return the reason and the message of each problem with the annotations of a Node or Pod."""
    found = obj["metadata"].get("annotations")
    if not found or not any(name.startswith(_PREFIX) for name in found):
        return []
    return [
        problem
        for name, value in found.items()
        if name.startswith(_PREFIX) and (problem := _problem(obj, kind, name, str(value)))
    ]


def _problem(obj: Json, kind: str, name: str, value: str) -> UnknownOrInvalid | None:
    if name.removeprefix(_PREFIX).startswith(_METRICS):
        return _invalid(name, value, "a quantity, such as 500m") if not _is_quantity(value) else None
    base, container = _split(name)
    if base not in _KNOWN:
        hint = suggest(base, _KNOWN)
        return "UnknownAnnotation", f"annotation {name} is unknown and has no effect{hint}"
    if (base in _OF_NODES) is not (kind == "Node"):
        other = "a Node" if base in _OF_NODES else "a Pod"
        return "UnknownAnnotation", f"annotation {name} has no effect on a {kind}; set it on {other}"
    if container and container not in _container_names(obj):
        return "UnknownAnnotation", f"annotation {name} has no effect: the pod has no container {container}"
    check = _CHECKS.get(base)
    expected = check(value) if check else ""
    return _invalid(name, value, expected) if expected else None


def _invalid(name: str, value: str, expected: str) -> UnknownOrInvalid:
    return "InvalidAnnotation", f"annotation {name}: {value[:100]!r} is invalid; expected {expected}"


def _split(name: str) -> tuple[str, str]:
    """Split the annotation of one container into its name and the container's."""
    for base in _OF_CONTAINERS:
        if name.startswith(f"{base}."):
            return base, name.removeprefix(f"{base}.")
    return name, ""


def _container_names(pod: Json) -> Iterator[str]:
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in pod["spec"].get(field) or ():
            yield container["name"]


def _is_quantity(value: str) -> bool:
    try:
        Quantity.parse(value)
    except ValueError:
        return False
    return True


def _is_duration(value: str) -> bool:
    return not value.strip().startswith("-") and marks.parse_seconds(value.strip(), None) is not None


def _check_duration(value: str) -> str:
    return "" if _is_duration(value) else "a duration, such as 2s, 0.5s or 5m"


def _check_running_time(value: str) -> str:
    return "" if value == marks.NEVER or _is_duration(value) else "a duration, such as 2s, 0.5s or 5m, or never"


def _check_periods(value: str) -> str:
    ends = (end for part in value.split(",") if part.strip() for end in part.strip().split("-", 1))
    return "" if all(map(_is_duration, ends)) else "periods, such as 0s-5s, 20s"


def _check_exit_code(value: str) -> str:
    number = int64(value)
    return "" if number is not None and 0 <= number < 256 else "a number from 0 to 255"


def _check_devices(value: str) -> str:
    number = int64(value.rpartition("=")[2])
    return "" if not value or (number is not None and number >= 0) else "a number or DRIVER=NUMBER, such as 8"


def _check_profile(value: str) -> str:
    try:
        profiles.load(value)
    except ValueError as error:
        return " ".join(f"a profile: {error}".split())
    return ""


def _check_taints(value: str) -> str:
    for item in filter(None, (part.strip() for part in value.split(","))):
        words, _, effect = item.partition("=")[2].rpartition(":")
        if not words or effect not in ("NoSchedule", "NoExecute", "None"):
            return "DEVICE=KEY:EFFECT or DEVICE=KEY=VALUE:EFFECT, such as gpu-0=gone:NoExecute"
    return ""


#: Checks of values. Each returns the expected form of an invalid value, else "".
_CHECKS: Final[Mapping[str, Callable[[str], str]]] = {
    marks.EXIT_AFTER: _check_running_time,
    marks.JOBS_EXIT_AFTER: _check_running_time,
    marks.READY_AFTER: _check_duration,
    marks.STOP_AFTER: _check_duration,
    marks.PREPARE_TAKES: _check_duration,
    marks.EXIT_CODE: _check_exit_code,
    marks.DEVICES: _check_devices,
    marks.PROFILE: _check_profile,
    marks.TAINTED_DEVICES: _check_taints,
    **dict.fromkeys(_PROBES, _check_periods),
}
