"""Annotations that people steer the emulation with."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from apiserver.api.values.numbers import int64

Json = dict[str, Any]

#: On a Node: the agent emulates it. Any value.
EMULATED = "kubedra.dev/emulated"
#: On a Node: how many example GPUs its driver publishes, as "8" or "DRIVER=8".
DEVICES = "kubedra.dev/devices"
#: On a Node: the hardware that its drivers publish, a name of `kubedra.profiles` or a whole profile
#: as JSON.
PROFILE = "kubedra.dev/profile"
#: On a Node without real drivers: what is wrong with its devices and drivers (`devicefaults`). Devices are listed as
#: "gpu-0, gpu-1"; of two drivers' devices of one name one is meant by "DRIVER/gpu-0".
LOST_DEVICES = "kubedra.dev/lost-devices"
#: "gpu-0=KEY:EFFECT, gpu-1=KEY=VALUE:EFFECT".
TAINTED_DEVICES = "kubedra.dev/tainted-devices"
#: "gpu-0, gpu-1=MESSAGE". Where it is there at all, the other devices are reported as healthy.
UNHEALTHY_DEVICES = "kubedra.dev/unhealthy-devices"
#: Drivers that are not registered.
MISSING_DRIVERS = "kubedra.dev/missing-drivers"
#: Drivers answer with this error for each claim, or for those that have one of PREPARE_ERROR_DEVICES.
PREPARE_ERROR = "kubedra.dev/prepare-error"
PREPARE_ERROR_DEVICES = "kubedra.dev/prepare-error-devices"
UNPREPARE_ERROR = "kubedra.dev/unprepare-error"
#: On a Node: images that it cannot pull, as "web:2, db:1"; their containers wait.
MISSING_IMAGES = "kubedra.dev/missing-images"
#: On a Node: kernel parameters beyond the safe ones that its pods may set, as "kernel.msg*, net.core.somaxconn".
UNSAFE_SYSCTLS = "kubedra.dev/allowed-unsafe-sysctls"
#: How long a driver takes to prepare, as "5s".
PREPARE_TAKES = "kubedra.dev/prepare-takes"
#: On a Pod: its containers end by themselves after so many seconds, as "2" or "0.5s". This and the following may be
#: said of one container, init containers included: `kubedra.dev/exit-after.NAME`.
EXIT_AFTER = "kubedra.dev/exit-after"
#: On a Pod: with which exit code they do; 0 unless given.
EXIT_CODE = "kubedra.dev/exit-code"
#: On a Pod: its containers are ready so many seconds after they started.
READY_AFTER = "kubedra.dev/ready-after"
#: On a Pod: when after the start of a container its probes fail, as "0s-5s, 20s": in the first five seconds, and from
#: twenty seconds on. PROBE is startup, liveness or readiness; all may be said of one container.
PROBE_FAILS = "kubedra.dev/{probe}-fails"
#: On a Pod: how long its containers take to end once they are told to; longer than the grace period, they are killed.
STOP_AFTER = "kubedra.dev/stop-after"
#: On a Pod: what its containers have written when somebody reads their log.
LOG = "kubedra.dev/log"

EXAMPLE_DRIVER = "gpu.example.com"


def annotation(obj: Json, name: str) -> str | None:
    value = (obj["metadata"].get("annotations") or {}).get(name)
    return None if value is None else str(value)


def is_emulated(node: Json) -> bool:
    return annotation(node, EMULATED) is not None


def devices_of(node: Json) -> tuple[str, int] | None:
    """(driver, count) that a node asks for; None where it asks for none or cannot be understood."""
    value = annotation(node, DEVICES)
    if not value:
        return None
    driver, _, count = value.rpartition("=")
    number = int64(count)
    return (driver or EXAMPLE_DRIVER, number) if number is not None and number > 0 else None


def missing_images(node: Json) -> frozenset[str]:
    """The images that a node cannot pull."""
    value = annotation(node, MISSING_IMAGES)
    return frozenset(filter(None, (name.strip() for name in value.split(",")))) if value else frozenset()


def exit_after(pod: Json, container: str, default: timedelta | None = None) -> timedelta | None:
    """How long a container runs; None for as long as the pod exists. What is said of all does not hold for init
    containers, which have a default.
    """
    value = annotation(pod, f"{EXIT_AFTER}.{container}")
    if value is None and default is None:
        value = annotation(pod, EXIT_AFTER)
    return default if value is None else _seconds(value, default)


def ready_after(pod: Json, container: str) -> timedelta:
    """How long after its start a container becomes ready."""
    value = annotation(pod, f"{READY_AFTER}.{container}") or annotation(pod, READY_AFTER)
    return _seconds(value or "0", None) or timedelta()


def stop_after(pod: Json, container: str) -> timedelta:
    """How long a container takes to end once it is told to."""
    value = annotation(pod, f"{STOP_AFTER}.{container}") or annotation(pod, STOP_AFTER)
    return _seconds(value or "0", None) or timedelta()


def failing(pod: Json, container: str, probe: str) -> list[tuple[timedelta, timedelta | None]]:
    """When a probe of a container fails, from and to after its start; without an end, for ever. What cannot be
    understood counts for nothing.
    """
    name = PROBE_FAILS.format(probe=probe)
    value = annotation(pod, f"{name}.{container}") or annotation(pod, name) or ""
    found = []
    for part in filter(None, (part.strip() for part in value.split(","))):
        begin, dash, end = part.partition("-")
        first, last = _seconds(begin, None), _seconds(end, None) if dash else None
        if first is not None and (last is not None or not dash):
            found.append((first, last))
    return found


def exit_code(pod: Json, container: str) -> int:
    """What a container ends with. What is said of all does not hold for init containers."""
    init = any(c["name"] == container for c in pod["spec"].get("initContainers") or ())
    value = annotation(pod, f"{EXIT_CODE}.{container}") or (None if init else annotation(pod, EXIT_CODE)) or "0"
    number = int64(value)
    return number if number is not None and 0 <= number < 256 else 1


def _seconds(value: str, default: timedelta | None) -> timedelta | None:
    try:
        return max(timedelta(seconds=float(value.removesuffix("s"))), timedelta())
    except (ValueError, OverflowError):
        return default


def listed(obj: Json, name: str) -> list[tuple[str, str]]:
    """An annotation that lists things, as "a, b=something": (thing, what is said of it)."""
    items = (item.strip() for item in (annotation(obj, name) or "").split(","))
    return [(key.strip(), value.strip()) for key, _, value in (item.partition("=") for item in items if item)]


def seconds_of(obj: Json, name: str) -> timedelta:
    """An annotation that is a time, as "3s"; none where it is absent or cannot be understood."""
    return _seconds(annotation(obj, name) or "0", None) or timedelta()
