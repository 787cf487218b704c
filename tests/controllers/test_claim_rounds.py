"""What one look of the resource claim controller does: claims from templates, reservations, and what is given back."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.resourceclaims.generated_claims import RecentObjects, base_name, generated_claim
from controllers.resourceclaims.pods import POD_CLAIM_NAME, ClaimReferenceError
from controllers.runtime.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.controllers.claimworld import (
    ALLOCATED,
    BY_NAME,
    FROM_TEMPLATE,
    UNKNOWN,
    P,
    World,
    claim,
    group,
    played,
    pod,
    template,
    user,
)

pytestmark = pytest.mark.integration

# --- whose work a change is


@pytest.mark.parametrize(
    ("changed", "there", "keys"),
    [
        (pod(), [], []),
        (pod(FROM_TEMPLATE), [], ["pod:ns/p"]),
        (pod({"name": "broken"}), [], ["pod:ns/p"]),
        (pod(FROM_TEMPLATE, named={"gpu": None}), [], []),
        (pod(FROM_TEMPLATE, named={"gpu": "c"}), [], ["pod:ns/p"]),
        (pod(FROM_TEMPLATE, named={"gpu": "c"}), [claim(owner=P)], []),
        (pod(FROM_TEMPLATE, named={"gpu": "c"}), [claim()], []),
        (pod(BY_NAME), [], []),
        (pod(BY_NAME, on="n"), [claim()], []),
        (pod(BY_NAME, on="n"), [claim(**ALLOCATED)], ["pod:ns/p"]),
        (pod(BY_NAME), [claim(**ALLOCATED)], []),
        (pod(BY_NAME, on="n"), [claim(**ALLOCATED, users=[P])], []),
        (pod(FROM_TEMPLATE, named={"gpu": "c"}, on="n"), [claim(**ALLOCATED)], []),
        (pod(FROM_TEMPLATE, named={"gpu": "c"}, on="n"), [claim(owner=P, **ALLOCATED)], ["pod:ns/p"]),
        (pod(FROM_TEMPLATE, going=True, on="n"), [], []),
        (pod(BY_NAME, FROM_TEMPLATE, going=True), [], ["claim:ns/c"]),
        (pod(BY_NAME, FROM_TEMPLATE, phase="Failed"), [], ["claim:ns/c"]),
        (pod(extended="e"), [], []),
        (pod(extended="e", phase="Succeeded"), [], ["claim:ns/e"]),
    ],
)
def test_a_pod_is_looked_at_where_it_lacks_something_and_its_claims_where_it_is_done(
    changed: Json, there: list[Json], keys: list[str]
) -> None:
    async def scenario() -> None:
        world = World().has(*there)
        assert world.put(PODS, changed) == keys
        assert world.put(PODS, {**changed, "changed": True}) == keys

    played(scenario)


def test_a_pod_that_is_gone_gives_its_claims_back() -> None:
    async def scenario() -> None:
        for found, keys in ((pod(BY_NAME, on="n"), ["claim:ns/c"]), (pod(extended="e", on="n"), ["claim:ns/e"]),
                            (pod(), [])):  # fmt: skip
            world = World().has(found)
            assert world.put(PODS, found, gone=True) == keys
            assert bool(world.part._gone) is bool(keys)

    played(scenario)


def test_a_claim_or_a_template_that_changes_brings_its_pods() -> None:
    async def scenario() -> None:
        world = World().has(pod(BY_NAME, on="n"), pod(FROM_TEMPLATE, name="q"), pod(name="other"))
        assert world.put(RESOURCE_CLAIMS, claim(**ALLOCATED)) == ["claim:ns/c", "pod:ns/p"]
        assert world.put(RESOURCE_CLAIMS, claim(**ALLOCATED, users=[P])) == ["claim:ns/c"]
        assert world.put(RESOURCE_CLAIMS, claim(), gone=True) == []
        assert world.put(RESOURCE_CLAIM_TEMPLATES, template()) == ["pod:ns/q"]
        assert world.put(RESOURCE_CLAIM_TEMPLATES, template(devices={})) == ["pod:ns/q"]
        assert world.put(RESOURCE_CLAIM_TEMPLATES, template("none")) == []
        world.has(pod(FROM_TEMPLATE, named={"gpu": "made"}), claim("made", owner=P))
        assert world.put(RESOURCE_CLAIMS, claim("made"), gone=True) == ["pod:ns/p"], "it is made again"

    played(scenario)


# --- claims for pods


def test_what_a_pod_lacks_is_made_of_the_template_and_told_in_its_status() -> None:
    async def scenario() -> None:
        two = {"name": "two", "resourceClaimTemplateName": "t"}
        world = World().has(pod(BY_NAME, FROM_TEMPLATE | {"name": "one"}, two), template(devices={"x": 1}))
        world.client._answers["ResourceClaim"] = lambda body: world._made(
            {**body, "metadata": {**body["metadata"], "name": body["metadata"]["generateName"] + "x",
                                  "uid": body["metadata"]["generateName"]}}
        )  # fmt: skip
        first, second, status = await world.look("pod:ns/p")
        assert (first[:2], second[:2]) == (("create", "ResourceClaim"),) * 2
        assert first[2] == generated_claim(P, PODS, "one", template(devices={"x": 1}))
        assert second[2]["metadata"]["annotations"] == {POD_CLAIM_NAME: "two"}
        names = [{"name": "one", "resourceClaimName": "p-one-x"}, {"name": "two", "resourceClaimName": "p-two-x"}]
        metadata = {"name": "p", "uid": "p-uid"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"resourceClaimStatuses": names}}
        assert status == ("patch/status", "Pod", ("p", body))
        assert [verb for verb, *_ in await world.look("pod:ns/p")] == ["patch/status"], "remembered until it is seen"
        world.has(claim("p-one-x") | {"metadata": {**claim("p-one-x")["metadata"], "uid": "p-one-"}})
        assert [verb for verb, *_ in await world.look("pod:ns/p")] == ["create", "patch/status"]
        assert world.told.events == []

    played(scenario)


@pytest.mark.parametrize(
    ("found", "there", "verbs"),
    [
        (pod(BY_NAME), [], []),
        (pod(FROM_TEMPLATE, named={"gpu": None}), [], []),
        (pod(FROM_TEMPLATE, named={"gpu": "c"}), [claim(owner=P)], []),
        (pod(FROM_TEMPLATE, named={"gpu": "c"}), [], ["create", "patch/status"]),
        (pod(FROM_TEMPLATE, named={"gpu": "c"}), [claim()], ["create", "patch/status"]),
        (pod(FROM_TEMPLATE), [claim("old", owner=P)], ["patch/status"]),
        (pod(FROM_TEMPLATE), [claim("old", owner=P, entry="other")], ["create", "patch/status"]),
        (pod(FROM_TEMPLATE), [claim("old", owner=pod(name="q"))], ["create", "patch/status"]),
        (pod(FROM_TEMPLATE, going=True), [], []),
        (pod(), [], []),
    ],
)
def test_a_claim_is_made_where_the_pod_has_none(found: Json, there: list[Json], verbs: list[str]) -> None:
    async def scenario() -> None:
        world = World().has(found, template(), *there)
        assert [verb for verb, *_ in await world.look("pod:ns/p")] == verbs
        assert await world.look("pod:ns/none") == []

    played(scenario)


def test_what_cannot_be_made_is_said_and_tried_again() -> None:
    async def scenario() -> None:
        missing = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
        world = World().has(pod(FROM_TEMPLATE))
        await world.refused("pod:ns/p", missing)
        assert world.told.events == [
            ("Warning", "FailedResourceClaimCreation", f"PodResourceClaim gpu: {missing}"),
        ]  # fmt: skip
        world = World().has(pod(FROM_TEMPLATE), template())
        world.client.refuses["create"] = (403, "Forbidden")
        await world.refused("pod:ns/p", "create ResourceClaim : refused")
        assert world.told.reasons == ["FailedResourceClaimCreation"]
        world = World().has(pod({"name": "broken"}))
        with pytest.raises(ClaimReferenceError, match="none of the supported fields are set"):
            await world.look("pod:ns/p")
        assert world.told.reasons == ["FailedResourceClaimCreation"]

    played(scenario)


ADMIN: Json = {"devices": {"requests": [{"name": "a"}, {"name": "r", "exactly": {"adminAccess": True}}]}}
FIRST: Json = {"devices": {"requests": [{"name": "a"}, {"name": "r", "firstAvailable": [{}]}]}}


@pytest.mark.parametrize(
    ("spec", "gate", "text"),
    [(ADMIN, "DRAAdminAccess", "admin access is requested, but the feature is disabled"),
     (FIRST, "DRAPrioritizedList", "template includes a prioritized list of subrequests, but the feature is disabled")],
)  # fmt: skip
def test_a_template_may_ask_for_what_is_enabled(spec: Json, gate: str, text: str) -> None:
    async def scenario() -> None:
        world = World((1, 34), **{gate: False}).has(pod(FROM_TEMPLATE), template(**spec))
        await world.refused("pod:ns/p", text)
        other = FIRST if spec is ADMIN else ADMIN
        allowed = World((1, 34), **{gate: True}).has(pod(FROM_TEMPLATE), template(**spec))
        assert "create" in [verb for verb, *_ in await allowed.look("pod:ns/p")]
        others = World((1, 34), **{gate: False}).has(pod(FROM_TEMPLATE), template(**other))
        assert "create" in [verb for verb, *_ in await others.look("pod:ns/p")]

    played(scenario)


# --- reservations


def test_a_pod_that_is_on_a_node_reserves_what_is_allocated() -> None:
    async def scenario() -> None:
        found = pod(BY_NAME, FROM_TEMPLATE | {"name": "later"}, on="n")
        given = claim(**ALLOCATED)
        world = World().has(found, given, template())
        made, status, reserved = await world.look("pod:ns/p")
        assert (made[0], status[0]) == ("create", "patch/status")
        users = [{"resource": "pods", "name": "p", "uid": "p-uid"}]
        assert reserved == ("update/status", "ResourceClaim",
                            {**given, "status": {**ALLOCATED, "reservedFor": users}})  # fmt: skip
        for other in (claim(), claim(**ALLOCATED, users=[P])):
            assert await World().has(pod(BY_NAME, on="n"), other).look("pod:ns/p") == []
        assert await World().has(pod(BY_NAME, on="n")).look("pod:ns/p") == []
        assert await World().has(pod(BY_NAME), claim(**ALLOCATED)).look("pod:ns/p") == []
        foreign = claim("old", owner=P) | {"status": dict(ALLOCATED)}
        mine = pod(FROM_TEMPLATE, named={"gpu": "old"}, on="n")
        assert [verb for verb, *_ in await World().has(mine, foreign).look("pod:ns/p")] == ["update/status"]
        taken = World().has(pod(FROM_TEMPLATE, named={"gpu": "c"}, on="n"), claim(**ALLOCATED), template())
        await taken.refused("pod:ns/p", r"was not created for Pod ns/p \(Pod is not owner\)")

    played(scenario)


Q = pod(name="q")
RUNS = pod(on="n", phase="Running")


@pytest.mark.parametrize(
    ("found", "there", "writes"),
    [
        (claim(), [], []),
        (claim(**ALLOCATED, users=[RUNS], ours=True), [RUNS], []),
        (claim(**ALLOCATED, users=[RUNS, UNKNOWN], ours=True), [RUNS], []),
        (claim(**ALLOCATED, users=[RUNS, Q], ours=True), [RUNS], [("update/status", [RUNS], True)]),
        (claim(**ALLOCATED, users=[Q, UNKNOWN], ours=True), [], [("update/status", [UNKNOWN], True)]),
        (claim(**ALLOCATED, users=[Q], ours=True), [],
         [("update/status", [], False), ("update", ["other"], False)]),
        (claim(**ALLOCATED, users=[Q]), [], [("update/status", [], True)]),
        (claim(users=[Q], ours=True), [], [("update/status", [], False), ("update", ["other"], False)]),
        (claim(**ALLOCATED, users=[P], ours=True), [pod(uid="another", on="n")],
         [("update/status", [], False), ("update", ["other"], False)]),
        (claim(**ALLOCATED, users=[P], ours=True), [pod(phase="Failed", on="n")],
         [("update/status", [], False), ("update", ["other"], False)]),
        (claim(**ALLOCATED, ours=True), [], []),
        (claim(**ALLOCATED, ours=True, going=True), [],
         [("update/status", [], False), ("update", ["other"], False)]),
        (claim(ours=True, going=True), [], [("update", ["other"], False)]),
        (claim(going=True), [], []),
        (claim(**ALLOCATED, users=[RUNS], ours=True, going=True), [RUNS], []),
        (claim(**ALLOCATED, going=True), [], []),
    ],
)  # fmt: skip
def test_what_nobody_uses_any_more_is_given_back(found: Json, there: list[Json], writes: list[Any]) -> None:
    async def scenario() -> None:
        world = World().has(found, *there)
        seen = []
        for verb, kind, body in await world.look("claim:ns/c"):
            assert kind == "ResourceClaim"
            allocated = "allocation" in body["status"]
            if verb == "update":
                seen.append((verb, body["metadata"]["finalizers"], allocated))
            else:
                assert ("reservedFor" in body["status"]) is bool(body["status"].get("reservedFor"))
                seen.append((verb, body["status"].get("reservedFor") or [], allocated))
        expected = [(v, [user(u) if isinstance(u, dict) else u for u in what], left) for v, what, left in writes]
        assert seen == expected

    played(scenario)


def test_whether_a_pod_is_gone_the_server_says_where_no_informer_shows_it() -> None:
    async def scenario() -> None:
        found = claim(**ALLOCATED, users=[P], ours=True)
        there = World().has(found)
        there.client.there["Pod", "p"] = P
        assert await there.look("claim:ns/c") == []
        there.client.there["Pod", "p"] = pod(uid="another")
        assert len(await there.look("claim:ns/c")) == 2
        there.client.refuses["get"] = (500, "InternalError")
        await there.refused("claim:ns/c", "refused")
        there.client.refuses = {}
        there.client.there["Pod", "p"] = P
        there.has(pod(BY_NAME, on="n"))
        there.put(PODS, pod(BY_NAME, on="n"), gone=True)
        assert len(await there.look("claim:ns/c")) == 2, "that it is gone was seen"
        assert await there.look("claim:ns/none") == []

    played(scenario)


@pytest.mark.parametrize(
    ("owner", "there", "deleted"),
    [
        (P, [pod(phase="Succeeded", on="n")], True),
        (P, [pod(uid="another", on="n")], True),
        (P, [pod(going=True)], True),
        (P, [RUNS], False),
        (P, [], False),
        (None, [pod(phase="Succeeded")], False),
        (group(name="p"), [pod(phase="Succeeded")], False),
    ],
)
def test_a_claim_that_was_made_for_a_pod_goes_with_its_work(owner: Any, there: list[Json], deleted: bool) -> None:
    async def scenario() -> None:
        world = World().has(claim(owner=owner), *there)
        assert await world.look("claim:ns/c") == ([("delete", "ResourceClaim", ("ns/c", {}))] if deleted else [])
        used = World().has(claim(owner=owner, users=[UNKNOWN]), *there)
        assert await used.look("claim:ns/c") == []
        if deleted:
            world.client.refuses["delete"] = (404, "NotFound")
            await world.look("claim:ns/c")
            world.client.refuses["delete"] = (403, "Forbidden")
            await world.refused("claim:ns/c", "refused")

    played(scenario)


# --- names, memory and counts


@pytest.mark.parametrize(
    ("owner", "entry", "base"),
    [("p", "gpu", "p-gpu-"), ("p" * 54, "c", "p" * 54 + "-c-"), ("p" * 55, "c", "p" * 54 + "-c"),
     ("p" * 63, "c" * 63, "p" * 28 + "-" + "c" * 28), ("p" * 200, "c", "p" * 56 + "-c")],
)  # fmt: skip
def test_a_generated_name_shares_the_room_between_owner_and_entry(owner: str, entry: str, base: str) -> None:
    assert base_name(owner, entry) == base


def test_the_last_few_are_remembered() -> None:
    kept = RecentObjects(2)
    for key in ("a", "b", "a", "c"):
        kept.put(key, {"key": key})
    assert list(kept) == ["a", "c"]


def test_what_the_server_has_shown_already_is_not_remembered() -> None:
    async def scenario() -> None:
        for version, remembered in (("6", True), ("7", False), ("8", False), ("", True)):
            world = World().has(pod(FROM_TEMPLATE), template())
            world.part._claims.resource_version = version
            await world.look("pod:ns/p")
            assert bool(world.part._generated._created) is remembered

    played(scenario)


def test_claims_are_counted_by_what_they_are_and_how_they_came_to_be() -> None:
    async def scenario() -> None:
        extended = claim("e", entry="", **ALLOCATED)
        extended["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        plain = claim("plain")
        plain["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "false"}
        admin = claim("admin", owner=P)
        admin["spec"] = ADMIN
        world = World().has(extended, plain, admin, claim("unowned"), pod(FROM_TEMPLATE, name="q"), template(**ADMIN))
        await world.look("pod:ns/q")
        world.client.refuses["create"] = (500, "InternalError")
        world.part._generated._created.clear()
        await world.refused("pod:ns/q", "refused")
        creates, present = world.part._metrics.families
        assert present._read() == {  # type: ignore[attr-defined]
            ("true", "false", "extended_resource"): 1, ("false", "false", ""): 1,
            ("false", "true", "resource_claim_template"): 1, ("false", "false", "resource_claim_template"): 1,
        }  # fmt: skip
        assert [creates.value(how, "true") for how in ("success", "failure")] == [1, 1]  # type: ignore[attr-defined]
        assert len(world.part.metrics) > len(world.part._controller.metrics)

    played(scenario)
