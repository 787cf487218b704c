"""Metric families of a process, and their Prometheus text (format 0.0.4).

A family holds its samples by label values. Several families of one name (a queue's depth, one from each queue) are
rendered as one. A family with `limit_labels` shows the allowed values of some labels, and all others under one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
Labels = tuple[str, ...]
#: The allowed values of a label, by the label's name.
Allowed = Mapping[str, frozenset[str]]
_OTHERS: Final = "unexpected"


class Family(Protocol):
    """One metric: `kind` is counter, gauge or histogram; `lines` renders its samples."""

    name: str
    help: str
    kind: str

    def lines(self) -> Iterator[str]: ...


class Count:
    """One sample of a counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Counter:
    """A counter, by label values."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        self.name, self.help, self._labels = name, help, tuple(labels)
        # Without labels there is a sample from the start.
        self._samples: dict[Labels, Count] = {} if self._labels else {(): Count()}

    def sample(self, *values: str) -> Count:
        """Return the sample of these label values, to be incremented."""
        found = self._samples.get(values)
        if found is None:
            found = self._samples[values] = Count()
        return found

    def inc(self, *values: str) -> None:
        """Increment the sample of these label values."""
        self.sample(*values).value += 1

    def value(self, *values: str) -> int:
        found = self._samples.get(values)
        return found.value if found is not None else 0

    def limit_labels(self, allowed: Allowed) -> tuple[Family, int]:
        """Return a copy limited to allowed values, and the count of other ones."""
        limited, others = Counter(self.name, self.help, self._labels), 0
        for values, sample in tuple(self._samples.items()):
            shown = _replace_labels(self._labels, values, allowed)
            limited.sample(*shown).value += sample.value
            others += sample.value * _differences(values, shown)
        return limited, others

    def lines(self) -> Iterator[str]:
        for values, sample in tuple(self._samples.items()):
            yield f"{self.name}{render_labels(self._labels, values)} {sample.value}"


class Gauge:
    """A gauge that is read when it is rendered: `read` returns the value of each combination of label values."""

    kind = "gauge"

    def __init__(self, name: str, help: str, labels: Sequence[str], read: Callable[[], Mapping[Labels, float]]) -> None:
        self.name, self.help, self._labels, self._read = name, help, tuple(labels), read

    def now(self) -> Gauge:
        """Return a copy with the present values, which can be pickled."""
        return Gauge(self.name, self.help, self._labels, partial(dict, dict(self._read())))

    def limit_labels(self, allowed: Allowed) -> tuple[Family, int]:
        """Return a copy limited to allowed values, and the number of other ones. Only one of these is shown."""
        read = self._read()
        shown = {values: _replace_labels(self._labels, values, allowed) for values in read}
        kept = {shown[values]: number for values, number in read.items()}
        others = sum(_differences(values, limited) for values, limited in shown.items())
        return Gauge(self.name, self.help, self._labels, lambda: kept), others

    def lines(self) -> Iterator[str]:
        for values, number in self._read().items():
            yield f"{self.name}{render_labels(self._labels, values)} {number:.15g}"


class Distribution:
    """One sample of a histogram: the number of values in each bucket, and their sum."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


class Histogram:
    """A distribution of values (seconds) over buckets; `bounds` are their upper ends."""

    kind = "histogram"

    def __init__(self, name: str, help: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self.name, self.help, self._labels, self._bounds = name, help, tuple(labels), tuple(bounds)
        self._samples: dict[Labels, Distribution] = {} if self._labels else {(): Distribution(self._bounds)}

    def sample(self, *values: str) -> Distribution:
        """Return the sample of these label values, for observations."""
        found = self._samples.get(values)
        if found is None:
            found = self._samples[values] = Distribution(self._bounds)
        return found

    def observe(self, value: float, *values: str) -> None:
        """Observe a value for these label values."""
        self.sample(*values).observe(value)

    def count(self, *values: str) -> int:
        found = self._samples.get(values)
        return sum(found.counts) if found is not None else 0

    def limit_labels(self, allowed: Allowed) -> tuple[Family, int]:
        """Return a copy limited to allowed values, and the number of observations with other ones."""
        limited, others = Histogram(self.name, self.help, self._labels, self._bounds), 0
        for values, sample in tuple(self._samples.items()):
            shown = _replace_labels(self._labels, values, allowed)
            sum_ = limited.sample(*shown)
            sum_.counts = [mine + more for mine, more in zip(sum_.counts, sample.counts, strict=True)]
            sum_.sum += sample.sum
            others += sum(sample.counts) * _differences(values, shown)
        return limited, others

    def lines(self) -> Iterator[str]:
        bounds = [f'le="{bound}"}} ' for bound in (*(f"{bound:g}" for bound in self._bounds), "+Inf")]
        for values, sample in tuple(self._samples.items()):
            running = 0
            labels = render_labels(self._labels, values)
            # There are many buckets: their common prefix is rendered once.
            bucket = f"{self.name}_bucket{labels[:-1]}," if labels else f"{self.name}_bucket{{"
            for bound, number in zip(bounds, sample.counts, strict=True):
                running += number
                yield f"{bucket}{bound}{running}"
            yield f"{self.name}_sum{labels} {sample.sum:.9g}"
            yield f"{self.name}_count{labels} {running}"


def _replace_labels(names: Labels, values: Labels, allowed: Allowed) -> Labels:
    """Replace label values that are not allowed by a common one."""
    return tuple(
        value if name not in allowed or value in allowed[name] else _OTHERS
        for name, value in zip(names, values, strict=True)
    )


def _differences(before: Labels, after: Labels) -> int:
    return sum(one != other for one, other in zip(before, after, strict=True))


def render_labels(names: Sequence[str], values: Sequence[str]) -> str:
    """Render `{name="value",…}`, or "" without names."""
    if not names:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True)) + "}"


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `count` bounds, the first `start`, each `factor` times the one before."""
    return tuple(start * factor**step for step in range(count))


def text(families: Iterable[Family]) -> str:
    """Render the families in Prometheus' format."""
    return "".join(f"{line}\n" for line in lines_of(families))


def lines_of(families: Iterable[Family]) -> Iterator[str]:
    """Yield the lines of families, grouped by name in order of first appearance. Counts may change meanwhile."""
    by_name: dict[str, list[Family]] = {}
    for family in families:
        by_name.setdefault(family.name, []).append(family)
    for name, same in by_name.items():
        yield f"# HELP {name} {same[0].help}"
        yield f"# TYPE {name} {same[0].kind}"
        for family in same:
            yield from family.lines()


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
