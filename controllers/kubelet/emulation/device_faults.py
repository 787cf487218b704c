"""The faults of devices and drivers of an emulated node, as defined by its annotations (`annotations`)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache

from apiserver.api.objects import Json
from controllers.kubelet.emulation import annotations as marks
from controllers.kubelet.emulation.annotations import annotation, parse_list, seconds_of
from kubedra.profiles.pools import Pool, split

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeviceFaults:
    """The faults of one node. Devices are named as in the annotations: NAME or DRIVER/NAME."""

    lost: Collection[str] = ()
    tainted: Mapping[str, Json] | None = None
    unhealthy: Mapping[str, str] | None = None
    """The message by unhealthy device; None disables health reports."""
    missing_drivers: Collection[str] = ()
    prepare_error: str = ""
    prepare_error_devices: Collection[str] = ()
    """Limits `prepare_error` to claims with one of these devices; empty means all claims."""
    prepare_takes: timedelta = timedelta()
    unprepare_error: str = ""

    def apply(self, driver: str, pool: Pool) -> Pool:
        """Apply lost and tainted devices to a driver's pool."""
        if not self.lost and not self.tainted:
            return pool
        slices: list[Mapping[str, object]] = []
        for part in pool.slices:
            devices = [
                self._add_taint(driver, d) for d in part.get("devices") or () if not _is_listed(self.lost, driver, d)
            ]
            # A slice can have fewer devices if they have taints.
            parts = split(devices) if devices else [[]]
            slices += [{**part, **({"devices": some} if "devices" in part else {})} for some in parts]
        return replace(pool, slices=tuple(slices))

    def prepare_error_for(self, driver: str, devices: Collection[str]) -> str:
        """Return the error for a claim with these devices of the driver, or ""."""
        only = self.prepare_error_devices
        hit = not only or any(name in only or f"{driver}/{name}" in only for name in devices)
        return self.prepare_error if hit else ""

    def health(self, driver: str, device: str) -> tuple[str, str]:
        """Return the state and message of a device."""
        for name in (device, f"{driver}/{device}"):
            if self.unhealthy is not None and name in self.unhealthy:
                return "Unhealthy", self.unhealthy[name]
        return "Healthy", ""

    def _add_taint(self, driver: str, device: Json) -> Json:
        taints = self.tainted or {}
        taint = taints.get(device["name"]) or taints.get(f"{driver}/{device['name']}")
        return device if taint is None else {**device, "taints": [*(device.get("taints") or ()), taint]}


NONE = DeviceFaults()


def device_faults(node: Json) -> DeviceFaults:
    """Parse the faults from a node's annotations."""
    if not any(key in _KNOWN for key in node["metadata"].get("annotations") or ()):
        return NONE
    unhealthy = None
    if annotation(node, marks.UNHEALTHY_DEVICES) is not None:
        unhealthy = dict(parse_list(node, marks.UNHEALTHY_DEVICES))
    name, tainted = node["metadata"]["name"], parse_list(node, marks.TAINTED_DEVICES)
    return DeviceFaults(
        lost={device for device, _ in parse_list(node, marks.LOST_DEVICES)},
        tainted={device: taint for device, text in tainted if (taint := _taint(name, device, text))},
        unhealthy=unhealthy,
        missing_drivers={driver for driver, _ in parse_list(node, marks.MISSING_DRIVERS)},
        prepare_error=annotation(node, marks.PREPARE_ERROR) or "",
        prepare_error_devices={device for device, _ in parse_list(node, marks.PREPARE_ERROR_DEVICES)},
        prepare_takes=seconds_of(node, marks.PREPARE_TAKES),
        unprepare_error=annotation(node, marks.UNPREPARE_ERROR) or "",
    )


_KNOWN = frozenset(
    {
        marks.LOST_DEVICES,
        marks.TAINTED_DEVICES,
        marks.UNHEALTHY_DEVICES,
        marks.MISSING_DRIVERS,
        marks.PREPARE_ERROR,
        marks.PREPARE_TAKES,
        marks.UNPREPARE_ERROR,
    }
)


@lru_cache
def _taint(node: str, device: str, text: str) -> Json | None:
    """Parse a taint of the form KEY[=VALUE]:EFFECT; log an invalid one once."""
    words, _, effect = text.rpartition(":")
    key, _, value = words.partition("=")
    if not key or effect not in ("NoSchedule", "NoExecute", "None"):
        what = f"{marks.TAINTED_DEVICES}: {device}={text}"
        log.warning("node %s: %s: expected KEY:EFFECT or KEY=VALUE:EFFECT, such as gone:NoExecute", node, what)
        return None
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _is_listed(names: Collection[str], driver: str, device: Json) -> bool:
    return device["name"] in names or f"{driver}/{device['name']}" in names
