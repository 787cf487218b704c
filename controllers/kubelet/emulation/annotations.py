"""The annotations that control the emulation."""

from __future__ import annotations

from datetime import timedelta

from apiserver.api.objects import Json
from apiserver.api.values.durations import parse_duration
from apiserver.api.values.numbers import int64

#: On a Node, with any value: the agent emulates it.
EMULATED = "kubedra.dev/emulated"
#: On a Node: number of example GPUs to publish, as "8" or "DRIVER=8".
DEVICES = "kubedra.dev/devices"
#: On a Node: hardware to publish, either the name of a profile in `kubedra.profiles` or a profile in JSON.
PROFILE = "kubedra.dev/profile"
#: On a Node without real drivers: faults of devices and drivers (`device_faults`). Devices are listed as "gpu-0,
#: gpu-1". "DRIVER/gpu-0" selects the device of one driver if several have the same name.
LOST_DEVICES = "kubedra.dev/lost-devices"
#: Device taints, as "gpu-0=KEY:EFFECT, gpu-1=KEY=VALUE:EFFECT".
TAINTED_DEVICES = "kubedra.dev/tainted-devices"
#: Unhealthy devices, as "gpu-0, gpu-1=MESSAGE". If present, all other devices are reported as healthy.
UNHEALTHY_DEVICES = "kubedra.dev/unhealthy-devices"
#: Names of unregistered drivers.
MISSING_DRIVERS = "kubedra.dev/missing-drivers"
#: Error returned by drivers for each claim, or only for claims with one of PREPARE_ERROR_DEVICES.
PREPARE_ERROR = "kubedra.dev/prepare-error"
PREPARE_ERROR_DEVICES = "kubedra.dev/prepare-error-devices"
UNPREPARE_ERROR = "kubedra.dev/unprepare-error"
#: On a Node: images whose pull fails, as "web:2, db:1".
MISSING_IMAGES = "kubedra.dev/missing-images"
#: On a Node: allowed unsafe sysctls, as "kernel.msg*, net.core.somaxconn".
UNSAFE_SYSCTLS = "kubedra.dev/allowed-unsafe-sysctls"
#: Duration of preparing a claim, as "5s".
PREPARE_TAKES = "kubedra.dev/prepare-takes"
#: On a Namespace or Node: duration of the containers of Jobs, as "1s", or NEVER (`emulation.jobs`).
JOBS_EXIT_AFTER = "kubedra.dev/jobs-exit-after"
#: On a Pod: time until its containers exit, as "2", "0.5s" or "5m", or NEVER. This and the following annotations can be
#: limited to one container or init container: `kubedra.dev/exit-after.NAME`.
EXIT_AFTER = "kubedra.dev/exit-after"
NEVER = "never"
#: On a Pod: Helm waits for its end, for example `test`.
HELM_HOOK = "helm.sh/hook"
#: On a Pod: exit code of its containers; default 0.
EXIT_CODE = "kubedra.dev/exit-code"
#: On a Pod: seconds between the start of its containers and their readiness.
READY_AFTER = "kubedra.dev/ready-after"
#: On a Pod: periods after a container's start in which a probe fails. "0s-5s, 20s" means the first 5 seconds, and from
#: 20 seconds on. PROBE is startup, liveness or readiness.
PROBE_FAILS = "kubedra.dev/{probe}-fails"
#: On a Pod: duration of the containers' shutdown. If it exceeds the grace period, they are killed.
STOP_AFTER = "kubedra.dev/stop-after"
#: On a Pod: content of its containers' logs.
LOG = "kubedra.dev/log"

EXAMPLE_DRIVER = "gpu.example.com"


def annotation(obj: Json, name: str) -> str | None:
    value = (obj["metadata"].get("annotations") or {}).get(name)
    return None if value is None else str(value)


def is_emulated(node: Json) -> bool:
    return annotation(node, EMULATED) is not None


def devices_of(node: Json) -> tuple[str, int] | None:
    """Return (driver, count) of a node's DEVICES; None if absent or invalid."""
    value = annotation(node, DEVICES)
    if not value:
        return None
    driver, _, count = value.rpartition("=")
    number = int64(count)
    return (driver or EXAMPLE_DRIVER, number) if number is not None and number > 0 else None


def missing_images(node: Json) -> frozenset[str]:
    """Return the images whose pull fails on a node."""
    value = annotation(node, MISSING_IMAGES)
    return frozenset(filter(None, (name.strip() for name in value.split(",")))) if value else frozenset()


def exit_after(pod: Json, container: str, default: timedelta | None = None, *, init: bool = False) -> timedelta | None:
    """Return a container's running time; None if it runs until the pod is deleted.

    A value for the whole pod does not apply to init containers that end by themselves (`init`).
    """
    value = annotation(pod, f"{EXIT_AFTER}.{container}")
    if value is None and not init:
        value = annotation(pod, EXIT_AFTER)
    return default if value is None else parse_running_time(value, default)


def parse_running_time(value: str, default: timedelta | None) -> timedelta | None:
    """Parse a running time, as "2" or "5m"; None for NEVER. An invalid value is replaced by the default."""
    return None if value == NEVER else parse_seconds(value, default)


def ready_after(pod: Json, container: str) -> timedelta:
    """Return the time between a container's start and its readiness."""
    value = annotation(pod, f"{READY_AFTER}.{container}") or annotation(pod, READY_AFTER)
    return parse_seconds(value or "0", None) or timedelta()


def stop_after(pod: Json, container: str) -> timedelta:
    """Return the duration of a container's shutdown."""
    value = annotation(pod, f"{STOP_AFTER}.{container}") or annotation(pod, STOP_AFTER)
    return parse_seconds(value or "0", None) or timedelta()


def probe_failures(pod: Json, container: str, probe: str) -> list[tuple[timedelta, timedelta | None]]:
    """Return the periods (from, to) after a container's start in which a probe fails.

    The end is None for an open period. Invalid parts are ignored.
    """
    name = PROBE_FAILS.format(probe=probe)
    value = annotation(pod, f"{name}.{container}") or annotation(pod, name) or ""
    found = []
    for part in filter(None, (part.strip() for part in value.split(","))):
        begin, dash, end = part.partition("-")
        first, last = parse_seconds(begin, None), parse_seconds(end, None) if dash else None
        if first is not None and (last is not None or not dash):
            found.append((first, last))
    return found


def exit_code(pod: Json, container: str) -> int:
    """Return a container's exit code. A value for the whole pod does not apply to init containers."""
    init = any(c["name"] == container for c in pod["spec"].get("initContainers") or ())
    value = annotation(pod, f"{EXIT_CODE}.{container}") or (None if init else annotation(pod, EXIT_CODE)) or "0"
    number = int64(value)
    return number if number is not None and 0 <= number < 256 else 1


def parse_seconds(value: str, default: timedelta | None) -> timedelta | None:
    """Parse a duration, as "2", "0.5s" or "5m". An invalid value is replaced by the default."""
    try:
        return max(timedelta(seconds=float(value.removesuffix("s"))), timedelta())
    except (ValueError, OverflowError):
        pass
    try:
        return parse_duration(value)
    except (ValueError, OverflowError):
        return default


def parse_list(obj: Json, name: str) -> list[tuple[str, str]]:
    """Parse an annotation that is a list, as "a, b=value", into (name, value) pairs."""
    items = (item.strip() for item in (annotation(obj, name) or "").split(","))
    return [(key.strip(), value.strip()) for key, _, value in (item.partition("=") for item in items if item)]


def seconds_of(obj: Json, name: str) -> timedelta:
    """Return an annotation's duration, as "3s"; zero if absent or invalid."""
    return parse_seconds(annotation(obj, name) or "0", None) or timedelta()
