"""Filters of metrics and of label values.

A metric can be disabled; label values that are not allowed can be shown as one, `unexpected`. Filters apply when
metrics are rendered: counting a request costs the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from apiserver.runtime.metrics import Allowed, Counter, Family, Gauge, Histogram

__all__ = ["MetricFilter", "MetricSettings"]


@dataclass(frozen=True, slots=True)
class MetricSettings:
    """`disabled`: hidden metrics; `allowed`: the shown values of labels, by metric."""

    disabled: frozenset[str] = frozenset()
    allowed: Mapping[str, Allowed] = field(default_factory=dict)


class MetricFilter:
    """A filter of families that counts the hidden ones."""

    def __init__(self, settings: MetricSettings) -> None:
        self._settings = settings

    def __call__(self, families: Iterable[Family]) -> Iterator[Family]:
        """Yield the filtered families, and the counters of the filter."""
        disabled, allowed, others = self._settings.disabled, self._settings.allowed, 0
        for family in families:
            if family.name in disabled:
                continue
            labels = allowed.get(family.name)
            if labels is not None and isinstance(family, Counter | Gauge | Histogram):
                limited, more = family.limit_labels(labels)
                others += more
                yield limited
            else:
                yield family
        yield _count("disabled_metrics_total", "Disabled metrics.", len(disabled))
        yield _count("hidden_metrics_total", "Hidden deprecated metrics.", 0)
        yield _count(
            "cardinality_enforcement_unexpected_categorizations_total", "Label values replaced by `unexpected`.", others
        )


def _count(name: str, text: str, value: int) -> Family:
    counter = Counter(name, text)
    counter.sample().value = value
    return counter
