"""Python's garbage collector in a server's process: short rounds, whatever the size of the heap.

Each script runs in its own process because a collection concerns a whole process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.wire import environment

pytestmark = pytest.mark.integration

_ROUNDS = """
looked_at = []
def note(phase, info):
    if phase == "start":
        looked_at.append(sum(len(gc.get_objects(generation=each)) for each in range(info["generation"] + 1)))
gc.callbacks.append(note)
garbage.disable()
made = [[number] for number in range(100_000)]
assert not looked_at
garbage.enable()
looked_at.clear()
kept = [[number] for number in range(400_000)]
print(json.dumps({"most": max(looked_at), "rounds": len(looked_at)}))
"""
_CYCLES = """
class Node: pass
def cycle():
    node = Node()
    node.itself = node
    return node, weakref.ref(node)
garbage.enable()
blocks = 5 * garbage.LEAST
schedule = garbage.CollectionSchedule(lambda: blocks)
collected = {}
for name, factor, idle in (("less", 1.9, True), ("at rest", 2, True), ("busy", 2.9, False), ("never at rest", 3, False)):
    node, living = cycle()
    gc.collect()  # it is set aside
    del node
    gc.collect()
    assert living() is not None
    before, blocks = blocks, blocks * factor
    due = schedule.collect_if_due(idle=idle)
    collected[name] = [due, living() is None]
    if not due:
        blocks = before
print(json.dumps(collected))
"""


def run(script: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import gc, json, weakref\nfrom apiserver.runtime import gc_tuning as garbage\n{script}"],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_start_has_no_rounds_and_afterwards_none_looks_at_much_however_much_lives() -> None:
    seen = run(_ROUNDS)
    assert seen["most"] < 120_000
    assert seen["rounds"] > 20


def test_a_cycle_that_was_set_aside_goes_when_once_as_much_was_added() -> None:
    """The factor is two if the process is never idle."""
    assert run(_CYCLES) == {
        "less": [False, False],
        "at rest": [True, True],
        "busy": [False, False],
        "never at rest": [True, True],
    }
