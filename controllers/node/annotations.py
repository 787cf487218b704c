"""Annotations that people steer the emulation with."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

Json = dict[str, Any]

#: On a Node: the agent emulates it. Any value.
EMULATED = "kubedra.dev/emulated"
#: On a Node: how many example GPUs its driver publishes, as "8" or "DRIVER=8".
DEVICES = "kubedra.dev/devices"
#: On a Pod: its containers end by themselves after so many seconds, as "2" or "0.5s".
EXIT_AFTER = "kubedra.dev/exit-after"
#: On a Pod: with which exit code they do; 0 unless given.
EXIT_CODE = "kubedra.dev/exit-code"

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
    return (driver or EXAMPLE_DRIVER, int(count)) if count.isdigit() and int(count) else None


def exit_after(pod: Json) -> timedelta | None:
    """How long a pod's containers run; None for as long as the pod exists."""
    value = annotation(pod, EXIT_AFTER)
    try:
        return None if value is None else timedelta(seconds=float(value.removesuffix("s")))
    except ValueError:
        return None


def exit_code(pod: Json) -> int:
    value = annotation(pod, EXIT_CODE) or "0"
    return int(value) if value.isdigit() else 1
