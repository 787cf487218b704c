"""The queue: who is next, who waits for what, and that nothing is missed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any

from apiserver.runtime.clock import now
from apiserver.runtime.virtual_loop import VirtualLoop
from controllers.scheduler.cycle.plugins import SCHEDULING_GATES
from controllers.scheduler.framework.events import ClusterEvent, Event
from controllers.scheduler.framework.framework import hints_of
from controllers.scheduler.plugins.resources import node_resources_fit
from controllers.scheduler.queue.queue import SchedulingQueue
from controllers.scheduler.queue.queued_pod import QueuedPod, SubQueue
from controllers.scheduler.state.pod_info import PodInfo
from tests.support import virtual
from tests.support.objects import info, make_node, make_pod
from tests.support.virtual import passes

SECOND = timedelta(seconds=1)
FIT = ("NodeResourcesFit",)
HINTS = {plugin.name: hints_of(plugin) for plugin in (SCHEDULING_GATES, node_resources_fit())}


def keeps_gated_out(pod: PodInfo) -> str | None:
    return "SchedulingGates" if pod.spec.get("schedulingGates") else None


def run(scenario: Callable[[SchedulingQueue], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(SchedulingQueue(keeps_gated_out, HINTS))

    virtual.run(main)


async def attempt(queue: SchedulingQueue, plugins: Iterable[str]) -> QueuedPod:
    pod = await queue.pop()
    queue.put_back(pod, plugins)
    return pod


def node_added(**node: Any) -> Event:
    return Event(ClusterEvent.NODE_ADD, None, make_node("new", **node))


def test_higher_priority_comes_first_and_then_who_came_earlier() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        for name, priority in (("first", 0), ("second", 0), ("important", 10)):
            queue.add(info(name, priority=priority))
            await passes(1)
        assert [(await queue.pop()).info.name for _ in range(3)] == ["important", "first", "second"]

    run(scenario)


def test_a_gated_pod_enters_when_its_gates_are_gone() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        gated = make_pod("p", uid="u", schedulingGates=[{"name": "g"}])
        queue.add(PodInfo(gated))
        assert queue.idle
        queue.update(gated, PodInfo(make_pod("p", uid="u", schedulingGates=[])))
        assert (await queue.pop()).info.name == "p"

    run(scenario)


def test_a_changed_pod_that_is_not_known_enters_and_one_that_is_enters_once() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        before = make_pod("p", uid="u", labels={"a": "b"})
        after = PodInfo(make_pod("p", uid="u"))
        queue.update(before, after)
        queue.add(after)
        popped = await queue.pop()
        assert popped.info is after
        queue.done("u")
        assert queue.idle

    run(scenario)


def test_a_pod_is_taken_out_of_its_turn_unless_it_is_kept_out_or_being_tried() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
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

    run(scenario)


def test_a_rejected_pod_waits_for_a_change_that_its_plugin_cares_about() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        queue.add(info("p", requests={"cpu": "2"}))
        pod = await attempt(queue, FIT)
        assert pod.sub_queue is SubQueue.UNSCHEDULABLE
        queue.notify(Event(ClusterEvent.SLICE_ADD, None, {}))
        queue.notify(node_added(cpu="1"))
        assert pod.sub_queue is SubQueue.UNSCHEDULABLE
        await passes(5)
        queue.notify(node_added(cpu="2"))
        assert pod.sub_queue is SubQueue.ACTIVE

    run(scenario)


def test_a_change_during_the_attempt_is_not_missed() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        queue.add(info("p", requests={"cpu": "2"}))
        pod = await queue.pop()
        queue.notify(node_added(cpu="2"))
        queue.put_back(pod, FIT)
        assert pod.sub_queue is SubQueue.BACKOFF
        queue.add(info("q", requests={"cpu": "2"}))
        other = await attempt(queue, FIT)
        assert other.info.name == "q"
        assert other.sub_queue is SubQueue.UNSCHEDULABLE

    run(scenario)


def test_a_rejected_pod_that_backs_off_is_taken_early_when_nothing_else_is_to_do_but_a_failed_one_is_not() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        queue.add(info("failed"))
        failed = await attempt(queue, ())
        assert failed.sub_queue is SubQueue.ERROR_BACKOFF
        queue.add(info("rejected", requests={"cpu": "2"}))
        await attempt(queue, FIT)
        queue.notify(node_added(cpu="2"))
        assert (await queue.pop()).info.name == "rejected"
        waiting = asyncio.create_task(queue.pop())
        await passes(0.9)
        assert not waiting.done()
        await passes(1.2)
        assert waiting.done()
        assert (await waiting).info.name == "failed"

    run(scenario)


def test_backoff_doubles_from_one_to_ten_seconds_rounded_up_to_a_whole_one() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        queue.add(info("p"))
        pod = await queue.pop()
        for nominal in (1, 2, 4, 8, 10, 10):
            queue.put_back(pod, ())
            since = now()
            pod = await queue.pop()
            assert nominal * SECOND <= now() - since <= (nominal + 1) * SECOND

    run(scenario)


def test_a_rejection_ends_a_row_of_errors() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        queue.add(info("p", requests={"cpu": "2"}))
        pod = await queue.pop()
        for plugins in ((), (), FIT, ()):
            queue.put_back(pod, plugins)
            since = now()
            if plugins:
                await passes(100)
                queue.notify(node_added(cpu="2"))
            pod = await queue.pop()
        assert SECOND <= now() - since <= 2 * SECOND

    run(scenario)


def test_a_change_of_the_pod_itself_during_its_attempt_is_not_missed() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        large, small = (make_pod("p", uid="u", requests={"cpu": cpu}) for cpu in ("4", "2"))
        other = make_pod("q", uid="other", requests={"cpu": "2"})
        queue.add(PodInfo(large))
        pod = await queue.pop()
        queue.update(large, PodInfo(small))
        queue.add(PodInfo(other))
        queue.put_back(pod, FIT)
        assert pod.sub_queue is SubQueue.BACKOFF
        rejected = await attempt(queue, FIT)
        assert (rejected.info.name, rejected.sub_queue) == ("q", SubQueue.UNSCHEDULABLE)

    run(scenario)


def test_nothing_is_looked_at_from_time_to_time_when_nobody_waits() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        queue.add(info("p", uid="p"))
        await attempt(queue, FIT)
        await passes(40)
        assert len(loop.pending()) == 1
        queue.delete("p")
        await passes(40)
        assert loop.pending() == []

    run(scenario)


def test_an_unschedulable_pod_is_tried_again_after_five_minutes_whatever_happened() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        queue.add(info("p"))
        pod = await attempt(queue, FIT)
        await passes(300)
        assert pod.sub_queue is SubQueue.UNSCHEDULABLE
        await passes(31)
        assert pod.sub_queue is SubQueue.ACTIVE

    run(scenario)


def test_a_deleted_pod_is_not_handed_out_wherever_it_was() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        for name in ("active", "rejected", "failed", "flying"):
            queue.add(info(name, uid=name, priority={"active": -1}.get(name, 0)))
        await attempt(queue, FIT)
        await attempt(queue, ())
        flying = await queue.pop()
        for uid in ("active", "rejected", "failed", "flying"):
            queue.delete(uid)
        queue.put_back(flying, FIT)
        await passes(600)
        assert queue.idle

    run(scenario)


def test_what_is_due_next_is_the_end_of_a_backoff_and_not_each_second_of_it() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        queue.add(info("p"))
        for longest in (2, 3, 5, 9, 11, 11):
            await attempt(queue, ())
            assert queue.due is not None
            assert longest - 1.001 <= queue.due - asyncio.get_running_loop().time() <= longest

    run(scenario)


def test_nothing_is_due_when_the_pods_that_backed_off_are_gone_or_were_tried_early() -> None:
    async def scenario(queue: SchedulingQueue) -> None:
        queue.add(info("failed", uid="failed"))
        await attempt(queue, ())
        queue.delete("failed")
        assert queue.due is None
        queue.add(info("rejected", uid="rejected"))
        await attempt(queue, FIT)
        queue.notify(node_added())
        assert queue.due is not None
        await attempt(queue, FIT)
        assert queue.due is None

    run(scenario)
