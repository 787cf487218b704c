"""The claims that a node's pods use: who uses them, and what drivers prepared for them.

An entry's key is namespace and name: a claim of the same name with another uid has to wait until the old one is
released.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from controllers.kubelet.dra.drivers import ClaimId, PreparedDevice


@dataclass(slots=True)
class ClaimInfo:
    """What the node knows of one claim. `drivers` is in the order of the allocation's results."""

    uid: str
    name: str
    namespace: str
    pods: set[str] = field(default_factory=set)
    drivers: dict[str, tuple[PreparedDevice, ...]] | None = field(default_factory=dict)
    prepared: bool = False
    """Not written to the checkpoint: after a restart a claim is prepared again when a pod needs it."""
    releasing: int = 0
    """How many calls to unprepare it are under way."""

    @property
    def id(self) -> ClaimId:
        return ClaimId(self.namespace, self.uid, self.name)

    @property
    def driver_names(self) -> tuple[str, ...]:
        return tuple(self.drivers or ())

    def devices(self, request: str = "") -> Iterator[tuple[str, PreparedDevice]]:
        """(driver, device) of those that serve a request; without one, of all."""
        for driver, devices in (self.drivers or {}).items():
            for device in devices:
                if not request or not device.requests or request in device.requests:
                    yield driver, device


class ClaimCache:
    """The node's claims by namespace and name, in the order in which they came."""

    def __init__(self, infos: Iterable[ClaimInfo] = ()) -> None:
        self._infos = {(info.namespace, info.name): info for info in infos}

    def __iter__(self) -> Iterator[ClaimInfo]:
        return iter(tuple(self._infos.values()))

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._infos.get((namespace, name))

    def add(self, info: ClaimInfo) -> None:
        self._infos[info.namespace, info.name] = info

    def remove(self, info: ClaimInfo) -> None:
        """Forgets the entry, unless another one has taken its place."""
        if self._infos.get((info.namespace, info.name)) is info:
            del self._infos[info.namespace, info.name]

    def used_by(self, pod_uid: str) -> bool:
        """Whether any claim is held for a pod."""
        return any(pod_uid in info.pods for info in self._infos.values())

    def in_use(self) -> dict[str, int]:
        """How many prepared claims each driver has, and `<any>` in all (a claim of two drivers counts once)."""
        counts = {"<any>": 0}
        for info in self._infos.values():
            if info.prepared:
                counts["<any>"] += 1
                for driver in info.driver_names:
                    counts[driver] = counts.get(driver, 0) + 1
        return counts
