"""Delete: finalizers, grace periods, propagation, preconditions, collections."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.values.times import timestamp
from apiserver.registry.definition.options import DeleteOptions
from apiserver.registry.store.admission import Attributes, Handlers, Plugin
from apiserver.registry.verbs.delete import delete_object
from apiserver.request.messages import User
from apiserver.storage.log.types import Write
from tests.registry.conftest import World

MAP: Json = {"metadata": {"name": "a"}, "data": {"a": "1"}}


def pod(name: str, node: str = "n1", **metadata: Any) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": node}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def times(obj: Json) -> tuple[Any, Any]:
    return obj["metadata"].get("deletionTimestamp"), obj["metadata"].get("deletionGracePeriodSeconds")


async def gone(world: World, plural: str, name: str) -> bool:
    try:
        await world.get(plural, name)
    except StatusError as error:
        return error.code == 404
    return False


async def test_a_deletion_has_a_version_of_its_own(world: World) -> None:
    made = await world.create("resourceclaims", {"metadata": {"name": "a"}})
    result = await world.delete("resourceclaims", "a")
    assert result.gone
    assert result.entry.revision == int(made["metadata"]["resourceVersion"]) + 1


async def test_kinds_answer_with_the_object_or_with_a_status(world: World) -> None:
    made = await world.create("configmaps", MAP)
    status = (await world.delete("configmaps", "a")).status
    assert status == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }  # fmt: skip
    await world.create("resourceclaims", {"metadata": {"name": "a"}})
    assert (await world.delete("resourceclaims", "a")).status is None


async def test_finalizers_hold_an_object_until_the_last_is_gone(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/f"]}})
    first = await world.delete("configmaps", "a")
    assert (first.gone, first.status) == (False, None)
    assert times(first.entry.obj) == ("2025-01-02T03:04:05Z", 0)
    again = await world.delete("configmaps", "a")
    assert again.entry.revision == first.entry.revision
    with pytest.raises(
        StatusError, match=r'no new finalizers can be added .* found new finalizers \[\]string\{"example.com/g"\}'
    ):
        await world.merge("configmaps", "a", {"metadata": {"finalizers": ["example.com/f", "example.com/g"]}})
    with pytest.raises(StatusError, match='object is being deleted: configmaps "a" already exists'):
        await world.create("configmaps", MAP)
    last = await world.merge("configmaps", "a", {"metadata": {"finalizers": None}})
    assert int(last["metadata"]["resourceVersion"]) == first.entry.revision
    assert await gone(world, "configmaps", "a")


async def test_a_pod_on_a_node_gets_its_grace_period(world: World) -> None:
    await world.create("pods", pod("p"))
    result = await world.delete("pods", "p")
    assert not result.gone
    assert times(result.entry.obj) == ("2025-01-02T03:04:35Z", 30)
    assert result.entry.obj["metadata"]["generation"] == 2


async def test_a_pod_without_a_node_goes_at_once_and_was_marked_first(world: World) -> None:
    await world.create("pods", pod("p", node=""))
    watch = await world.watch("pods", f"resourceVersion={world.registry.log.revision}")
    result = await world.delete("pods", "p")
    assert result.gone
    assert times(result.entry.obj) == ("2025-01-02T03:04:05Z", 0)
    assert [kind for kind, _ in await watch.take(2)] == ["MODIFIED", "DELETED"]


async def test_a_later_delete_can_only_shorten_the_period(world: World) -> None:
    await world.create("pods", pod("p"))
    await world.delete("pods", "p", query="gracePeriodSeconds=20")
    expected = ("2025-01-02T03:04:25Z", 20)
    assert times((await world.delete("pods", "p", query="gracePeriodSeconds=25")).entry.obj) == expected
    assert times((await world.delete("pods", "p")).entry.obj) == ("2025-01-02T03:04:25Z", 20)
    expected = ("2025-01-02T03:04:10Z", 5)
    assert times((await world.delete("pods", "p", query="gracePeriodSeconds=5")).entry.obj) == expected
    world.clock.pass_seconds(60)
    expected = ("2025-01-02T03:05:05Z", 1)
    assert times((await world.delete("pods", "p", query="gracePeriodSeconds=3")).entry.obj) == expected
    assert (await world.delete("pods", "p", query="gracePeriodSeconds=0")).gone


async def test_a_period_that_go_cannot_count_ends_when_it_would_and_can_be_shortened(world: World) -> None:
    for name, period, ends in (
        ("max", (1 << 63) - 1, -1),
        ("least", 9223372037, 9223372037 - (1 << 64) / 10**9),
        ("round", 18446744074, 18446744074 - (1 << 64) / 10**9),
    ):
        await world.create("pods", pod(name))
        marked = times((await world.delete("pods", name, {"gracePeriodSeconds": period})).entry.obj)
        assert marked == (timestamp(world.clock.now + timedelta(seconds=ends)), period)
        shortened = times((await world.delete("pods", name, {"gracePeriodSeconds": 30})).entry.obj)
        assert (shortened[0][:18], shortened[1]) == ("2025-01-02T03:04:3", 30)


async def test_a_negative_period_is_one_second_and_the_body_wins_over_the_query(world: World) -> None:
    await world.create("pods", pod("p"))
    await world.create("pods", pod("q"))
    assert times((await world.delete("pods", "p", query="gracePeriodSeconds=-5")).entry.obj)[1] == 1
    assert times((await world.delete("pods", "q", {"gracePeriodSeconds": 7}, "gracePeriodSeconds=9")).entry.obj)[1] == 7


async def test_a_negative_period_that_was_stored_is_one_second(world: World) -> None:
    await world.create("pods", pod("p"))
    store, marked = world.store("pods"), (await world.delete("pods", "p")).entry
    key, value = "/registry/pods/default/p", marked.value.replace(b'Seconds":30', b'Seconds":-7')
    assert value != marked.value
    await store.append(Write(key, value, marked.revision))
    for query in ("", "gracePeriodSeconds=1"):
        pending = await world.delete("pods", "p", query=query)
        assert (pending.gone, times(pending.entry.obj)[1]) == (False, -7), "one second is not shorter"
    assert (await world.delete("pods", "p", query="gracePeriodSeconds=0")).gone


async def test_propagation_policies_are_finalizers_that_replace_each_other(world: World) -> None:
    await world.create("configmaps", MAP)
    held = await world.delete("configmaps", "a", query="propagationPolicy=Foreground")
    assert held.entry.obj["metadata"]["finalizers"] == ["foregroundDeletion"]
    held = await world.delete("configmaps", "a", {"propagationPolicy": "Orphan"})
    assert held.entry.obj["metadata"]["finalizers"] == ["orphan"]
    assert (await world.delete("configmaps", "a", query="propagationPolicy=Background")).gone
    await world.create("configmaps", MAP)
    assert (await world.delete("configmaps", "a", query="orphanDependents=true")).entry.obj["metadata"][
        "finalizers"
    ] == ["orphan"]
    assert (await world.delete("configmaps", "a", {"orphanDependents": False})).gone


async def test_preconditions_name_the_kind(world: World) -> None:
    made = await world.create("resourceclaims", {"metadata": {"name": "a"}})
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    with pytest.raises(
        StatusError, match=r'on ResourceClaim.resource.k8s.io "a": the UID in the precondition \(x\) does not match'
    ) as wrong:
        await world.delete("resourceclaims", "a", {"preconditions": {"uid": "x"}})
    assert wrong.value.to_dict()["details"]["kind"] == "ResourceClaim"
    stale = r"the ResourceVersion in the precondition \(1\) does not match .* The object might have been modified"
    with pytest.raises(StatusError, match=stale):
        await world.delete("resourceclaims", "a", {"preconditions": {"resourceVersion": "1"}})
    assert (await world.delete("resourceclaims", "a", {"preconditions": {"uid": uid, "resourceVersion": version}})).gone


async def test_a_dry_run_deletes_nothing(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/f"]}})
    assert times((await world.delete("configmaps", "a", query="dryRun=All")).entry.obj)[0] is not None
    assert times(await world.get("configmaps", "a")) == (None, None)
    await world.create("pods", pod("p", node=""))
    assert (await world.delete("pods", "p", query="dryRun=All")).gone
    assert times(await world.get("pods", "p")) == (None, None)


async def test_a_namespace_terminates_and_goes_when_its_own_finalizer_is_gone(world: World) -> None:
    await world.create("namespaces", {"metadata": {"name": "old"}})
    first = await world.delete("namespaces", "old")
    assert first.entry.obj["status"]["phase"] == "Terminating"
    assert not (await world.delete("namespaces", "old")).gone
    spec = {"metadata": {"name": "old"}, "spec": {}, "status": {"phase": "Terminating"}}
    await world.update("namespaces", "old", spec, subresource="finalize")
    assert await gone(world, "namespaces", "old")
    with pytest.raises(StatusError, match="this namespace may not be deleted"):
        await world.delete("namespaces", "default")


class Witness(Plugin):
    """Records the deletions that it sees, in both steps."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def admit(self, attributes: Attributes) -> None:
        self.asked.append(f"admit {attributes.name}")

    def validate(self, attributes: Attributes) -> None:
        self.asked.append(f"validate {attributes.name}")


async def test_admission_sees_each_deletion_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    store, witness = world.store("configmaps"), Witness()
    for handlers, said in (
        (Handlers((witness,), (witness,)), ["admit {}", "validate {}"]),
        (Handlers((witness,), ()), ["admit {}"]),
        (Handlers((), (witness,)), ["validate {}"]),
        (Handlers((), ()), []),
    ):
        for admitted, verb, name in ((False, "delete", "a"), (True, "delete", "a"), (False, "deletecollection", "")):
            await world.create("configmaps", MAP)
            monkeypatch.setattr(store, "handlers", partial(lambda chosen, *_: chosen, handlers))
            witness.asked.clear()
            ctx = store.context(user=User("u"), version="v1", verb=verb, namespace="default", name="a")
            assert (await delete_object(store, ctx, DeleteOptions(), admitted=admitted)).gone
            assert witness.asked == ([] if admitted else [each.format(name) for each in said])


async def test_a_collection_is_answered_as_it_was_and_pages(world: World) -> None:
    for name in "abcd":
        await world.create("configmaps", {"metadata": {"name": name, "labels": {"mine": "1"}}})
    await world.create("configmaps", {"metadata": {"name": "other"}})
    page = await world.call("deletecollection", "configmaps", query="labelSelector=mine&limit=2")
    assert [entry.obj["metadata"]["name"] for entry in page.entries] == ["a", "b"]
    assert page.continue_token
    assert "deletionTimestamp" not in page.entries[0].obj["metadata"]
    await world.call("deletecollection", "configmaps", query="labelSelector=mine")
    assert [entry.obj["metadata"]["name"] for entry in (await world.list("configmaps")).entries] == ["other"]


async def test_a_collection_with_preconditions_goes_in_order_up_to_the_first_that_fails_them(world: World) -> None:
    uids = [(await world.create("configmaps", {"metadata": {"name": name}}))["metadata"]["uid"] for name in "abc"]

    async def left_after(uid: str) -> list[str]:
        with pytest.raises(StatusError) as refused:
            await world.call("deletecollection", "configmaps", body={"preconditions": {"uid": uid}})
        assert (refused.value.code, refused.value.reason) == (409, "Conflict")
        return [entry.obj["metadata"]["name"] for entry in (await world.list("configmaps")).entries]

    assert await left_after(uids[2]) == ["a", "b", "c"]
    assert await left_after(uids[0]) == ["b", "c"]
