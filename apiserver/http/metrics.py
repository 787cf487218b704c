"""Counters for /metrics, with upstream's names. Counting costs one dict look-up a request."""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import Final

from apiserver.http.paths import Target

_BUCKETS: Final = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0)
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_Key = tuple[str, str, str, str, str]


class _Histogram:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0


class Metrics:
    """What one server counts. `watches` is how many are open."""

    def __init__(self) -> None:
        self._requests: dict[tuple[_Key, int], int] = {}
        self._durations: dict[_Key, _Histogram] = {}
        self._started = time.time()
        self.watches = 0

    def count(self, method: str, target: Target | None, status: int, seconds: float) -> None:
        """One answered request; a watch counts when it opens."""
        if target is None:
            key: _Key = (method, "", "", "", "")
        else:
            key = (target.verb.upper(), target.group, target.version, target.resource, target.subresource)
        pair = (key, status)
        self._requests[pair] = self._requests.get(pair, 0) + 1
        histogram = self._durations.get(key)
        if histogram is None:
            histogram = self._durations[key] = _Histogram()
        histogram.counts[bisect_left(_BUCKETS, seconds)] += 1
        histogram.total += seconds

    def text(self, objects: dict[str, int], stages: dict[str, tuple[str, bool]]) -> str:
        """The Prometheus text. `objects` counts stored objects by resource, `stages` are the feature gates'."""
        lines = ["# HELP apiserver_request_total Requests by verb, resource and status.", "# TYPE apiserver_request_total counter"]
        for (key, status), number in self._requests.items():
            lines.append(f'apiserver_request_total{{code="{status}",{_labels(key)}}} {number}')
        lines += ["# HELP apiserver_request_duration_seconds Time to answer.", "# TYPE apiserver_request_duration_seconds histogram"]
        for key, histogram in self._durations.items():
            lines += _histogram("apiserver_request_duration_seconds", _labels(key), histogram)
        lines += ["# HELP apiserver_longrunning_requests Open watches.", "# TYPE apiserver_longrunning_requests gauge"]
        lines.append(f'apiserver_longrunning_requests{{verb="WATCH"}} {self.watches}')
        lines += ["# HELP apiserver_storage_objects Stored objects.", "# TYPE apiserver_storage_objects gauge"]
        lines += [f'apiserver_storage_objects{{resource="{name}"}} {number}' for name, number in sorted(objects.items())]
        lines += ["# HELP kubernetes_feature_enabled Feature gates.", "# TYPE kubernetes_feature_enabled gauge"]
        shown = {"GA": "", "Beta": "BETA", "Alpha": "ALPHA"}
        lines += [f'kubernetes_feature_enabled{{name="{name}",stage="{shown[stage]}"}} {int(on)}' for name, (stage, on) in sorted(stages.items())]
        lines += ["# HELP process_start_time_seconds Start of the process.", "# TYPE process_start_time_seconds gauge"]
        lines.append(f"process_start_time_seconds {self._started:.2f}")
        return "\n".join(lines) + "\n"


def _labels(key: _Key) -> str:
    verb, group, version, resource, subresource = key
    return f'group="{group}",resource="{resource}",subresource="{subresource}",verb="{verb}",version="{version}"'


def _histogram(name: str, labels: str, histogram: _Histogram) -> list[str]:
    lines, running = [], 0
    for bound, number in zip((*map(str, _BUCKETS), "+Inf"), histogram.counts, strict=True):
        running += number
        lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {running}')
    return [*lines, f"{name}_sum{{{labels}}} {histogram.total:.6f}", f"{name}_count{{{labels}}} {running}"]
