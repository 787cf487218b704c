"""What the server counts for /metrics, with upstream's names. Counting a request costs two dict look-ups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from apiserver.api.metrics import Counter, Family, Gauge, Histogram, text
from apiserver.http.handlers.requestinfo import Target

_BUCKETS: Final = (
    0.005,
    0.025,
    0.05,
    0.1,
    0.2,
    0.4,
    0.6,
    0.8,
    1.0,
    1.25,
    1.5,
    2.0,
    3.0,
    4.0,
    5.0,
    6.0,
    8.0,
    10.0,
    15.0,
    20.0,
    30.0,
    45.0,
    60.0,
)
_REQUEST: Final = ("group", "resource", "subresource", "verb", "version")
_STAGES: Final = {"GA": "", "Beta": "BETA", "Alpha": "ALPHA"}


class Metrics:
    """What one server counts. `watches` is how many are open."""

    def __init__(
        self, objects: Callable[[], Mapping[str, int]], stages: Callable[[], Mapping[str, tuple[str, bool]]]
    ) -> None:
        """`objects` counts stored objects by resource, `stages` gives the feature gates' stage and setting."""
        started = time.time()
        self.watches = 0
        self._requests = Counter(
            "apiserver_request_total", "Requests by verb, resource and status.", ("code", *_REQUEST)
        )
        self._durations = Histogram("apiserver_request_duration_seconds", "Time to answer.", _REQUEST, _BUCKETS)
        self._families: list[Family] = [
            self._requests,
            self._durations,
            Gauge("apiserver_longrunning_requests", "Open watches.", ("verb",), lambda: {("WATCH",): self.watches}),
            Gauge(
                "apiserver_storage_objects",
                "Stored objects.",
                ("resource",),
                lambda: {(name,): n for name, n in sorted(objects().items())},
            ),
            Gauge(
                "kubernetes_feature_enabled",
                "Feature gates.",
                ("name", "stage"),
                lambda: {(name, _STAGES[stage]): int(on) for name, (stage, on) in sorted(stages().items())},
            ),
            Gauge("process_start_time_seconds", "Start of the process.", (), lambda: {(): started}),
        ]
        self._others: list[Callable[[], Iterable[Family]]] = []

    def include(self, families: Callable[[], Iterable[Family]]) -> None:
        """Shows these as well: components that run in the server's process."""
        self._others.append(families)

    def count(self, method: str, target: Target | None, status: int, seconds: float) -> None:
        """One answered request; a watch counts when it opens."""
        labels = (
            (target.group, target.resource, target.subresource, target.verb.upper(), target.version)
            if target
            else ("", "", "", method, "")
        )
        self._requests.inc(str(status), *labels)
        self._durations.observe(seconds, *labels)

    def text(self) -> str:
        """The Prometheus text."""
        return text([*self._families, *(family for families in self._others for family in families())])
