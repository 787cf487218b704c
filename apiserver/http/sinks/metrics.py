"""What the server counts for /metrics, with upstream's names. Counting a request costs one dict look-up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from apiserver.api.metrics import Count, Counter, Distribution, Family, Gauge, Histogram, lines_of
from apiserver.requestinfo import RequestInfo
from apiserver.turns import in_turns

_BUCKETS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
)  # fmt: skip
_REQUEST: Final = ("group", "resource", "subresource", "verb", "version")
#: What is counted by name; any other verb or method counts as "other", as clients may make up as many as they like.
_VERBS: Final = frozenset(
    {
        "create", "update", "patch", "delete", "deletecollection", "get", "list", "watch",
        "connect", "head", "options", "post", "put", "trace",
    }
)  # fmt: skip
_STAGES: Final = {"GA": "", "Beta": "BETA", "Alpha": "ALPHA", "Deprecated": "DEPRECATED"}


class Metrics:
    """What one server counts."""

    def __init__(
        self,
        objects: Callable[[], Mapping[str, int]],
        stages: Callable[[], Mapping[str, tuple[str, bool]]],
        watches: Callable[[], int],
        serves: Callable[[RequestInfo], bool],
    ) -> None:
        """`objects` counts stored objects by resource, `stages` gives the feature gates' stage and setting, `watches`
        how many watches are open, `serves` says whether there is what a request names.
        """
        started = time.time()
        self._serves = serves
        self._requests = Counter(
            "apiserver_request_total", "Requests by verb, resource and status.", ("code", *_REQUEST)
        )
        self._durations = Histogram("apiserver_request_duration_seconds", "Time to answer.", _REQUEST, _BUCKETS)
        self._samples: dict[tuple[int, str, str, str, str, str], tuple[Count, Distribution]] = {}
        self._families: list[Family] = [
            self._requests,
            self._durations,
            Gauge("apiserver_longrunning_requests", "Open watches.", ("verb",), lambda: {("WATCH",): watches()}),
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

    def count(self, info: RequestInfo, code: int, seconds: float) -> None:
        """One answered request."""
        samples = self._samples.get((code, info.group, info.resource, info.subresource, info.verb, info.version))
        if samples is None:
            samples = self._new_samples(info, code)
        count, durations = samples
        count.value += 1
        durations.observe(seconds)

    def _new_samples(self, info: RequestInfo, code: int) -> tuple[Count, Distribution]:
        """The samples of a request that no other was like. What clients make up is counted together, so that there are
        no more samples than resources and verbs.
        """
        named = (info.group, info.resource, info.subresource)
        known = info.verb in _VERBS and self._serves(info)
        verb = info.verb.upper() if info.verb in _VERBS else "other"
        labels = (*named, verb, info.version) if known else ("", "", "", verb, "")
        samples = self._requests.sample(str(code), *labels), self._durations.sample(*labels)
        if known:
            self._samples[(code, *named, info.verb, info.version)] = samples
        return samples

    async def text(self) -> str:
        """The Prometheus text. There may be many samples: others have their turn meanwhile."""
        families = [*self._families, *(family for families in self._others for family in families())]
        return "".join([f"{line}\n" async for line in in_turns(lines_of(families))])
