"""The claims used by a node's pods, with the devices prepared for them.

Entries are keyed by namespace and name. A new claim of the same name (another uid) must wait until the old one is
released.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from controllers.kubelet.dra.drivers import ClaimId, PreparedDevice


@dataclass(slots=True)
class ClaimInfo:
    """The node's record of one claim. `drivers` has the order of the allocation's results."""

    uid: str
    name: str
    namespace: str
    pods: set[str] = field(default_factory=set)
    drivers: dict[str, tuple[PreparedDevice, ...]] | None = field(default_factory=dict)
    prepared: bool = False
    """Not saved in the checkpoint: after a restart a claim is prepared again for its next pod."""
    releasing: int = 0
    """Number of running unprepare calls."""

    @property
    def id(self) -> ClaimId:
        return ClaimId(self.namespace, self.uid, self.name)

    @property
    def driver_names(self) -> tuple[str, ...]:
        return tuple(self.drivers or ())

    def devices(self, request: str = "") -> Iterator[tuple[str, PreparedDevice]]:
        """Yield (driver, device) for the devices that serve a request, or for all without one."""
        for driver, devices in (self.drivers or {}).items():
            for device in devices:
                if not request or not device.requests or request in device.requests:
                    yield driver, device


class ClaimCache:
    """The node's claims by namespace and name, in order of arrival."""

    def __init__(self, infos: Iterable[ClaimInfo] = ()) -> None:
        self._infos = {(info.namespace, info.name): info for info in infos}

    def __iter__(self) -> Iterator[ClaimInfo]:
        return iter(tuple(self._infos.values()))

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._infos.get((namespace, name))

    def add(self, info: ClaimInfo) -> None:
        self._infos[info.namespace, info.name] = info

    def remove(self, info: ClaimInfo) -> None:
        """Remove the entry unless a newer one has replaced it."""
        if self._infos.get((info.namespace, info.name)) is info:
            del self._infos[info.namespace, info.name]

    def used_by(self, pod_uid: str) -> bool:
        """Return whether any claim is prepared for a pod."""
        return any(pod_uid in info.pods for info in self._infos.values())

    def in_use(self) -> dict[str, int]:
        """Count the prepared claims by driver; `<any>` counts a claim of two drivers once."""
        counts = {"<any>": 0}
        for info in self._infos.values():
            if info.prepared:
                counts["<any>"] += 1
                for driver in info.driver_names:
                    counts[driver] = counts.get(driver, 0) + 1
        return counts
