"""How many pods a Deployment and its ReplicaSets may have, and when a roll-out is late: rules without a server."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.workloads.deployment import rollouts, status
from controllers.workloads.deployment.arithmetic import max_surge, max_unavailable, new_replicas
from controllers.workloads.deployment.replicasets import HISTORY, REVISION, new_annotations
from tests.support.virtual import passes

pytestmark = pytest.mark.integration


def deployment(replicas: int, surge: int | str = 1, unavailable: int | str = 0, **spec: Any) -> Json:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    spec = {"replicas": replicas, "strategy": strategy, "progressDeadlineSeconds": 60, **spec}
    return {"metadata": {"name": "d", "generation": 1}, "spec": spec, "status": {}}


def replica_set(name: str, replicas: int, most: int = 0, age: int = 0, **counts: int) -> Json:
    """`most`: the size of the whole, as it remembers it; `age` in days."""
    created = (datetime(2026, 1, 31, tzinfo=UTC) - timedelta(days=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    annotations = {"deployment.kubernetes.io/max-replicas": str(most)} if most else {}
    metadata = {"name": name, "uid": name, "creationTimestamp": created, "annotations": annotations}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": counts}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "limits"),
    [
        (10, "25%", "25%", (3, 2)),
        (4, 0, "10%", (0, 1)),  # A share that comes to nothing must not stop the roll-out.
        (4, 0, 9, (0, 4)),
        (0, "25%", 1, (0, 0)),
    ],
)
def test_surge_is_rounded_up_and_what_may_be_missing_down(
    replicas: int, surge: int | str, unavailable: int | str, limits: tuple[int, int]
) -> None:
    given = deployment(replicas, surge, unavailable)
    assert (max_surge(given), max_unavailable(given)) == limits


def test_a_new_replica_set_gets_what_the_surge_leaves_and_no_more_than_is_wanted() -> None:
    old = [replica_set("old", 10)]
    assert new_replicas(deployment(10, 3), old, 0) == 3
    assert new_replicas(deployment(10, 0, 1), old, 0) == 0
    assert new_replicas(deployment(4, 100), [], 0) == 4
    assert new_replicas({**deployment(5), "spec": {"replicas": 5, "strategy": {"type": "Recreate"}}}, old, 0) == 5


class FakePass:
    """Records the sizes that a pass writes."""

    def __init__(self, deployment: Json, sets: list[Json]) -> None:
        self.deployment, self.sets = deployment, sets
        self.new, self.old = sets[-1], sets[:-1]
        self.sizes: dict[str, int] = {}

    async def scale(self, replica_set: Json, size: int, *, force: bool = False) -> bool:
        self.sizes[replica_set["metadata"]["name"]] = size
        return True


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ((4, 4, 5), 20, (6, 6, 8)),
        ((4, 4, 5), 6, (2, 2, 2)),
        ((4, 4, 5), 0, (0, 0, 0)),
        # What rounding leaves: the youngest of equal ones gets more, the oldest loses.
        ((5, 5, 5), 16, (5, 5, 6)),
        ((5, 5, 5), 14, (4, 5, 5)),
    ],
)
def test_in_the_middle_of_a_roll_out_each_keeps_its_share(
    before: tuple[int, ...], wanted: int, after: tuple[int, ...]
) -> None:
    sets = [replica_set(f"{age}", size, most=sum(before), age=age) for size, age in zip(before, (3, 2, 1), strict=True)]
    this: Any = FakePass(deployment(wanted, 0, 1), sets)
    asyncio.run(rollouts.scale(this))
    assert tuple(this.sizes[name] for name in ("3", "2", "1")) == after


async def test_the_deadline_restarts_with_each_new_pod() -> None:
    given, new = deployment(3, progressDeadlineSeconds=60), replica_set("new", 3)

    def progressing(ready: int) -> Json:
        new["status"] = {"replicas": 3, "readyReplicas": ready}
        counted = status.counts(given, [new], new, with_terminating=False)
        given["status"] = status.rollout(given, counted, [new], new)
        found: Json = next(each for each in given["status"]["conditions"] if each["type"] == "Progressing")
        return found

    first = progressing(0)
    assert first["reason"] == "ReplicaSetUpdated"
    await passes(50)
    second = progressing(1)
    assert second["lastUpdateTime"] > first["lastUpdateTime"]
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    await passes(50)
    assert progressing(1)["reason"] == "ReplicaSetUpdated"
    assert status.next_check(given, given["status"]) == timedelta(seconds=11)
    await passes(11)
    assert progressing(1)["reason"] == "ProgressDeadlineExceeded"
    assert status.next_check(given, given["status"]) is None


def test_revisions_move_to_the_history_which_stays_short() -> None:
    again = replica_set("again", 1)
    again["metadata"]["annotations"] = {REVISION: "3", HISTORY: ",".join(str(number) for number in range(1000, 1400))}
    given = new_annotations(deployment(1), again, 9)
    assert given[REVISION] == "9"
    assert len(given[HISTORY]) <= 2000
    assert given[HISTORY].endswith(",1399,3")
    assert new_annotations(deployment(1), again, 2)[REVISION] == "3"
