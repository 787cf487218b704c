"""The server's metrics for /metrics, with upstream's names. Counting a request costs one dict look-up."""

from __future__ import annotations

import collections
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apiserver.http.sinks.metric_filters import MetricFilter, MetricSettings
from apiserver.http.sinks.process_metrics import process_families
from apiserver.http.sinks.request_labels import (
    APPLY,
    LONG_RUNNING,
    REQUEST,
    SYSTEM,
    dry_run_of,
    get_long_running_labels,
    system_client,
    verb_of,
)
from apiserver.request.info import RequestInfo
from apiserver.runtime.metrics import Count, Counter, Distribution, Family, Gauge, Histogram, Labels, lines_of
from apiserver.runtime.offload import iterate_in_slices

if TYPE_CHECKING:
    from apiserver.request.messages import Request

_BUCKETS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
)  # fmt: skip
#: Number of lines that are joined without a break.
_AT_ONCE: Final = 100
_STAGES: Final = {"GA": "", "Beta": "BETA", "Alpha": "ALPHA", "Deprecated": "DEPRECATED"}


class ServedResource(NamedTuple):
    """A served resource: whether its version is deprecated, and the release without it ("1.38")."""

    deprecated: bool = False
    removed: str = ""


class Metrics:
    """The metrics of one server."""

    def __init__(
        self,
        objects: Callable[[], Mapping[str, int]],
        stages: Callable[[], Mapping[str, tuple[str, bool]]],
        watches: Callable[[], Iterable[Request]],
        serves: Callable[[RequestInfo], ServedResource | None],
        version: Mapping[str, str],
        stored: Callable[[], int | None],
        others: Callable[[], Awaitable[Iterable[Family]]],
        settings: MetricSettings | None = None,
    ) -> None:
        """Create the metrics.

        `objects` counts stored objects by resource (`jobs.batch`), `stages` returns stage and setting of feature gates,
        `watches` the requests of open watches, `serves` the resource of a request. `version` is the server's, `stored`
        the database's size in bytes, None if unknown. `others` returns the families of the other parts and components.
        `settings` has the filters.
        """
        self._filter = MetricFilter(settings or MetricSettings())
        self._serves, self._watches = serves, watches
        self._requests = Counter(
            "apiserver_request_total", "Requests by response code.", (*REQUEST, "code", "system_client")
        )
        self._durations = Histogram("apiserver_request_duration_seconds", "Response latency.", REQUEST, _BUCKETS)
        self._samples: dict[tuple[Any, ...], tuple[Count, Distribution]] = {}
        self._deprecated: set[tuple[str, ...]] = set()
        self._families: list[Family] = [
            self._requests,
            self._durations,
            Gauge("apiserver_longrunning_requests", "Open watches and logs.", LONG_RUNNING, self._open),
            Gauge(
                "apiserver_requested_deprecated_apis", "Requested deprecated API versions.",
                ("group", "version", "resource", "subresource", "removed_release"),
                lambda: dict.fromkeys(sorted(self._deprecated), 1),
            ),
            Gauge(
                "apiserver_storage_objects", "Stored objects.", ("resource",),
                lambda: {(name,): n for name, n in sorted(objects().items())},
            ),
            Gauge(
                "apiserver_resource_objects", "Stored objects.", ("group", "resource"),
                lambda: {name.partition(".")[::-2]: n for name, n in sorted(objects().items())},
            ),
            Gauge(
                "apiserver_storage_size_bytes", "Size of the database.", ("storage_cluster_id",),
                lambda: {} if (size := stored()) is None else {("etcd-0",): size},
            ),
            Gauge(
                "kubernetes_feature_enabled", "Feature gates.", ("name", "stage"),
                lambda: {(name, _STAGES[stage]): int(on) for name, (stage, on) in sorted(stages().items())},
            ),
            _build_info_gauge("kubernetes_build_info", "Build information.", {
                "major": version["major"], "minor": version["minor"], "git_version": version["gitVersion"],
                "git_commit": version["gitCommit"], "git_tree_state": version["gitTreeState"],
                "build_date": version["buildDate"], "go_version": version["goVersion"],
                "compiler": version["compiler"], "platform": version["platform"],
            }),
            _build_info_gauge("version_info", "Binary, emulated and minimum compatible version.", {
                "component": "kube", "binary": version["gitVersion"].removeprefix("v"),
                "emulation": f"{version['emulationMajor']}.{version['emulationMinor']}",
                "min_compat": f"{version['minCompatibilityMajor']}.{version['minCompatibilityMinor']}",
            }),
            *process_families(time.time()),
        ]  # fmt: skip
        self._others = others

    def count(self, request: Request, code: int, seconds: float) -> None:
        """Count one answered request."""
        info, headers = request.info, request.headers
        agent = headers.get("user-agent", "")
        # The key uses the values at hand: labels are built of it once.
        key = (
            code, info.group, info.resource, info.subresource, info.verb, info.version, bool(info.name),
            bool(info.namespace), system_client(agent) if agent.startswith(SYSTEM) else "",
            dry_run_of(request) if request.query else "",
            info.verb == "patch" and headers.get("content-type") == APPLY,
        )  # fmt: skip
        samples = self._samples.get(key)
        if samples is None:
            samples = self._new_samples(info, key)
        count, durations = samples
        count.value += 1
        durations.counts[bisect_left(_BUCKETS, seconds)] += 1  # inlined `observe`, to save a call per request
        durations.sum += seconds

    def _new_samples(self, info: RequestInfo, key: tuple[Any, ...]) -> tuple[Count, Distribution]:
        """Create the samples of a new kind of request. Requests for unknown resources share samples."""
        code, system, dry_run, applied = key[0], *key[-3:]
        found = self._serves(info)
        verb = verb_of(info, applies=applied)
        labels = (*get_long_running_labels(info, verb, known=found is not None), dry_run)
        samples = self._requests.sample(*labels, str(code), system), self._durations.sample(*labels)
        if found is not None and (verb != "other" or info.resource):
            self._samples[key] = samples
            if found.deprecated:
                self._deprecated.add((info.group, info.version, info.resource, info.subresource, found.removed))
        return samples

    def _open(self) -> Mapping[Labels, float]:
        """Count the long-running requests by their labels."""
        return collections.Counter(
            get_long_running_labels(request.info, verb_of(request.info), known=True) for request in self._watches()
        )

    async def text(self) -> bytes:
        """Render the Prometheus text, with breaks for other requests: it may be megabytes."""
        families = [*self._families, *await self._others()]
        lines = lines_of(self._filter(families))
        parts = iter(lambda: "\n".join(islice(lines, _AT_ONCE)), "")
        return b"".join([f"{part}\n".encode() async for part in iterate_in_slices(parts)])


def _build_info_gauge(name: str, text: str, labels: Mapping[str, str]) -> Family:
    """Return an info gauge, whose values are its labels."""
    return Gauge(name, text, tuple(labels), lambda: {tuple(labels.values()): 1})
