"""The metrics of the EndpointSlice controllers, with upstream's names."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver.runtime.metrics import Counter, Family, Gauge, Histogram, exponential


class SliceMetrics:
    """The metrics of one controller: at most `most` endpoints per slice, at least `least` slices."""

    def __init__(self, subsystem: str, most: int, least: int) -> None:
        self.subsystem, self._most, self._least = subsystem, most, least
        self.added = self.per_sync("endpoints_added", "Endpoints added per sync.")
        self.removed = self.per_sync("endpoints_removed", "Endpoints removed per sync.")
        #: Numbers of slices, and of endpoints per set of ports, by owner and part of its endpoints.
        self._held: dict[str, dict[str, tuple[int, Sequence[int]]]] = {}
        self._gauges = (
            Gauge(f"{subsystem}_endpoints_desired", "Desired endpoints.", (), self._endpoints),
            Gauge(f"{subsystem}_num_endpoint_slices", "Existing slices.", (), self._slices),
            Gauge(
                f"{subsystem}_desired_endpoint_slices",
                "Number of slices if all were full.",
                (),
                self._count_needed,
            ),
        )

    def per_sync(self, name: str, help: str, labels: Sequence[str] = ()) -> Histogram:
        """Build a histogram of changes per sync."""
        return Histogram(f"{self.subsystem}_{name}_per_sync", help, labels, exponential(2, 2, 15))

    def set_slices(self, owner: str, part: str, slices: int, endpoints: Sequence[int]) -> None:
        """Record the slices and endpoints of one part (address family) of an owner."""
        self._held.setdefault(owner, {})[part] = (slices, endpoints)

    def remove(self, owner: str) -> None:
        self._held.pop(owner, None)

    @property
    def families(self) -> tuple[Family, ...]:
        return (self.added, self.removed, *self._gauges)

    def _parts(self) -> Sequence[tuple[int, Sequence[int]]]:
        return [part for parts in self._held.values() for part in parts.values()]

    def _endpoints(self) -> dict[tuple[str, ...], float]:
        return {(): sum(sum(endpoints) for _, endpoints in self._parts())}

    def _slices(self) -> dict[tuple[str, ...], float]:
        return {(): sum(slices for slices, _ in self._parts())}

    def _count_needed(self) -> dict[tuple[str, ...], float]:
        full = (sum(-(-number // self._most) for number in endpoints) for _, endpoints in self._parts())
        return {(): sum(max(self._least, number) for number in full)}


class ServiceSliceMetrics(SliceMetrics):
    """The metrics of slices of services with a selector."""

    def __init__(self, most: int) -> None:
        super().__init__("endpoint_slice_controller", most, 1)
        self.syncs = Counter(f"{self.subsystem}_syncs", "Service syncs.", ("result",))
        self.changed = self.per_sync(
            "endpointslices_changed", "Slices changed per sync.", ("topology", "traffic_distribution")
        )
        #: The traffic distribution by service; "" without a supported one.
        self.distributions: dict[str, str] = {}
        self._by_distribution = Gauge(
            f"{self.subsystem}_services_count_by_traffic_distribution",
            "Services by traffic distribution.",
            ("traffic_distribution",),
            self._count_distributions,
        )

    def remove(self, owner: str) -> None:
        super().remove(owner)
        self.distributions.pop(owner, None)

    @property
    def families(self) -> tuple[Family, ...]:
        return (*super().families, self.syncs, self.changed, self._by_distribution)

    def _count_distributions(self) -> dict[tuple[str, ...], float]:
        numbers: dict[tuple[str, ...], float] = {}
        for each in self.distributions.values():
            if each:
                numbers[each,] = numbers.get((each,), 0) + 1
        return numbers


class MirrorMetrics(SliceMetrics):
    """The metrics of slices that mirror Endpoints."""

    def __init__(self, most: int) -> None:
        super().__init__("endpoint_slice_mirroring_controller", most, 0)
        self.updated = self.per_sync("endpoints_updated", "Endpoints updated per sync.")
        self.skipped = self.per_sync("addresses_skipped", "Addresses skipped per sync.")
        self.duration = Histogram(
            f"{self.subsystem}_endpoints_sync_duration", "Duration of a sync.", (), exponential(0.001, 2, 15)
        )

    @property
    def families(self) -> tuple[Family, ...]:
        return (*super().families, self.updated, self.skipped, self.duration)
