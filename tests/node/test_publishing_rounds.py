"""One reconcile of the slices of an emulated node, without a server."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.kubelet.emulation.publishing import EmulatedSlices
from controllers.runtime.kinds import RESOURCE_SLICES, key_of
from kubedra.profiles.pools import plan
from tests.support.objects import make_annotations
from tests.support.recording import RecordingClient, make_informers

pytestmark = pytest.mark.integration

DRIVER = "gpu.example.com"


def node(devices: str | None = "2", uid: str = "n-uid", **annotations: str) -> Json:
    annotations |= {} if devices is None else {"devices": devices}
    return {"metadata": {"name": "n", "uid": uid, "annotations": make_annotations(**annotations)}}


class Node:
    """The slices of the informer, and the writes. `observe` adds written slices to the informer."""

    #: Fields of devices that the server drops, because a gate is off.
    dropped: frozenset[str] = frozenset()

    def __init__(self, *there: Json) -> None:
        self.client = RecordingClient({"ResourceSlice": self._made})
        self.informers = make_informers(RESOURCE_SLICES, *there)
        self.changed: list[str] = []
        self._version = 0
        self.part = EmulatedSlices(self.client, self.informers.of(RESOURCE_SLICES), self.changed.append)  # type: ignore[arg-type]
        self.made: list[Json] = []

    def _made(self, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        name = body["metadata"].get("name") or f"{body['metadata']['generateName']}{len(self.made):05}"
        self._version += 1
        meta = {**body["metadata"], "name": name, "uid": name, "resourceVersion": str(self._version)}
        kept = [{key: each[key] for key in each if key not in self.dropped} for each in body["spec"].get("devices", [])]
        self.made.append({**body, "metadata": meta, "spec": {**body["spec"], "devices": kept}})
        return self.made[-1]

    async def reconcile(self, found: Json) -> list[str]:
        """Return the verbs of the writes to slices."""
        self.client.writes = []
        await self.part.reconcile(found)
        return [verb for verb, kind, _ in self.client.writes if kind == "ResourceSlice"]

    def observe(self, *slices: Json) -> None:
        for item in slices or self.made:
            self.informers.of(RESOURCE_SLICES).set_object(key_of(item), item)
        self.made = []


def devices(item: Json) -> list[str]:
    return [each["name"] for each in item["spec"].get("devices") or ()]


async def test_a_node_publishes_its_annotated_devices() -> None:
    there = Node()
    assert await there.reconcile(node()) == ["create"]
    [made] = there.made
    assert (made["spec"]["driver"], made["spec"]["nodeName"], len(devices(made))) == (DRIVER, "n", 2)
    assert made["kind"] == "ResourceSlice"
    there.observe()
    assert there.changed == ["n"]
    assert await there.reconcile(node()) == []
    assert await there.reconcile(node("3")) == ["update"]
    [changed] = there.made
    assert (changed["kind"], changed["apiVersion"]) == ("ResourceSlice", "resource.k8s.io/v1")
    assert len(devices(changed)) == 3
    assert await there.reconcile(node(None)) == [], "without devices the slice stays"
    assert await Node().reconcile(node(None)) == []


async def test_a_created_slice_is_not_created_again_before_it_should_be_observed() -> None:
    there = Node()
    await there.reconcile(node())
    assert await there.reconcile(node()) == []
    await asyncio.sleep(3600)
    assert await there.reconcile(node()) == ["create"], "it was taken away meanwhile"
    there.part.remove(node(uid="another"))
    assert await there.reconcile(node()) == []
    there.part.remove(node())
    assert await there.reconcile(node()) == ["create"], "it is another node"


async def test_slices_of_a_real_driver_are_not_changed() -> None:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": []}
    theirs = {"metadata": {"name": "made-by-hand", "uid": "x", "resourceVersion": "1"}, "spec": spec}
    assert await Node(theirs).reconcile(node()) == []
    assert await Node({**theirs, "spec": {**spec, "driver": "other"}}).reconcile(node()) == ["create"]
    assert await Node({**theirs, "spec": {**spec, "nodeName": "m"}}).reconcile(node()) == ["create"]
    anywhere = {name: value for name, value in spec.items() if name != "nodeName"}
    for_all = Node()
    for_all.observe({**theirs, "spec": {**anywhere, "allNodes": True}})
    assert (for_all.changed, await for_all.reconcile(node())) == ([], ["create"])


@pytest.mark.parametrize(
    ("refusal", "fails"), [((404, "NotFound"), False), ((409, "Conflict"), False), ((403, "Forbidden"), True)]
)
async def test_a_slice_that_changed_or_vanished_meanwhile_is_no_error(refusal: tuple[int, str], fails: bool) -> None:
    there = Node()
    await there.reconcile(node())
    there.observe()
    there.client.refuses["update"] = refusal
    if fails:
        with pytest.raises(StatusError):
            await there.reconcile(node("3"))
    else:
        assert await there.reconcile(node("3")) == ["update"]


async def test_taints_of_other_clients_stay_and_those_of_annotations_follow_them() -> None:
    there = Node()
    await there.reconcile(node())
    [made] = there.made
    first, _ = devices(made)
    tainted = node(tainted_devices=f"{first}=k=v:NoSchedule")
    there.observe()
    assert await there.reconcile(tainted) == ["update"]
    [ours] = there.made
    assert [len(each.get("taints") or ()) for each in ours["spec"]["devices"]] == [1, 0]
    foreign = {"key": "theirs", "effect": "NoExecute"}
    both = [{**each, "taints": [*(each.get("taints") or ()), foreign]} for each in ours["spec"]["devices"]]
    there.observe({**ours, "spec": {**ours["spec"], "devices": both}})
    assert await there.reconcile(tainted) == [], "theirs stays beside ours"
    assert await there.reconcile(node()) == ["update"]
    [left] = there.made[-1:]
    assert [each["taints"] for each in left["spec"]["devices"]] == [[foreign], [foreign]]


async def test_fields_that_the_server_drops_are_written_once(caplog: pytest.LogCaptureFixture) -> None:
    """A server without the gate DRADeviceTaints drops taints. Each write is an event that reconciles the node again."""
    caplog.set_level(logging.WARNING)
    there = Node()
    there.dropped = frozenset({"taints"})
    tainted = node(tainted_devices="gpu-0=k:NoExecute")
    assert await there.reconcile(tainted) == ["create"]
    there.observe()
    assert await there.reconcile(tainted) == []
    assert await there.reconcile(tainted) == []
    assert [record.message for record in caplog.records] == [
        "node n: the server drops fields of devices; enable the feature gates DRADeviceTaints"
    ]
    assert await there.reconcile(node("3", tainted_devices="gpu-0=k:NoExecute")) == ["update"]


async def test_an_unknown_profile_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    there = Node()
    for name, complaints in (("no-such", 1), ("no-such", 1), ("nor-this", 2), ("no-such", 3)):
        await there.reconcile(node("1", profile=name))
        assert len([each for each in caplog.records if each.getMessage().startswith("node n: ")]) == complaints
    there.part.remove(node())
    await there.reconcile(node(None, profile="no-such"))
    assert len([each for each in caplog.records if each.getMessage().startswith("node n: ")]) == 4


async def test_the_classes_of_a_profile_are_created_with_its_devices() -> None:
    for reason, fails in (("", False), ("AlreadyExists", False), ("Forbidden", True)):
        there = Node()
        if reason:
            there.client.refuses["create"] = (400, reason)
        profiled = node(None, profile="gaudi")
        if fails or reason:
            with pytest.raises(StatusError):
                await there.reconcile(profiled)
            kinds = {kind for _, kind, _ in there.client.writes}
            assert kinds == ({"DeviceClass"} if fails else {"DeviceClass", "ResourceSlice"})
        else:
            await there.reconcile(profiled)
            assert [kind for _, kind, _ in there.client.writes][:1] == ["DeviceClass"]
            there.observe()
            assert await there.reconcile(profiled) == []


async def test_complete_slices_are_planned_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[str] = []

    def count(driver: str, *rest: Any) -> Any:
        plans.append(driver)
        return plan(driver, *rest)

    monkeypatch.setattr("controllers.kubelet.emulation.publishing.plan", count)
    made = Node()
    await made.reconcile(node())
    made.observe()
    for _ in range(3):
        assert await made.reconcile(node()) == []
    assert len(plans) == 2, "the second pass finds nothing to write"
    (published,) = made.informers.of(RESOURCE_SLICES).objects.values()
    changed = {**published, "metadata": {**published["metadata"], "resourceVersion": "2"}}
    made.observe({**changed, "spec": {**published["spec"], "devices": []}})
    assert await made.reconcile(node()) == ["update"]
    assert await made.reconcile(node("3")) != []
    made.part.remove(node())
