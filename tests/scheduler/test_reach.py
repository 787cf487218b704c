"""Nodes whose cached verdicts a change of devices, slices or nodes invalidates."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.allocator import AllocatedState, allocated
from controllers.scheduler.state import affected_nodes as reach
from controllers.scheduler.state.affected_nodes import DeviceReach, TouchLog
from tests.support.objects import make_claim, make_slice


def holding(name: str, node: str, device: str = "gpu-0") -> Json:
    result = {"request": "r", "driver": "gpu.example.com", "pool": node, "device": device}
    return make_claim(name, allocation={"devices": {"results": [result]}})


def counter_slice(node: str) -> Json:
    item = make_slice(node, 1)
    return {**item, "spec": {**item["spec"], "sharedCounters": [{"name": "c", "counters": {}}]}}


def slice_of_all_nodes(node: str) -> Json:
    item = make_slice(node, 1)
    return {**item, "spec": {**{k: v for k, v in item["spec"].items() if k != "nodeName"}, "allNodes": True}}


class Reader:
    """Reads the nodes that were touched since the last call."""

    def __init__(self) -> None:
        self.devices = AllocatedState()
        self.reach = DeviceReach(self.devices)
        self._read = 0

    def read(self) -> list[str | None]:
        self.reach.sync()
        found = list(self.reach.log.since(self._read))
        self._read = self.reach.log.position
        return found


def test_a_slice_touches_its_node_when_it_is_added_updated_and_deleted() -> None:
    reader = Reader()
    for node in ("n", "m"):
        reader.reach.set_slice(make_slice(node, 1))
    assert reader.read() == ["n", "m"]
    reader.reach.set_slice(make_slice("n", 2))
    assert set(reader.read()) == {"n"}
    reader.reach.remove_slice("slice-n")
    assert reader.read() == ["n"]
    reader.reach.remove_slice("slice-n")
    reader.reach.remove_slice("unknown")
    assert reader.read() == []


@pytest.mark.parametrize("item", [counter_slice("n"), slice_of_all_nodes("n")], ids=["counters", "all nodes"])
def test_a_slice_that_more_nodes_reach_touches_all(item: Json) -> None:
    reader = Reader()
    reader.reach.set_slice(item)
    assert reader.read() == [None]
    reader.devices.upsert_claim(holding("c", "n"))
    assert reader.read() == [None]
    reader.reach.touch_all()
    assert reader.read() == [None]


def test_a_device_touches_the_node_of_its_pool_when_it_is_allocated_and_freed() -> None:
    reader = Reader()
    for node in ("n", "m"):
        reader.reach.set_slice(make_slice(node, 1))
    reader.read()
    reader.devices.upsert_claim(holding("c", "m"))
    assert reader.read() == ["m"]
    assert reader.read() == []
    reader.devices.upsert_claim(holding("d", "n"))
    reader.devices.upsert_claim(make_claim("c"))
    assert reader.read() == ["n", "m"]
    reader.devices.upsert_claim(holding("e", "unknown"))
    assert reader.read() == []


def test_a_reader_behind_too_many_changes_rechecks_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocated, "_LOG_LIMIT", 4)
    reader = Reader()
    reader.reach.set_slice(make_slice("n", 9))
    reader.read()
    for number in range(4):
        reader.devices.upsert_claim(holding(f"c{number}", "n", f"gpu-{number}"))
    assert reader.read() == ["n"] * 4
    for number in range(4, 9):
        reader.devices.upsert_claim(holding(f"c{number}", "n", f"gpu-{number}"))
    assert None in reader.read()
    reader.devices.upsert_claim(make_claim("c8"))
    assert reader.read() == ["n"]


def test_a_full_log_drops_its_older_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "_LIMIT", 4)
    log = TouchLog()
    for name in "abcd":
        log.touch(name)
    assert list(log.since(0)) == ["a", "b", "c", "d"]
    log.touch("e")
    assert list(log.since(1)) == [None]
    assert list(log.since(2)) == ["c", "d", "e"]
    assert log.position == 5
    assert list(log.since(5)) == []
