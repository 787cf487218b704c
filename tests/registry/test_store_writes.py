"""Create and update: what the server sets, the order of checks, versions, no-op writes, generated names."""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.schema.language import STRING, ListOf, MapOf, Struct, field
from apiserver.api.types.meta import ObjectMeta
from apiserver.registry.body.convert import normalizer_of, strip_empty
from apiserver.registry.body.size import _message_size, encode_large
from apiserver.registry.definition.metadata import generate_name
from apiserver.registry.definition.random_source import RandomSource
from apiserver.storage.watchcache.cache import Entry
from tests.registry.conftest import World, shown

MAP: Json = {"metadata": {"name": "a"}, "data": {"a": "1"}}
CLAIM: Json = {
    "metadata": {"name": "a"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g"}}]}},
}

DEVICE = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
APPLY = "application/apply-patch+yaml"


async def test_the_server_sets_uid_time_namespace_and_version(world: World) -> None:
    sent = {"metadata": {"name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"}}
    metadata = (await world.create("configmaps", sent))["metadata"]
    assert metadata["uid"].startswith("uid-")
    assert (metadata["namespace"], metadata["creationTimestamp"]) == ("default", "2025-01-02T03:04:05Z")
    assert "selfLink" not in metadata
    assert int(metadata["resourceVersion"]) == world.registry.log.revision


async def test_a_taken_name_conflicts_but_only_after_validation(world: World) -> None:
    await world.create("configmaps", MAP)
    with pytest.raises(StatusError, match='configmaps "a" already exists') as taken:
        await world.create("configmaps", MAP)
    assert taken.value.code == 409
    with pytest.raises(StatusError) as invalid:
        await world.create("configmaps", {"metadata": {"name": "a", "labels": {"bad key": "x"}}})
    assert invalid.value.code == 422


async def test_a_missing_namespace_is_found_before_validation(world: World) -> None:
    with pytest.raises(StatusError, match='namespaces "nowhere" not found') as missing:
        await world.create("configmaps", {"metadata": {"name": "Bad!"}}, namespace="nowhere")
    assert missing.value.code == 404


async def test_nothing_is_created_in_a_terminating_namespace(world: World) -> None:
    await world.create("namespaces", {"metadata": {"name": "old"}})
    await world.delete("namespaces", "old")
    with pytest.raises(StatusError, match="because it is being terminated") as refused:
        await world.create("configmaps", MAP, namespace="old")
    assert refused.value.to_dict()["details"]["causes"][0]["reason"] == "NamespaceTerminating"


async def test_a_namespace_in_the_body_must_be_that_of_the_request(world: World) -> None:
    with pytest.raises(StatusError, match="the namespace of the provided object does not match"):
        await world.create("configmaps", {"metadata": {"name": "a", "namespace": "other"}})


async def test_nothing_is_made_below_an_object_that_makes_nothing(world: World) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"containers": []}}
    await world.create("pods", body)
    with pytest.raises(StatusError) as refused:
        await world.call("create", "pods", "a", body, subresource="status")
    assert (refused.value.code, refused.value.reason) == (405, "MethodNotAllowed")


async def test_a_resource_version_on_create_is_refused_unless_it_is_zero(world: World) -> None:
    with pytest.raises(StatusError, match="resourceVersion should not be set on objects to be created") as refused:
        await world.create("configmaps", {"metadata": {"name": "a", "resourceVersion": "5"}})
    assert (refused.value.code, refused.value.reason) == (500, "")
    await world.create("configmaps", {"metadata": {"name": "a", "resourceVersion": "0"}})


def test_generated_names_do_not_repeat_when_a_test_seeds_the_shared_randomness() -> None:
    random.seed(1)
    first = [RandomSource().suffix() for _ in range(4)]
    random.seed(1)
    assert [RandomSource().suffix() for _ in range(4)] != first


def test_uids_are_random_and_of_version_4_and_a_seed_gives_the_same_in_order() -> None:
    uids = [uuid.UUID(RandomSource("s").uid()) for _ in range(2)]
    assert uids[0] == uids[1] != uuid.UUID(RandomSource("t").uid())
    assert (uids[0].version, uids[0].variant) == (4, uuid.RFC_4122)
    chance = RandomSource("s")
    assert {chance.below(3) for _ in range(99)} == {0, 1, 2}
    assert len(chance.suffix()) == 5


async def test_generated_names_are_cut_and_tried_again_when_taken(world: World) -> None:
    assert generate_name("x" * 80, "abcde") == "x" * 58 + "abcde"
    suffixes = iter(["aaaaa", "aaaaa", "bbbbb"])
    world.registry.new_suffix = lambda: next(suffixes)
    first = await world.create("configmaps", {"metadata": {"generateName": "g-"}})
    second = await world.create("configmaps", {"metadata": {"generateName": "g-"}})
    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("g-aaaaa", "g-bbbbb")
    tried = itertools.repeat("aaaaa", 8)
    world.registry.new_suffix = lambda: next(tried)
    with pytest.raises(
        StatusError, match='"g-aaaaa" already exists, the server was not able to generate a unique name'
    ) as taken:
        await world.create("configmaps", {"metadata": {"generateName": "g-"}})
    assert taken.value.to_dict()["details"]["retryAfterSeconds"] == 1
    assert next(tried, None) is None, "it was tried eight times"


async def test_a_dry_run_answers_as_if_done_and_stores_nothing(world: World) -> None:
    made = await world.create("configmaps", MAP, "dryRun=All")
    assert "resourceVersion" not in made["metadata"]
    with pytest.raises(StatusError, match="not found"):
        await world.get("configmaps", "a")
    stored = await world.create("configmaps", MAP)
    changed = await world.merge("configmaps", "a", {"data": {"a": "2"}}, "dryRun=All")
    assert changed["data"] == {"a": "2"}
    assert changed["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert (await world.get("configmaps", "a"))["data"] == {"a": "1"}


async def test_a_stale_version_conflicts_and_no_version_overwrites(world: World) -> None:
    first = await world.create("configmaps", MAP)
    await world.merge("configmaps", "a", {"data": {"b": "2"}})
    stale = {**MAP, "metadata": {"name": "a", "resourceVersion": first["metadata"]["resourceVersion"]}}
    with pytest.raises(StatusError, match="the object has been modified; please apply your changes") as conflict:
        await world.update("configmaps", "a", stale)
    assert conflict.value.code == 409
    assert (await world.update("configmaps", "a", MAP))["data"] == {"a": "1"}
    with pytest.raises(StatusError, match=r'strconv\.ParseUint: parsing "abc": invalid syntax'):
        await world.update("configmaps", "a", {**MAP, "metadata": {"name": "a", "resourceVersion": "abc"}})


async def test_kinds_may_insist_on_a_version(world: World) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    result = await world.call("update", "leases", "l", lease)
    assert result.created
    with pytest.raises(
        StatusError, match=r'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0'
    ):
        await world.update("leases", "l", lease)


async def test_put_creates_only_kinds_that_allow_it(world: World) -> None:
    with pytest.raises(StatusError, match='configmaps "a" not found'):
        await world.update("configmaps", "a", MAP)


async def test_the_name_in_the_body_must_be_that_of_the_url(world: World) -> None:
    await world.create("configmaps", MAP)
    with pytest.raises(StatusError, match=r"the name of the object \(b\) does not match the name on the URL \(a\)"):
        await world.update("configmaps", "a", {**MAP, "metadata": {"name": "b"}})
    with pytest.raises(StatusError, match="was undeterminable: name must be provided"):
        await world.update("configmaps", "a", {"data": {}})


async def test_a_write_that_changes_nothing_keeps_version_and_managers(world: World) -> None:
    first = await world.create("configmaps", MAP)
    world.clock.pass_seconds(60)
    assert await world.update("configmaps", "a", MAP, agent="other/1") == first
    assert await world.merge("configmaps", "a", {"data": {"a": "1"}}, "fieldManager=third") == first
    assert world.registry.log.revision == int(first["metadata"]["resourceVersion"])


async def test_the_main_resource_cannot_write_status_nor_status_the_rest(world: World) -> None:
    made = await world.create(
        "resourceclaims", {**CLAIM, "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}
    )
    assert made["status"] == {}
    status = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    sent = {"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {}, "status": status}
    changed = await world.update("resourceclaims", "a", sent, subresource="status")
    assert changed["status"] == status
    assert changed["spec"] == made["spec"]
    assert "labels" not in changed["metadata"]


async def test_immutable_metadata_is_named_once_for_each_layer(world: World) -> None:
    await world.create("configmaps", MAP)
    with pytest.raises(
        StatusError, match=r"metadata\.deletionTimestamp: Invalid value: .*field is immutable"
    ) as refused:
        await world.merge("configmaps", "a", {"metadata": {"deletionTimestamp": "2025-01-01T00:00:00Z"}})
    assert len(refused.value.to_dict()["details"]["causes"]) == 2
    with pytest.raises(StatusError) as bad_label:
        await world.merge("configmaps", "a", {"metadata": {"labels": {"bad key": "x"}}})
    assert len(bad_label.value.to_dict()["details"]["causes"]) == 4


async def test_another_uid_is_refused_in_the_words_of_the_storage(world: World) -> None:
    made = await world.create("configmaps", MAP)
    wrong = {**MAP, "metadata": {"name": "a", "uid": "other"}}
    with pytest.raises(StatusError, match=f"UID in precondition: other, UID in object meta: {made['metadata']['uid']}"):
        await world.update("configmaps", "a", wrong)


async def test_writers_of_one_object_all_succeed_when_they_name_no_version(world: World) -> None:
    await world.create("configmaps", MAP)
    await asyncio.gather(*(world.merge("configmaps", "a", {"data": {f"k{i}": "x"}}) for i in range(20)))
    assert len((await world.get("configmaps", "a"))["data"]) == 21


async def test_a_put_that_creates_takes_no_uid_and_any_version(world: World) -> None:
    for metadata, words in (
        ({"uid": "x"}, "Precondition failed: UID in precondition: x, UID in object meta: $"),
        ({"resourceVersion": "x"}, "invalid syntax"),
    ):
        with pytest.raises(StatusError, match=words):
            await world.update("leases", "l", {"metadata": {"name": "l", **metadata}})
    for query in ("dryRun=All", ""):
        made = await world.call("update", "leases", "l", {"metadata": {"name": "l", "resourceVersion": "7"}}, query)
        assert made.created, query


async def test_owner_references_that_repeat_are_dropped_with_a_warning(world: World) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    made = await world.create("configmaps", {"metadata": {"name": "a", "ownerReferences": [owner, owner]}})
    assert made["metadata"]["ownerReferences"] == [owner]
    assert "duplicate UID(s) observed: u" in world.warnings[0]


async def test_an_empty_list_that_is_always_written_is_stored_as_null(world: World) -> None:
    empty = {"metadata": {"name": "a"}, "spec": {"devices": {"requests": []}}}
    made = await world.create("resourceclaims", empty)
    assert made["spec"] == {"devices": {"requests": None}}
    again = await world.update("resourceclaims", "a", empty)
    assert again == made


def test_only_schemas_with_lists_that_are_always_written_are_settled() -> None:
    item = Struct(
        "io.test.v1.Item", lambda: (field("verbs", 1, ListOf(STRING), omit=False), field("items", 2, ListOf(item)))
    )
    settle = normalizer_of(
        Struct("io.test.v1.Kind", (field("byName", 1, MapOf(item)), field("plain", 2, ListOf(STRING))))
    )
    assert settle is not None
    obj = {"byName": {"a": {"verbs": ["get"], "items": [{"verbs": []}]}}, "plain": []}
    settle(obj)
    assert obj == {"byName": {"a": {"verbs": ["get"], "items": [{"verbs": None}]}}, "plain": []}
    settle = normalizer_of(Struct("io.test.v1.Role", (field("rules", 1, ListOf(STRING), omit=False),)))
    assert settle is not None
    role: Json = {"metadata": {"name": "a"}, "rules": [], "status": {}}
    settle(role)
    assert role["rules"] is None
    assert normalizer_of(Struct("io.test.v1.Other", (field("plain", 1, ListOf(STRING)),))) is None


def test_what_is_empty_and_was_kept_for_validation_is_not_written() -> None:
    item = Struct("io.test.Item", (field("name", 1, STRING), field("few", 2, ListOf(STRING), keep_empty=True)))
    thing = Struct(
        "io.test.Thing", (field("items", 1, ListOf(item)), field("by", 2, MapOf(item)), field("one", 3, item))
    )
    empty, full = {"name": "a", "few": []}, {"name": "b", "few": ["x"]}
    expected = {"items": [{"name": "a"}, full], "by": {"k": {"name": "a"}, "l": full}, "one": {"name": "a"}}
    assert strip_empty(thing, {"items": [empty, full], "by": {"k": empty, "l": full}, "one": empty}) == expected
    partly = {"items": [full], "by": {"k": full}, "one": empty}
    made = strip_empty(thing, partly)
    assert made == {**partly, "one": {"name": "a"}}
    assert made["items"] is partly["items"]
    assert made["by"] is partly["by"]


def test_an_object_is_too_large_by_a_byte_in_the_words_of_the_database_and_of_its_client() -> None:
    thing = Struct("io.test.v1.Thing", (field("metadata", 1, ObjectMeta), field("text", 2, STRING)))

    def said(size: int) -> str:
        """Of an object that makes a request of so many bytes."""
        obj: Any = {"metadata": {"name": "a"}, "text": "x" * (size - 2000)}
        obj["text"] += "x" * (size - _message_size("/k", obj, thing))
        try:
            encode_large("/k", obj, thing)
        except StatusError as error:
            return error.message
        return ""

    assert said(1536 * 1024) == ""
    assert said(1536 * 1024 + 1) == "etcdserver: request is too large"
    assert said(2 * 1024 * 1024) == "etcdserver: request is too large"
    assert said(2 * 1024 * 1024 + 1).endswith("trying to send message larger than max (2097153 vs. 2097152)")


async def test_states_that_writers_hand_over_stay_as_they_were_stored_whatever_is_written_next(world: World) -> None:
    cache = world.store("resourceclaims").cache
    cache.followers = 1
    seen: list[Entry] = []

    def check() -> None:
        entry = cache.get(f"{cache.prefix}default/a")
        assert entry is not None
        seen.append(entry)
        assert [entry.obj for entry in seen] == [shown(entry) for entry in seen]

    await world.create("resourceclaims", {**CLAIM, "metadata": {"name": "a", "finalizers": ["x/y", "x/z"]}})
    check()
    allocated = {"status": {"allocation": {"devices": {"results": [DEVICE]}}}}
    await world.merge("resourceclaims", "a", allocated, subresource="status")
    check()
    await world.merge("resourceclaims", "a", {"metadata": {"labels": {"a": "b"}, "finalizers": ["x/z"]}})
    check()
    sent = {**CLAIM, "metadata": {"name": "a", "annotations": {"a": "b"}, "finalizers": ["x/z"]}}
    await world.update("resourceclaims", "a", sent)
    check()
    applied = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a", "labels": {"c": "d"}},
    }
    await world.call("patch", "resourceclaims", "a", applied, "fieldManager=m", content_type=APPLY)
    check()
    await world.delete("resourceclaims", "a")
    check()
    await world.merge("resourceclaims", "a", {"metadata": {"labels": None}})
    check()
    assert all(entry.primed is not None for entry in seen[:5])
