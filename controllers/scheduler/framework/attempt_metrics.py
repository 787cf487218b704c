"""Durations of scheduling attempts by extension point, and other counts, with upstream's names.

Facts: pkg/scheduler/metrics of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

from apiserver.runtime.clock import stopwatch
from apiserver.runtime.metrics import Count, Counter, Distribution, Family, Histogram, exponential
from controllers.scheduler.framework.framework import SKIP, Plugin, PostFilterResult
from controllers.scheduler.framework.reuse_metrics import NO_HINT, ReuseMetrics
from controllers.scheduler.framework.status import FitError, Rejection

SUCCESS: Final = "Success"
REFUSED: Final = "Unschedulable"
_ERROR: Final = "Error"
#: The timed functions of a plugin, by upstream's names of their points. Asynchronous ones are separate.
_TIMED: Final = {
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "pre_score": "PreScore",
    "score": "Score",
    "scores": "Score",
    "normalize": "ScoreExtensionNormalize",
    "reserve": "Reserve",
}
#: The counted functions of a plugin, by upstream's names of their points.
_COUNTED: Final = {name: point for name, point in _TIMED.items() if name not in ("reserve", "normalize")}
_TIMED_WRITES: Final = {"post_filter": "PostFilter", "unreserve": "Unreserve", "pre_bind": "PreBind"}


class AttemptMetrics:
    """The metrics of the parts of one scheduler."""

    def __init__(self) -> None:
        self.points = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "[STABLE] Duration of all plugins at an extension point of an attempt.",
            ("extension_point", "status", "profile"),
            exponential(0.0001, 2, 12),
        )
        self.plugins = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "[ALPHA] Duration of a plugin at an extension point, in one of ten attempts.",
            ("plugin", "extension_point", "status"),
            exponential(0.00001, 1.5, 20),
        )
        self.evaluations = Counter(
            "scheduler_plugin_evaluation_total",
            "[BETA] Calls of a plugin at PreFilter, Filter, PreScore and Score. A reused result is no call.",
            ("plugin", "extension_point", "profile"),
        )
        self.preemptions = Counter("scheduler_preemption_attempts_total", "[STABLE] Preemption attempts.")
        self.victims = Histogram(
            "scheduler_preemption_victims", "[STABLE] Victims per preemption.", (), exponential(1, 2, 7)
        )
        self.evictions = Counter(
            "scheduler_preemption_goroutines_execution_total",
            "[ALPHA] Evictions of all victims of a preemption.",
            ("result",),
        )
        self.eviction_durations = Histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "[ALPHA] Duration of evicting all victims of a preemption.",
            ("result",),
            exponential(0.01, 2, 20),
        )
        self.claims = Counter(
            "scheduler_resourceclaim_creates_total", "[ALPHA] Claims created for extended resources.", ("status",)
        )
        binding = ("profile", "driver", "status")
        self.bindings = Counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "[ALPHA] Attempts with devices that have binding conditions.",
            binding,
        )
        self.binding_durations = Histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "[ALPHA] Time until the binding conditions of devices were met, or the attempt ended.",
            binding,
            exponential(0.1, 2, 14),
        )
        self.reuse = ReuseMetrics()

    @property
    def families(self) -> tuple[Family, ...]:
        """Return the families that are shown with every set of gates."""
        return (
            self.points, self.plugins, self.evaluations, self.preemptions, self.victims, self.evictions,
            self.eviction_durations, *self.reuse.families,
        )  # fmt: skip

    def with_counts(self, plugin: Plugin, profile: str, points: Container[str]) -> Plugin:
        """Return the same plugin with counted functions, except at points that upstream's plugin does not have."""
        changes: dict[str, Any] = {}
        for name, point in _COUNTED.items():
            if (function := getattr(plugin, name)) is not None and point in points:
                changes[name] = _COUNTERS[name](function, self.evaluations.sample(plugin.name, point, profile))
        return replace(plugin, **changes)

    def with_timers(self, plugin: Plugin) -> Plugin:
        """Return the same plugin with timed functions."""
        changes: dict[str, Any] = {}
        for name, point in _TIMED.items():
            if (function := getattr(plugin, name)) is not None:
                changes[name] = self._time_function(function, plugin.name, point)
        for name, point in _TIMED_WRITES.items():
            if (function := getattr(plugin, name)) is not None:
                changes[name] = self._time_coroutine(function, plugin.name, point)
        return replace(plugin, **changes)

    def _time_function(self, function: Callable[..., Any], plugin: str, point: str) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            elapsed, status = stopwatch(), _ERROR
            begun = elapsed()
            try:
                result = function(*arguments)
                status = _status(result)
                return result
            finally:
                self.plugins.observe(elapsed() - begun, plugin, point, status)

        return timed

    def _time_coroutine(
        self, function: Callable[..., Awaitable[Any]], plugin: str, point: str
    ) -> Callable[..., Awaitable[Any]]:
        async def timed(*arguments: Any) -> Any:
            elapsed, status = stopwatch(), _ERROR
            begun = elapsed()
            try:
                result = await function(*arguments)
                status = _status(result)
                return result
            finally:
                self.plugins.observe(elapsed() - begun, plugin, point, status)

        return timed


def _count_calls(function: Callable[..., Any], count: Count) -> Callable[..., Any]:
    def counted(*arguments: Any) -> Any:
        count.value += 1
        return function(*arguments)

    return counted


def _count_results(function: Callable[..., Any], count: Count) -> Callable[..., Any]:
    """Count calls with another result than SKIP."""

    def counted(*arguments: Any) -> Any:
        result = function(*arguments)
        count.value += result is not SKIP
        return result

    return counted


def _count_nodes(function: Callable[..., Any], count: Count) -> Callable[..., Any]:
    """Count the nodes that are scored together."""

    def counted(pod: Any, state: Any, nodes: Sequence[Any]) -> Any:
        count.value += len(nodes)
        return function(pod, state, nodes)

    return counted


_COUNTERS: Final = {
    "pre_filter": _count_results,
    "filter": _count_calls,
    "pre_score": _count_results,
    "score": _count_calls,
    "scores": _count_nodes,
}


def _status(result: Any) -> str:
    """Return upstream's label for a plugin's result."""
    if isinstance(result, Rejection):
        return result.code.value
    if result is SKIP:
        return "Skip"
    return REFUSED if isinstance(result, PostFilterResult) and not result.nominated else SUCCESS


class Points:
    """Timers for the points of a profile's attempts: `with points.at("Filter"): …`.

    A pod passes some eight points, so each timer may cost only a microsecond: the distributions of successes are cached
    by name.
    """

    def __init__(self, attempt_metrics: AttemptMetrics | None = None, profile: str = "") -> None:
        attempt_metrics = attempt_metrics or AttemptMetrics()
        self._durations, self._reuse, self._profile = attempt_metrics.points, attempt_metrics.reuse, profile
        self._successes: dict[str, Distribution] = {}

    def at(self, name: str) -> Point:
        return Point(self, name, self._successes.get(name))

    def observe_lookup(self, seconds: float, found: bool) -> None:
        """Observe the duration of finding the known results for a pod."""
        self._reuse.lookups.observe(seconds, "hint" if found else NO_HINT, self._profile)

    def count_reuse(self, result: str) -> None:
        """Count an attempt by whether the chosen node had a known result."""
        self._reuse.attempts.inc(self._profile, result)

    def count_flush(self, reason: str) -> None:
        """Count results that were dropped or could not be kept."""
        self._reuse.flushes.inc(self._profile, reason)

    def sample(self, name: str, status: str) -> Distribution:
        """Return the distribution for the durations of a point; cache that of successes."""
        distribution = self._durations.sample(name, status, self._profile)
        if status == SUCCESS:
            self._successes[name] = distribution
        return distribution


class Point:
    """The timer of one block. The block's status is success unless it raises or sets another `status`."""

    __slots__ = ("_begun", "_elapsed", "_name", "_points", "_success", "status")

    def __init__(self, points: Points, name: str, success: Distribution | None) -> None:
        self._points, self._name, self._success, self.status = points, name, success, SUCCESS

    def __enter__(self) -> Self:
        self._elapsed = elapsed = stopwatch()
        self._begun = elapsed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        took = self._elapsed() - self._begun
        if kind is None and self._success is not None and self.status is SUCCESS:
            self._success.observe(took)
            return
        if kind is not None:
            self.status = REFUSED if issubclass(kind, FitError) else _ERROR
        self._points.sample(self._name, self.status).observe(took)
