"""What the controllers of EndpointSlices count, with upstream's names."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver.runtime.metrics import Counter, Family, Gauge, Histogram, exponential


class SliceMetrics:
    """Of one controller. `most` endpoints may be in a slice; without any there are `least` slices."""

    def __init__(self, subsystem: str, most: int, least: int) -> None:
        self.subsystem, self._most, self._least = subsystem, most, least
        self.added = self.per_look("endpoints_added", "Endpoints that a look added.")
        self.removed = self.per_look("endpoints_removed", "Endpoints that a look removed.")
        #: By owner and part of its endpoints: how many slices there are, and how many endpoints by ports.
        self._held: dict[str, dict[str, tuple[int, Sequence[int]]]] = {}
        self._gauges = (
            Gauge(f"{subsystem}_endpoints_desired", "Endpoints that there should be.", (), self._endpoints),
            Gauge(f"{subsystem}_num_endpoint_slices", "Slices that there are.", (), self._slices),
            Gauge(f"{subsystem}_desired_endpoint_slices", "Slices that would do if all were full.", (), self._needed),
        )

    def per_look(self, name: str, help: str, labels: Sequence[str] = ()) -> Histogram:
        """How many of something a look at an owner changes."""
        return Histogram(f"{self.subsystem}_{name}_per_sync", help, labels, exponential(2, 2, 15))

    def hold(self, owner: str, part: str, slices: int, endpoints: Sequence[int]) -> None:
        """A part of an owner's endpoints (those of a family of addresses) stands in so many slices."""
        self._held.setdefault(owner, {})[part] = (slices, endpoints)

    def forget(self, owner: str) -> None:
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

    def _needed(self) -> dict[tuple[str, ...], float]:
        full = (sum(-(-number // self._most) for number in endpoints) for _, endpoints in self._parts())
        return {(): sum(max(self._least, number) for number in full)}


class ServiceSliceMetrics(SliceMetrics):
    """Of the slices of services with a selector."""

    def __init__(self, most: int) -> None:
        super().__init__("endpoint_slice_controller", most, 1)
        self.looks = Counter(f"{self.subsystem}_syncs", "Looks at services.", ("result",))
        self.changed = self.per_look(
            "endpointslices_changed", "Slices that a look changed.", ("topology", "traffic_distribution")
        )
        #: By service; "" where it has none that counts.
        self.distributions: dict[str, str] = {}
        self._by_distribution = Gauge(
            f"{self.subsystem}_services_count_by_traffic_distribution",
            "Services that say where their traffic should go.",
            ("traffic_distribution",),
            self._distributed,
        )

    def forget(self, owner: str) -> None:
        super().forget(owner)
        self.distributions.pop(owner, None)

    @property
    def families(self) -> tuple[Family, ...]:
        return (*super().families, self.looks, self.changed, self._by_distribution)

    def _distributed(self) -> dict[tuple[str, ...], float]:
        numbers: dict[tuple[str, ...], float] = {}
        for each in self.distributions.values():
            if each:
                numbers[each,] = numbers.get((each,), 0) + 1
        return numbers


class MirrorMetrics(SliceMetrics):
    """Of the slices that mirror Endpoints."""

    def __init__(self, most: int) -> None:
        super().__init__("endpoint_slice_mirroring_controller", most, 0)
        self.updated = self.per_look("endpoints_updated", "Endpoints that a look changed.")
        self.skipped = self.per_look("addresses_skipped", "Addresses that a look left out.")
        self.duration = Histogram(
            f"{self.subsystem}_endpoints_sync_duration", "Time that a look takes.", (), exponential(0.001, 2, 15)
        )

    @property
    def families(self) -> tuple[Family, ...]:
        return (*super().families, self.updated, self.skipped, self.duration)
