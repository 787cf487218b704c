"""Calls of queueing hints, with their durations."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from apiserver.runtime.clock import stopwatch
from apiserver.runtime.metrics import Histogram, exponential
from controllers.scheduler.framework.events import Event, Hints, label_of
from controllers.scheduler.queue.queued_pod import QueuedPod

log = logging.getLogger(__name__)
_QUEUE, _SKIP, _ERROR = "Queue", "QueueSkip", "Error"
DURATIONS: Final = exponential(0.00001, 1.5, 20)


class HintCalls:
    """The hints of all plugins, by name."""

    def __init__(self, hints: Mapping[str, Hints]) -> None:
        self._hints = hints
        self.durations = Histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "[ALPHA] Duration of a plugin's decision whether an event may make a pod schedulable.",
            ("plugin", "event", "hint"),
            DURATIONS,
        )

    def concern(self, event: Event, pod: QueuedPod) -> bool:
        """Return whether the event may make the pod schedulable for a plugin that it waits for."""
        if event.only is not None and pod.info.uid not in event.only:
            return False
        return any(self._concerns(plugin, event, pod) for plugin in pod.plugins)

    def _concerns(self, plugin: str, event: Event, pod: QueuedPod) -> bool:
        hints = self._hints.get(plugin)
        if hints is None or event.kind not in hints:
            return False
        hint, elapsed = hints[event.kind], stopwatch()
        begun = elapsed()
        try:
            result = _QUEUE if hint is None or hint(pod.info, event) else _SKIP
        except Exception:
            # The pod is woken, so that no defect keeps it waiting.
            log.exception("hint for event %s failed for pod %s", event.kind.name, pod.info.key)
            result = _ERROR
        self.durations.observe(elapsed() - begun, plugin, label_of(event), result)
        return result != _SKIP
