"""The eviction of one pod from tainted devices, and the status of a rule: without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.devicetaints.eviction_controller import GATE, RULES_GATE, build
from controllers.devicetaints.evictions import Eviction
from controllers.devicetaints.rule_status import CONDITION, RuleStatuses
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import DEVICE_TAINT_RULES
from controllers.runtime.times import go_time
from tests.support import recording
from tests.support.objects import make_metadata, make_pod
from tests.support.recording import RecordingClient

pytestmark = pytest.mark.integration

ITEM = "pod:p-uid:ns/p"


class RuleEviction(Eviction):
    """An eviction because of the rule `r`."""

    @property
    def rules(self) -> Iterator[tuple[str, str]]:
        yield "r", "r-uid"


def pod(name: str = "p", namespace: str = "ns", **more: Any) -> Json:
    return make_pod(name, namespace=namespace, **{"uid": f"{name}-uid", **more})


class EvictionClient(RecordingClient):
    """Serves rules in one version, and keeps the options of the last patch."""

    options: Json

    async def patch(self, kind: Any, name: str, body: Json, namespace: str = "", **more: Any) -> Any:
        self.options = more
        return await super().patch(kind, name, body, namespace, **more)

    def due(self, seconds: float = 0) -> EvictionClient:
        """Let the pod `p` be due in so many seconds."""
        self.component._due[ITEM] = RuleEviction(clock.now() + timedelta(seconds=seconds), ())
        return self

    @property
    def evicted(self) -> int:
        """The number of evictions counted for the rule."""
        return int(self.component._statuses._evicted["r-uid"])


def build_due(*pods: Json, seconds: float = 0, **more: Any) -> EvictionClient:
    """Build the component over live pods, of which `p` is due."""
    client = EvictionClient()
    client.informers = Informers(client)  # type: ignore[arg-type]
    return recording.build(build, client, live=pods, gates={GATE: True, RULES_GATE: True}, **more).due(seconds)


async def test_a_due_pod_gets_a_condition_and_is_deleted() -> None:
    client = build_due(pod())
    part = client.component
    await asyncio.sleep(3)
    assert (await client.reconcile(ITEM)).requeue_after is None
    (patched, _, (name, body)), (deleted, _, (key, options)) = client.writes
    assert (patched, name, deleted, key, options["uid"]) == ("patch/status", "p", "delete", "ns/p", "p-uid")
    [condition] = body["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "DeletionByDeviceTaintManager")
    assert condition["lastTransitionTime"] == go_time(clock.now())
    assert client.events == [("Normal", "DeviceTaintManagerEviction", "Marking for deletion")]
    assert (client.evicted, part._deletions.value(), part._latencies.count()) == (1, 1, 1)
    assert part._latencies.sample().sum == 3
    assert ITEM not in part._due
    client.writes = []
    assert (await client.due().reconcile(ITEM)).requeue_after is None
    assert client.writes == [], "once"


async def test_a_pod_that_is_not_due_yet_is_waited_for() -> None:
    client = build_due(pod(), seconds=7)
    assert (await client.reconcile(ITEM)).requeue_after == timedelta(seconds=7)
    assert client.writes == []
    del client.component._due[ITEM]
    assert (await client.reconcile(ITEM)).requeue_after is None


@pytest.mark.parametrize(("pods", "evicted"), [((), 0), ((pod(uid="another"),), 0), ((pod(deleted="x"),), 1)])
async def test_a_pod_that_is_deleted_or_gone_is_not_deleted_again(pods: tuple[Json, ...], evicted: int) -> None:
    client = await build_due(*pods).reconcile(ITEM)
    assert (client.requeue_after, client.error, client.writes, client.events) == (None, None, [], [])
    part = client.component
    assert (client.evicted, part._deletions.value()) == (evicted, evicted)
    assert (ITEM in part._due, "p-uid" in part._evicted) == (False, True)


@pytest.mark.parametrize(("refused", "fails"), [((500, "InternalError"), True), ((404, "NotFound"), False)])
async def test_a_deletion_that_fails_is_tried_again(refused: tuple[int, str], fails: bool) -> None:
    client = await build_due(pod(), refuses={"delete": refused}).reconcile(ITEM)
    assert (client.error is not None, client.evicted, ITEM in client.component._due) == (fails, 0, fails)


# --- the status of a rule


def rule(effect: str = "NoExecute", uid: str = "r-uid", **condition: Any) -> Json:
    conditions = [{"type": "Other"}, {"type": CONDITION, **condition}] if condition else []
    return {"kind": "DeviceTaintRule", "metadata": make_metadata("r", uid=uid, generation=2),
            "spec": {"taint": {"effect": effect}}, "status": {"conditions": conditions}}  # fmt: skip


class FakeEvictions:
    """Evicts the pods with these names because of the rule."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def of_pod(self, found: Json) -> Eviction | None:
        return RuleEviction(clock.now(), ()) if found["metadata"]["name"] in self.names else None

    def count_selected(self, _: Json) -> tuple[int, int]:
        return 2, 1

    def simulate(self, _: Json) -> FakeEvictions:
        return self


class StatusClient(EvictionClient):
    """Records the status of the rule, which evicts the pods with these names."""

    def __init__(self, found: Json | None, *names: str, evicted: int = 0) -> None:
        super().__init__()
        self.set_objects(pod("a"), pod("b"), pod("c", "other"), pod("going", deleted="x"), pod("free"))
        if found:
            self.set_objects(found)
        rules, pods = self.informer("DeviceTaintRule"), self.informer("Pod")
        self.statuses_of_rules = RuleStatuses(self, DEVICE_TAINT_RULES, FakeEvictions(*names), rules, pods)  # type: ignore[arg-type]
        for _ in range(evicted):
            self.statuses_of_rules.count_eviction("r-uid")

    async def write(self) -> timedelta | None:
        return await self.statuses_of_rules.write("r", "r-uid")

    @property
    def conditions(self) -> list[tuple[str, str, str, int]]:
        return [(c["status"], c["reason"], c["message"], c["observedGeneration"])
                for _, _, (_, body) in self.writes for c in body["status"]["conditions"]]  # fmt: skip


SEVERAL = "3 pods need to be evicted in 2 different namespaces. 2 pods evicted since starting the controller."
WOULD = (
    "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect was"
    " NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
)


@pytest.mark.parametrize(
    ("found", "names", "evicted", "condition"),
    [
        (rule(), (), 0, ("False", "NotStarted", "")),
        (rule(), (), 1, ("False", "Completed", "1 pod evicted since starting the controller.")),
        (rule(), ("a",), 0, ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")),
        (rule(), ("a", "b", "c", "going"), 2, ("True", "PodsPendingEviction", SEVERAL)),
        (rule("NoSchedule"), ("a",), 0, ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")),
        (rule("None"), ("a",), 0, ("False", "NoEffect", WOULD)),
    ],
)  # fmt: skip
async def test_the_status_of_a_rule(found: Json, names: Any, evicted: int, condition: tuple[str, str, str]) -> None:
    client = StatusClient(found, *names, evicted=evicted)
    assert await client.write() is None
    assert client.conditions == [(*condition, 2)]
    [(verb, kind, (name, body))] = client.writes
    assert (verb, kind, name, body["metadata"]["uid"]) == ("patch/status", "DeviceTaintRule", "r", "r-uid")
    assert client.options == {"type": "apply", "subresource": "status", "force": True,
                              "field_manager": "device-taint-eviction-controller"}  # fmt: skip
    client.statuses_of_rules.remove("r-uid")
    assert client.statuses_of_rules._evicted["r-uid"] == 0


async def test_the_status_of_a_rule_is_written_at_most_every_ten_seconds_and_when_it_has_changed() -> None:
    started = {"status": "False", "reason": "NotStarted", "message": "", "lastTransitionTime": go_time(clock.now())}
    same = StatusClient(rule(observedGeneration=2, **started), "a")
    assert await same.write() == timedelta(seconds=10)
    await asyncio.sleep(9)
    assert await same.write() == timedelta(seconds=1)
    assert same.writes == []
    await asyncio.sleep(1)
    assert await same.write() is None
    assert len(same.writes) == 1
    changed = StatusClient(rule(observedGeneration=1, **started), "a")
    assert (await changed.write(), len(changed.writes)) == (None, 1)
    await asyncio.sleep(20)
    for found in (rule(observedGeneration=2, **started), None, rule(uid="another")):
        client = StatusClient(found)
        assert (await client.write(), client.writes) == (None, [])
