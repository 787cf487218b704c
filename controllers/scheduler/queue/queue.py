"""Pods that wait to be scheduled.

    active          tried next: higher priority first, then earlier entry into the queue
    backing off     retried after a backoff. Rejected pods are retried earlier if no pod is active, failed ones are not
    unschedulable   rejected; retried after an event that concerns a rejecting plugin, or after five minutes
    gated           rejected by a plugin's PreEnqueue; checked again after an event that concerns this plugin

Events during an attempt are kept and checked when the pod is requeued, so none is lost. Backoff is 1 s, doubling to 10
s, counted in whole seconds. Facts: Kubernetes 1.36, pkg/scheduler/backend/queue.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from apiserver.api.objects import Json
from apiserver.runtime import clock
from apiserver.runtime.metrics import Counter, Histogram, Labels
from controllers.scheduler.framework.events import Event, Hints, label_of, pod_events
from controllers.scheduler.queue.hints import HintCalls
from controllers.scheduler.queue.queued_pod import QueuedPod, SubQueue
from controllers.scheduler.state.pod_info import PodInfo

_FIRST_BACKOFF, _LAST_BACKOFF = timedelta(seconds=1), timedelta(seconds=10)
_SECOND = timedelta(seconds=1)
#: Upstream's labels, in metrics, of moves between queues without an event.
_NEW, _FAILED, _EARLY = "UnschedulablePodAdd", "ScheduleAttemptFailure", "PopFromBackoffQ"
_POPPED = "PodPopped"
_BACKOFF_OVER, _TOO_LONG = "BackoffComplete", "UnschedulableTimeout"
_UNSCHEDULABLE_CHECK, _UNSCHEDULABLE_LIMIT = timedelta(seconds=30), timedelta(minutes=5)


PreEnqueue = Callable[[PodInfo], str | None]
"""Return the plugin that gates a pod, or None."""
_Heap = list[tuple[Any, int, QueuedPod]]


class SchedulingQueue:
    """All pods without a node that this scheduler is responsible for."""

    def __init__(
        self,
        pre_enqueue: PreEnqueue,
        hints: Mapping[str, Hints],
        *,
        pop_from_backoff: bool = True,
        backoff: tuple[timedelta, timedelta] = (_FIRST_BACKOFF, _LAST_BACKOFF),
    ) -> None:
        self._pre_enqueue, self._hints, self._calls = pre_enqueue, hints, HintCalls(hints)
        self._pop_from_backoff = pop_from_backoff
        self._first_backoff, self._last_backoff = backoff
        self._pods: dict[str, QueuedPod] = {}
        self._active: _Heap = []
        self._backoff: _Heap = []
        self._errors: _Heap = []
        self._waiting: dict[str, dict[str, QueuedPod]] = {}
        """Unschedulable and gated pods by the plugins that they wait for."""
        self.incoming = Counter(
            "scheduler_queue_incoming_pods_total",
            "[STABLE] Pods added to a queue, by queue and event.",
            ("queue", "event"),
        )
        self._tickets = 0
        self._events: list[Event] = []
        self._first_event = 0
        self._in_flight: dict[str, int] = {}
        self._wakeup: asyncio.Future[None] | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._flush_expiry = datetime.max
        """The expiry for which the timer is set."""
        self._check_timer: asyncio.TimerHandle | None = None

    # Queries and updates

    def get(self, uid: str) -> QueuedPod | None:
        return self._pods.get(uid)

    @property
    def idle(self) -> bool:
        """Return whether no pod can be tried now and none is being tried."""
        return not self._in_flight and self._top() is None

    @property
    def pods(self) -> dict[str, QueuedPod]:
        """Return a copy of all pods by uid."""
        return dict(self._pods)

    @property
    def hint_durations(self) -> Histogram:
        """Return the durations of hints."""
        return self._calls.durations

    def count_in_flight(self) -> Mapping[Labels, float]:
        """Return the number of remembered events by label, and of pods in flight under upstream's label for them."""
        return {**Tally((label_of(event),) for event in self._events), (_POPPED,): len(self._in_flight)}

    @property
    def due(self) -> float | None:
        """Return the loop time at which the first backoff ends; None without one."""
        return None if self._flush_timer is None else self._flush_timer.when()

    @property
    def listening(self) -> bool:
        """Return whether an event could concern any pod at all."""
        return bool(self._in_flight) or any(self._waiting.values())

    def pop_by_uid(self, uid: str) -> QueuedPod | None:
        """Pop a given pod out of order; return None if it is missing, in flight or gated."""
        pod = self._pods.get(uid)
        if pod is None or pod.sub_queue is SubQueue.IN_FLIGHT:
            return None
        if pod.sub_queue is not SubQueue.ACTIVE and self._pre_enqueue(pod.info) is not None:
            return None
        self._leave(pod)
        self._start_attempt(pod)
        return pod

    async def pop(self) -> QueuedPod:
        """Pop the next pod. It is in flight until `done` or `put_back`."""
        while (heap := self._top()) is None:
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
        _, _, pod = heapq.heappop(heap)
        if heap is self._backoff:
            self.incoming.inc("active", _EARLY)
        self._start_attempt(pod)
        self._trim()
        return pod

    def _start_attempt(self, pod: QueuedPod) -> None:
        pod.sub_queue, pod.ticket = SubQueue.IN_FLIGHT, 0
        pod.attempts += 1
        pod.begun = clock.stopwatch()()
        self._in_flight[pod.info.uid] = self._first_event + len(self._events)

    def add(self, info: PodInfo) -> None:
        """Add a new pod."""
        if info.uid not in self._pods:
            pod = self._pods[info.uid] = QueuedPod(info, clock.now())
            self._enqueue(pod, _NEW)

    def update(self, old: Json, info: PodInfo) -> None:
        """Update a pod that is not bound."""
        pod = self._pods.get(info.uid)
        if pod is None:
            self.add(info)
            return
        if pod.sub_queue is SubQueue.IN_FLIGHT:
            for kind in pod_events(old, info.pod):
                self._remember(Event(kind, old, info.pod, frozenset((info.uid,))))
            return
        pod.info = info
        if pod.sub_queue in (SubQueue.UNSCHEDULABLE, SubQueue.GATED):
            for kind in pod_events(old, info.pod):
                self._move(Event(kind, old, info.pod), (pod,))

    def delete(self, uid: str) -> None:
        """Remove a pod that is deleted, bound or finished."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._leave(pod)

    def done(self, uid: str) -> None:
        """End the attempt for a pod that is being bound."""
        self._in_flight.pop(uid, None)
        # Only events since the start of the oldest attempt are needed.
        needed = min(self._in_flight.values(), default=self._first_event + len(self._events))
        del self._events[: needed - self._first_event]
        self._first_event = needed

    def put_back(self, pod: QueuedPod, plugins: Iterable[str], *, backoff: bool = False) -> None:
        """Requeue a pod after a failed attempt.

        Args:
            pod: The pod, which must be in flight.
            plugins: The plugins that rejected it; none after an error.
            backoff: Retry after the backoff and not before, whatever happens.
        """
        uid = pod.info.uid
        missed = self._events[max(0, self._in_flight.get(uid, self._first_event) - self._first_event) :]
        known = uid in self._in_flight
        self.done(uid)
        if self._pods.get(uid) is not pod:
            return
        pod.plugins = frozenset(plugins)
        pod.timestamp, pod.flushed = clock.now(), False
        if not pod.plugins:
            pod.errors += 1
            self._back_off(pod, SubQueue.ERROR_BACKOFF, _FAILED)
            return
        pod.rejections += 1
        pod.errors = 0
        if backoff:
            self._back_off(pod, SubQueue.ERROR_BACKOFF, _FAILED)
        elif known and any(self._calls.concern(event, pod) for event in missed):
            self._requeue(pod, _FAILED)
        else:
            self.incoming.inc("unschedulable", _FAILED)
            self._wait(pod, SubQueue.UNSCHEDULABLE)

    def notify(self, event: Event) -> None:
        """Move the pods that an event of the cluster may make schedulable."""
        self._remember(event)
        if event.only is not None:
            pods = [pod for uid in event.only if (pod := self._pods.get(uid)) is not None]
            self._move(event, [pod for pod in pods if pod.sub_queue in (SubQueue.UNSCHEDULABLE, SubQueue.GATED)])
            return
        for plugin, hints in self._hints.items():
            if event.kind in hints and (waiting := self._waiting.get(plugin)):
                self._move(event, list(waiting.values()))

    # Moves between queues

    def _move(self, event: Event, pods: Iterable[QueuedPod]) -> None:
        for pod in pods:
            if pod.sub_queue in (SubQueue.UNSCHEDULABLE, SubQueue.GATED) and self._calls.concern(event, pod):
                gated = pod.sub_queue is SubQueue.GATED
                self._leave(pod)
                if gated:
                    self._enqueue(pod, label_of(event))
                else:
                    self._requeue(pod, label_of(event))

    def _remember(self, event: Event) -> None:
        if self._in_flight:
            self._events.append(event)

    def _enqueue(self, pod: QueuedPod, reason: str) -> None:
        """Move the pod to the active queue, if PreEnqueue admits it."""
        plugin = self._pre_enqueue(pod.info)
        if plugin is None:
            self._activate(pod, reason)
            return
        if not (pod.plugins and pod.sub_queue in (SubQueue.UNSCHEDULABLE, SubQueue.GATED)):
            self.incoming.inc("unschedulable", reason)
        pod.plugins = frozenset((plugin,))
        self._wait(pod, SubQueue.GATED)

    def _activate(self, pod: QueuedPod, reason: str) -> None:
        pod.sub_queue = SubQueue.ACTIVE
        if pod.entered is None:
            pod.entered = clock.now()
        self.incoming.inc("active", reason)
        self._push(self._active, pod, (-pod.info.priority, pod.timestamp))
        self._wake()

    def _requeue(self, pod: QueuedPod, reason: str) -> None:
        """Move a rejected pod to the backoff or active queue."""
        # The backoff queue may be popped early, so its pods must pass PreEnqueue beforehand.
        if self._backing_off(pod) and (not self._pop_from_backoff or self._pre_enqueue(pod.info) is None):
            self._back_off(pod, SubQueue.BACKOFF, reason)
        else:
            self._enqueue(pod, reason)

    def _back_off(self, pod: QueuedPod, sub_queue: SubQueue, reason: str) -> None:
        pod.sub_queue = sub_queue
        self.incoming.inc("backoff", reason)
        heap = self._backoff if sub_queue is SubQueue.BACKOFF else self._errors
        expiry = self._expiry(pod)
        self._push(heap, pod, (expiry, -pod.info.priority, pod.timestamp))
        self._flush_after(expiry)
        self._wake()

    def _wait(self, pod: QueuedPod, sub_queue: SubQueue) -> None:
        pod.sub_queue = sub_queue
        for plugin in pod.plugins:
            self._waiting.setdefault(plugin, {})[pod.info.uid] = pod
        if sub_queue is SubQueue.UNSCHEDULABLE and self._check_timer is None:
            self._check_timer = self._call_later(_UNSCHEDULABLE_CHECK, self._check)

    def _leave(self, pod: QueuedPod) -> None:
        """Remove the pod from its current queue."""
        pod.ticket = 0
        if pod.sub_queue in (SubQueue.UNSCHEDULABLE, SubQueue.GATED):
            for plugin in pod.plugins:
                waiting = self._waiting.get(plugin)
                if waiting is not None:
                    waiting.pop(pod.info.uid, None)
        elif pod.sub_queue in (SubQueue.BACKOFF, SubQueue.ERROR_BACKOFF):
            self._trim()

    def _trim(self) -> None:
        """Pop outdated entries of the backoff heaps; cancel the timer if both are empty."""
        for heap in (self._backoff, self._errors):
            while heap and heap[0][2].ticket != heap[0][1]:
                heapq.heappop(heap)
        if not self._backoff and not self._errors and self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    def _push(self, heap: _Heap, pod: QueuedPod, order: Any) -> None:
        self._tickets += 1
        pod.ticket = self._tickets
        heapq.heappush(heap, (order, pod.ticket, pod))

    def _top(self) -> _Heap | None:
        """Return the heap with the next pod."""
        for heap in (self._active, self._backoff) if self._pop_from_backoff else (self._active,):
            while heap and heap[0][2].ticket != heap[0][1]:
                heapq.heappop(heap)
            if heap:
                return heap
        return None

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    # Time

    @staticmethod
    def _call_later(delay: timedelta, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay.total_seconds(), callback)

    def _expiry(self, pod: QueuedPod) -> datetime:
        tries = pod.errors or pod.rejections
        if not tries:
            return pod.timestamp
        delay = min(self._first_backoff * 2 ** min(tries - 1, 20), self._last_backoff)
        expiry: datetime = pod.timestamp + delay
        return expiry.replace(microsecond=0)

    def _backing_off(self, pod: QueuedPod) -> bool:
        if not (pod.errors or pod.rejections):
            return False
        return self._expiry(pod) >= clock.now().replace(microsecond=0)

    def _flush_after(self, expiry: datetime) -> None:
        """Set the timer to the second after the expiry, unless it is set earlier."""
        if self._flush_timer is None or expiry < self._flush_expiry:
            if self._flush_timer is not None:
                self._flush_timer.cancel()
            self._flush_expiry = expiry
            self._flush_timer = self._call_later(max(expiry + _SECOND - clock.now(), timedelta()), self._flush)

    def _flush(self) -> None:
        """Activate the pods with an ended backoff, at whole seconds."""
        self._flush_timer = None
        for heap in (self._backoff, self._errors):
            while heap:
                _, ticket, pod = heap[0]
                if pod.ticket == ticket and self._backing_off(pod):
                    break
                heapq.heappop(heap)
                if pod.ticket == ticket:
                    self._end_backoff(pod)
        for heap in (self._backoff, self._errors):
            if heap:
                self._flush_after(heap[0][0][0])

    def _end_backoff(self, pod: QueuedPod) -> None:
        if self._pop_from_backoff:
            self._activate(pod, _BACKOFF_OVER)
        else:
            self._enqueue(pod, _BACKOFF_OVER)

    @clock.purpose(clock.Timer.UPKEEP)
    def _check(self) -> None:
        """Requeue pods that were unschedulable for too long, every 30 seconds."""
        self._check_timer = None
        now = clock.now()
        left = False
        for pod in list(self._pods.values()):
            if pod.sub_queue is SubQueue.UNSCHEDULABLE:
                if now - pod.timestamp > _UNSCHEDULABLE_LIMIT:
                    self._leave(pod)
                    pod.flushed = True
                    self._requeue(pod, _TOO_LONG)
                else:
                    left = True
        if left:
            self._check_timer = self._call_later(_UNSCHEDULABLE_CHECK, self._check)
