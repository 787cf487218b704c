"""The publisher of a driver makes the fewest writes that lead to its slices."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from kubedra.driver.publisher import Publisher
from kubedra.profiles.pools import Owner, Pool, PoolError, check, plan, split
from kubedra.pytest_plugin import Kube

pytestmark = pytest.mark.integration

DRIVER = "gpu.example.com"
OWNER = Owner("n1", "n1-uid")


def device(name: str, **more: Any) -> Json:
    return {"name": name, **more}


def pool_of(*parts: str, generation: int = 0, **more: Any) -> Pool:
    """Build a pool with a slice for each text and a device for each of its letters."""
    slices = tuple({"devices": [device(letter, **more) for letter in part]} for part in parts)
    return Pool(slices, generation=generation)


def existing(index: int | str, devices: str, *, generation: int = 1, count: int = 1, **more: Any) -> Json:
    name = f"{index:05x}-{DRIVER}-n1-abcde" if isinstance(index, int) else index
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    pool = {"name": "p", "generation": generation, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": [device(d, **more) for d in devices]}
    return {"metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("there", "wanted", "deletes", "updates", "creates", "generation"),
    [
        pytest.param([], pool_of("a"), 0, 0, 1, 1, id="new"),
        pytest.param([existing(0, "a")], pool_of("a"), 0, 0, 0, 1, id="unchanged"),
        pytest.param([existing(0, "a")], pool_of("ab"), 0, 1, 0, 1, id="one changed, in place"),
        pytest.param([existing(0, "a")], None, 1, 0, 0, 0, id="not wanted any more"),
        pytest.param([existing(0, "a", count=2), existing(1, "b", count=2)], pool_of("a", "c"), 0, 1, 0, 1, id="one of two"),
        pytest.param([existing(0, "a"), existing(1, "a")], pool_of("a"), 1, 0, 0, 1, id="redundant"),
        pytest.param([existing(n, "abc"[n], count=3) for n in range(3)], pool_of("x", "y", "c"), 0, 3, 0, 2, id="two of three"),
        pytest.param([existing(n, "abc"[n], count=3) for n in range(3)], pool_of("a", "b"), 1, 2, 0, 2, id="one less"),
        pytest.param([existing(n, "abc"[n], count=3) for n in range(3)], pool_of(*"abcd"), 0, 3, 1, 2, id="one more"),
        pytest.param(
            [existing(0, "a"), existing(1, "a", generation=2), existing(2, "a")], pool_of("a"), 3, 0, 1, 3, id="generations"
        ),
        pytest.param([existing(f"random-{n}", "a", count=3) for n in range(3)], pool_of(*"abc"), 3, 0, 3, 2, id="random names"),
        pytest.param(
            [*(existing(f"random-{n}", "a", count=3) for n in range(2)), existing(0, "a", count=3)],
            pool_of(*"abc"), 2, 1, 2, 2, id="mixed names",
        ),
        pytest.param([existing(f"0-{DRIVER}-n1-abcde", "a")], pool_of("a"), 1, 0, 1, 2, id="too short a number"),
        pytest.param([existing(0, "a")], pool_of("a", generation=7), 0, 1, 0, 7, id="the driver's own generation"),
    ],
)  # fmt: skip
def test_a_plan_has_the_fewest_writes(
    there: list[Json], wanted: Pool | None, deletes: int, updates: int, creates: int, generation: int
) -> None:
    done = plan(DRIVER, OWNER, "p", wanted, there)
    assert (len(done.deletes), len(done.updates), len(done.creates)) == (deletes, updates, creates)
    written = [*done.updates, *done.creates]
    assert {item["spec"]["pool"]["generation"] for item in written} <= {generation}
    replaced = [item["metadata"] for item in (*done.deletes, *written)]
    after = [*(item for item in there if item["metadata"] not in replaced), *written]
    for number, item in enumerate(done.creates):
        item["metadata"]["name"] = item["metadata"]["generateName"] + str(number)
    again = plan(DRIVER, OWNER, "p", wanted, after)
    assert (again.deletes, again.updates, again.creates) == ([], [], [])


def test_a_slice_is_named_after_its_position_and_owned_by_its_node() -> None:
    (made,) = plan(DRIVER, OWNER, "p", pool_of("a"), []).creates
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1-uid", "controller": True}
    assert made["metadata"] == {"generateName": f"00000-{DRIVER}-n1-", "ownerReferences": [owner]}
    assert made["spec"]["nodeName"] == "n1"


def test_slices_without_an_owner_for_all_nodes_name_no_node() -> None:
    (made,) = plan(DRIVER, None, "p", Pool(({"devices": []},), all_nodes=True), []).creates
    assert made["metadata"] == {"generateName": f"00000-{DRIVER}-"}
    assert made["spec"]["allNodes"] is True
    assert "nodeName" not in made["spec"]


def test_the_time_of_a_taint_is_the_servers() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    there = existing(0, "a", taints=[{**taint, "timeAdded": "2026-01-01T00:00:00Z"}])
    assert not plan(DRIVER, OWNER, "p", pool_of("a", taints=[taint]), [there]).updates
    both = pool_of("a", taints=[taint, {"key": "new", "effect": "None"}])
    (changed,) = plan(DRIVER, OWNER, "p", both, [there]).updates
    assert [t.get("timeAdded") for t in changed["spec"]["devices"][0]["taints"]] == ["2026-01-01T00:00:00Z", None]


@pytest.mark.parametrize(
    ("number", "more", "sizes"), [(0, {}, [0]), (129, {}, [128, 1]), (65, {"taints": [{}]}, [64, 1])]
)
def test_devices_are_split_at_the_limits(number: int, more: Json, sizes: list[int]) -> None:
    assert [len(part) for part in split([device(f"d{n}", **more) for n in range(number)])] == sizes


COUNTERS = [{"name": "set", "counters": {"memory": {"value": "1"}}}]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([{"devices": [device("a"), device("a")]}], 'found duplicate device "a" in pool "p"'),
        ([{"sharedCounters": COUNTERS * 2}], 'found duplicate counter set "set" in pool "p"'),
        ([{"devices": [device("a", consumesCounters=[{"counterSet": "set"}])]}],
         'counter set "set" referenced by device "a" not found'),
        ([{"sharedCounters": COUNTERS},
          {"devices": [device("a", consumesCounters=[{"counterSet": "set", "counters": {"x": {}}}])]}],
         'counter "x" referenced by device "a" not found in counter set "set"'),
    ],
)  # fmt: skip
def test_an_invalid_pool_is_an_error(parts: list[Json], text: str) -> None:
    with pytest.raises(PoolError) as caught:
        check({"p": Pool(parts)})
    assert str(caught.value) == text


@pytest.mark.kube(own=True, feature_gates={"DRADeviceTaints": False}, controllers=False)
@pytest.mark.real_time
async def test_fields_that_the_server_drops_are_one_error_and_not_written_again(kube: Kube) -> None:
    errors: list[str] = []
    publisher = Publisher(kube.client(), DRIVER, None, lambda error: errors.append(str(error)))
    taint = {"key": "k", "effect": "NoSchedule"}
    publisher.update({"p": Pool(({"devices": [device("a", taints=[taint])]},), all_nodes=True)})
    await publisher.sync()
    await publisher.sync()
    assert publisher.statistics == {"creates": 1, "updates": 0, "deletes": 0}
    why = "some fields were dropped by the apiserver, probably because these features are disabled: DRADeviceTaints"
    assert errors == [f'create ResourceSlice: pool "p", slice #0: {why}']
