"""What the eviction of pods from tainted devices does with one pod that is due, and what a rule says: without a server."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.devicetaints.eviction_controller import GATE, RULES_GATE, build
from controllers.devicetaints.evictions import Eviction
from controllers.devicetaints.rule_status import CONDITION, RuleStatuses
from controllers.options.options import Options
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import DEVICE_TAINT_RULES, PODS
from controllers.runtime.times import go_time
from tests.support.recording import FakeRecorder, RecordingClient, make_informers

pytestmark = pytest.mark.integration

ITEM = "pod:p-uid:ns/p"


class Because(Eviction):
    """An eviction because of the rule `r`."""

    @property
    def rules(self) -> tuple[tuple[str, str], ...]:
        return (("r", "r-uid"),)


def pod(name: str = "p", namespace: str = "ns", uid: str = "", **more: Any) -> Json:
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"{name}-uid", **more}
    return {"metadata": metadata, "spec": {}, "status": {}}


class Client(RecordingClient):
    """Serves rules in one version, and keeps how it was asked to patch."""

    how: Json

    async def patch(self, kind: Any, name: str, body: Json, namespace: str = "", **more: Any) -> Any:
        self.how = more
        return await super().patch(kind, name, body, namespace, **more)

    def named(self, _: str) -> Client:
        return self

    def at(self, kind: Any) -> Any:
        return kind


class World:
    """One pod that is due in so many seconds."""

    def __init__(self, *there: Json, seconds: float = 0, refuses: Any = None) -> None:
        self.client, self.told = Client(), FakeRecorder()
        self.client.refuses = refuses or {}
        for each in there:
            self.client.there["Pod", each["metadata"]["name"]] = each
        options = Options(gates={GATE: True, RULES_GATE: True})
        self.informers = Informers(self.client)  # type: ignore[arg-type]
        self.part = build(self.client, self.informers, options)  # type: ignore[arg-type]
        self.part._recorder = self.told  # type: ignore[assignment]
        self.part._due[ITEM] = Because(clock.now() + timedelta(seconds=seconds), ())

    @property
    def evicted(self) -> int:
        """How often a rule is said to have evicted."""
        assert self.part._statuses is not None
        return self.part._statuses._evicted["r-uid"]


async def test_a_pod_that_is_due_is_told_why_and_deleted() -> None:
    world = World(pod())
    await asyncio.sleep(3)
    assert await world.part.reconcile(ITEM) is None
    (patched, _, (name, body)), (deleted, _, (key, how)) = world.client.writes
    assert (patched, name, deleted, key, how["uid"]) == ("patch/status", "p", "delete", "ns/p", "p-uid")
    [condition] = body["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "DeletionByDeviceTaintManager")
    assert condition["lastTransitionTime"] == go_time(clock.now())
    assert world.told.events == [("Normal", "DeviceTaintManagerEviction", "Marking for deletion")]
    assert (world.evicted, world.part._deletions.value(), world.part._latencies.count()) == (1, 1, 1)
    assert world.part._latencies.sample().sum == 3
    assert ITEM not in world.part._due
    world.part._due[ITEM] = Because(clock.now(), ())
    world.client.writes = []
    assert await world.part.reconcile(ITEM) is None
    assert world.client.writes == [], "once"


async def test_a_pod_that_is_not_due_yet_is_waited_for() -> None:
    world = World(pod(), seconds=7)
    assert await world.part.reconcile(ITEM) == timedelta(seconds=7)
    assert world.client.writes == []
    del world.part._due[ITEM]
    assert await world.part.reconcile(ITEM) is None


@pytest.mark.parametrize(
    ("there", "evicted"), [((), 0), ((pod(uid="another"),), 0), ((pod(deletionTimestamp="x"),), 1)]
)
async def test_a_pod_that_goes_or_is_gone_is_not_deleted(there: tuple[Json, ...], evicted: int) -> None:
    world = World(*there)
    assert await world.part.reconcile(ITEM) is None
    assert (world.client.writes, world.told.events) == ([], [])
    assert (world.evicted, world.part._deletions.value()) == (evicted, evicted)
    assert (ITEM in world.part._due, "p-uid" in world.part._evicted) == (False, True)


async def test_a_deletion_that_fails_is_tried_again() -> None:
    world = World(pod(), refuses={"delete": (500, "InternalError")})
    with pytest.raises(StatusError):
        await world.part.reconcile(ITEM)
    assert (world.evicted, ITEM in world.part._due) == (0, True)
    gone = World(pod(), refuses={"delete": (404, "NotFound")})
    assert await gone.part.reconcile(ITEM) is None
    assert (gone.evicted, ITEM in gone.part._due) == (0, False)


# --- what a rule says


def rule(effect: str = "NoExecute", uid: str = "r-uid", generation: int = 2, **condition: Any) -> Json:
    metadata = {"name": "r", "uid": uid, "generation": generation}
    said = [{"type": "Other"}, {"type": CONDITION, **condition}] if condition else []
    return {"metadata": metadata, "spec": {"taint": {"effect": effect}}, "status": {"conditions": said}}


class Evictions:
    """Pods that have to go because of the rule, by name."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def of_pod(self, found: Json) -> Eviction | None:
        return Because(clock.now(), ()) if found["metadata"]["name"] in self.names else None

    def count_selected(self, _: Json) -> tuple[int, int]:
        return 2, 1

    def simulate(self, _: Json) -> Evictions:
        return self


class Statuses:
    def __init__(self, found: Json | None, *names: str, evicted: int = 0) -> None:
        self.client = Client()
        pods = (pod("a"), pod("b"), pod("c", "other"), pod("going", deletionTimestamp="x"), pod("free"))
        informers = make_informers(PODS, *pods)
        make_informers(DEVICE_TAINT_RULES, *([found] if found else []), informers=informers)
        rules = informers.of(DEVICE_TAINT_RULES)
        self.part = RuleStatuses(self.client, DEVICE_TAINT_RULES, Evictions(*names), rules, informers.of(PODS))  # type: ignore[arg-type]
        for _ in range(evicted):
            self.part.count_eviction("r-uid")

    @property
    def said(self) -> list[tuple[str, str, str, int]]:
        return [(c["status"], c["reason"], c["message"], c["observedGeneration"])
                for _, _, (_, body) in self.client.writes for c in body["status"]["conditions"]]  # fmt: skip


SEVERAL = "3 pods need to be evicted in 2 different namespaces. 2 pods evicted since starting the controller."
WOULD = (
    "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect was"
    " NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
)


@pytest.mark.parametrize(
    ("found", "names", "evicted", "said"),
    [
        (rule(), (), 0, ("False", "NotStarted", "")),
        (rule(), (), 1, ("False", "Completed", "1 pod evicted since starting the controller.")),
        (rule(), ("a",), 0, ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")),
        (rule(), ("a", "b", "c", "going"), 2, ("True", "PodsPendingEviction", SEVERAL)),
        (rule("NoSchedule"), ("a",), 0, ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")),
        (rule("None"), ("a",), 0, ("False", "NoEffect", WOULD)),
    ],
)  # fmt: skip
async def test_a_rule_says_what_it_does(found: Json, names: Any, evicted: int, said: tuple[str, str, str]) -> None:
    there = Statuses(found, *names, evicted=evicted)
    assert await there.part.write("r", "r-uid") is None
    assert there.said == [(*said, 2)]
    [(verb, kind, (name, body))] = there.client.writes
    assert (verb, kind, name, body["metadata"]["uid"]) == ("patch/status", "DeviceTaintRule", "r", "r-uid")
    assert there.client.how == {"type": "apply", "subresource": "status", "force": True,
                                "field_manager": "device-taint-eviction-controller"}  # fmt: skip
    there.part.remove("r-uid")
    assert there.part._evicted["r-uid"] == 0


async def test_a_rule_says_it_at_most_every_ten_seconds_and_when_it_has_changed() -> None:
    started = {"status": "False", "reason": "NotStarted", "message": "", "lastTransitionTime": go_time(clock.now())}
    same = Statuses(rule(observedGeneration=2, **started), "a")
    assert await same.part.write("r", "r-uid") == timedelta(seconds=10)
    await asyncio.sleep(9)
    assert await same.part.write("r", "r-uid") == timedelta(seconds=1)
    assert same.said == []
    await asyncio.sleep(1)
    assert await same.part.write("r", "r-uid") is None
    assert len(same.said) == 1
    changed = Statuses(rule(observedGeneration=1, **started), "a")
    assert (await changed.part.write("r", "r-uid"), len(changed.said)) == (None, 1)
    await asyncio.sleep(20)
    told = Statuses(rule(observedGeneration=2, **started))
    assert (await told.part.write("r", "r-uid"), told.said) == (None, []), "nothing new"
    for found in (None, rule(uid="another")):
        there = Statuses(found)
        assert (await there.part.write("r", "r-uid"), there.said) == (None, [])
