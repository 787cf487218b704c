"""The scheduling queue: the order of pods, what each waits for, and that no event is missed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from apiserver.runtime.clock import now
from apiserver.runtime.virtual_loop import VirtualLoop
from controllers.scheduler.cycle.plugins import SCHEDULING_GATES
from controllers.scheduler.framework.events import ClusterEvent, Event
from controllers.scheduler.framework.framework import hints_of
from controllers.scheduler.plugins.resources import node_resources_fit
from controllers.scheduler.queue.queue import SchedulingQueue
from controllers.scheduler.queue.queued_pod import QueuedPod, SubQueue
from controllers.scheduler.state.pod_info import PodInfo
from tests.support.objects import info, make_node, make_pod
from tests.support.virtual import passes

SECOND = timedelta(seconds=1)
FIT = ("NodeResourcesFit",)
HINTS = {plugin.name: hints_of(plugin) for plugin in (SCHEDULING_GATES, node_resources_fit())}


def keep_gated_out(pod: PodInfo) -> str | None:
    return "SchedulingGates" if pod.spec.get("schedulingGates") else None


@pytest.fixture
def queue() -> SchedulingQueue:
    return SchedulingQueue(keep_gated_out, HINTS)


async def reject_next(queue: SchedulingQueue, plugins: Iterable[str]) -> QueuedPod:
    pod = await queue.pop()
    queue.put_back(pod, plugins)
    return pod


def node_event(**node: Any) -> Event:
    return Event(ClusterEvent.NODE_ADD, None, make_node("new", **node))


async def test_pods_leave_by_priority_and_then_by_age(queue: SchedulingQueue) -> None:
    for name, priority in (("first", 0), ("second", 0), ("important", 10)):
        queue.add(info(name, priority=priority))
        await passes(1)
    assert [(await queue.pop()).info.name for _ in range(3)] == ["important", "first", "second"]


async def test_a_gated_pod_enters_when_its_gates_are_removed(queue: SchedulingQueue) -> None:
    gated = make_pod("p", uid="u", schedulingGates=[{"name": "g"}])
    queue.add(PodInfo(gated))
    assert queue.idle
    queue.update(gated, PodInfo(make_pod("p", uid="u", schedulingGates=[])))
    assert (await queue.pop()).info.name == "p"


async def test_an_updated_pod_enters_once_whether_it_was_known_or_not(queue: SchedulingQueue) -> None:
    before = make_pod("p", uid="u", labels={"a": "b"})
    after = PodInfo(make_pod("p", uid="u"))
    queue.update(before, after)
    queue.add(after)
    popped = await queue.pop()
    assert popped.info is after
    queue.done("u")
    assert queue.idle


async def test_a_pod_can_be_popped_by_its_uid_unless_it_is_gated_or_in_flight(queue: SchedulingQueue) -> None:
    for name, more in (("first", {}), ("second", {}), ("gated", {"schedulingGates": [{"name": "g"}]})):
        queue.add(info(name, uid=name, **more))
    assert queue.pop_by_uid("unknown") is None
    assert queue.pop_by_uid("gated") is None
    taken = queue.pop_by_uid("second")
    assert taken is not None
    assert (taken.info.name, taken.sub_queue, taken.attempts) == ("second", SubQueue.IN_FLIGHT, 1)
    assert queue.pop_by_uid("second") is None
    queue.put_back(taken, ())
    assert queue.pop_by_uid("second") is taken
    queue.put_back(taken, FIT)
    assert queue.listening
    assert queue.pop_by_uid("second") is taken
    queue.done("second")
    assert (await queue.pop()).info.name == "first"
    assert not queue.idle
    queue.done("first")
    queue.delete("gated")
    assert queue.idle
    assert not queue.listening


async def test_a_rejected_pod_waits_for_an_event_that_its_plugin_registered(queue: SchedulingQueue) -> None:
    queue.add(info("p", requests={"cpu": "2"}))
    pod = await reject_next(queue, FIT)
    places = [pod.sub_queue]
    for event in (Event(ClusterEvent.SLICE_ADD, None, {}), node_event(cpu="1"), node_event(cpu="2")):
        await passes(5)
        queue.notify(event)
        places.append(pod.sub_queue)
    assert places == [SubQueue.UNSCHEDULABLE] * 3 + [SubQueue.ACTIVE]


async def test_an_event_during_the_attempt_is_not_missed(queue: SchedulingQueue) -> None:
    queue.add(info("p", requests={"cpu": "2"}))
    pod = await queue.pop()
    queue.notify(node_event(cpu="2"))
    queue.put_back(pod, FIT)
    assert pod.sub_queue is SubQueue.BACKOFF
    queue.add(info("q", requests={"cpu": "2"}))
    other = await reject_next(queue, FIT)
    assert other.info.name == "q"
    assert other.sub_queue is SubQueue.UNSCHEDULABLE


async def test_an_idle_queue_pops_rejected_pods_early_from_backoff_but_not_failed_ones(queue: SchedulingQueue) -> None:
    queue.add(info("failed"))
    failed = await reject_next(queue, ())
    assert failed.sub_queue is SubQueue.ERROR_BACKOFF
    queue.add(info("rejected", requests={"cpu": "2"}))
    await reject_next(queue, FIT)
    queue.notify(node_event(cpu="2"))
    assert (await queue.pop()).info.name == "rejected"
    waiting = asyncio.create_task(queue.pop())
    await passes(0.9)
    assert not waiting.done()
    await passes(1.2)
    assert waiting.done()
    assert (await waiting).info.name == "failed"


async def test_backoff_doubles_from_one_to_ten_seconds_rounded_up_to_whole_seconds(queue: SchedulingQueue) -> None:
    queue.add(info("p"))
    pod = await queue.pop()
    for nominal in (1, 2, 4, 8, 10, 10):
        queue.put_back(pod, ())
        since = now()
        pod = await queue.pop()
        assert nominal * SECOND <= now() - since <= (nominal + 1) * SECOND


async def test_a_rejection_resets_the_backoff_of_errors(queue: SchedulingQueue) -> None:
    queue.add(info("p", requests={"cpu": "2"}))
    pod = await queue.pop()
    for plugins in ((), (), FIT, ()):
        queue.put_back(pod, plugins)
        since = now()
        if plugins:
            await passes(100)
            queue.notify(node_event(cpu="2"))
        pod = await queue.pop()
    assert SECOND <= now() - since <= 2 * SECOND


async def test_an_update_of_the_pod_itself_during_its_attempt_is_not_missed(queue: SchedulingQueue) -> None:
    large, small = (make_pod("p", uid="u", requests={"cpu": cpu}) for cpu in ("4", "2"))
    other = make_pod("q", uid="other", requests={"cpu": "2"})
    queue.add(PodInfo(large))
    pod = await queue.pop()
    queue.update(large, PodInfo(small))
    queue.add(PodInfo(other))
    queue.put_back(pod, FIT)
    assert pod.sub_queue is SubQueue.BACKOFF
    rejected = await reject_next(queue, FIT)
    assert (rejected.info.name, rejected.sub_queue) == ("q", SubQueue.UNSCHEDULABLE)


async def test_the_periodic_flush_runs_only_while_pods_wait(queue: SchedulingQueue) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    queue.add(info("p", uid="p"))
    await reject_next(queue, FIT)
    await passes(40)
    assert len(loop.pending()) == 1
    queue.delete("p")
    await passes(40)
    assert loop.pending() == []


async def test_an_unschedulable_pod_is_retried_after_five_minutes_without_an_event(queue: SchedulingQueue) -> None:
    queue.add(info("p"))
    pod = await reject_next(queue, FIT)
    places = []
    for seconds in (300, 31):
        await passes(seconds)
        places.append(pod.sub_queue)
    assert places == [SubQueue.UNSCHEDULABLE, SubQueue.ACTIVE]


async def test_a_deleted_pod_leaves_every_part_of_the_queue(queue: SchedulingQueue) -> None:
    for name in ("active", "rejected", "failed", "flying"):
        queue.add(info(name, uid=name, priority={"active": -1}.get(name, 0)))
    await reject_next(queue, FIT)
    await reject_next(queue, ())
    flying = await queue.pop()
    for uid in ("active", "rejected", "failed", "flying"):
        queue.delete(uid)
    queue.put_back(flying, FIT)
    await passes(600)
    assert queue.idle


async def test_the_next_due_time_is_the_end_of_a_backoff(queue: SchedulingQueue) -> None:
    queue.add(info("p"))
    for longest in (2, 3, 5, 9, 11, 11):
        await reject_next(queue, ())
        assert queue.due is not None
        assert longest - 1.001 <= queue.due - asyncio.get_running_loop().time() <= longest


async def test_nothing_is_due_once_the_pods_in_backoff_are_deleted_or_popped_early(queue: SchedulingQueue) -> None:
    queue.add(info("failed", uid="failed"))
    await reject_next(queue, ())
    queue.delete("failed")
    assert queue.due is None
    queue.add(info("rejected", uid="rejected"))
    await reject_next(queue, FIT)
    queue.notify(node_event())
    assert queue.due is not None
    await reject_next(queue, FIT)
    assert queue.due is None
