"""One pass of the resource claim controller: claims from templates, reservations, and deallocation."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.resourceclaims.generated_claims import RecentObjects, base_name, generated_claim
from controllers.resourceclaims.pods import POD_CLAIM_NAME, ClaimReferenceError
from controllers.runtime.kinds import PODS
from tests.controllers.claims import (
    ALLOCATED,
    BY_NAME,
    FROM_TEMPLATE,
    UNKNOWN,
    ClaimClient,
    P,
    claim,
    group,
    pod,
    template,
    user,
)

pytestmark = pytest.mark.integration

# --- the keys that a change enqueues


@pytest.mark.parametrize(
    ("changed", "there", "keys"),
    [
        (pod(), [], []),
        (pod(FROM_TEMPLATE), [], ["pod:ns/p"]),
        (pod({"name": "broken"}), [], ["pod:ns/p"]),
        (pod(FROM_TEMPLATE, claims={"gpu": None}), [], []),
        (pod(FROM_TEMPLATE, claims={"gpu": "c"}), [], ["pod:ns/p"]),
        (pod(FROM_TEMPLATE, claims={"gpu": "c"}), [claim(owner=P)], []),
        (pod(FROM_TEMPLATE, claims={"gpu": "c"}), [claim()], []),
        (pod(BY_NAME), [], []),
        (pod(BY_NAME, node="n"), [claim()], []),
        (pod(BY_NAME, node="n"), [claim(**ALLOCATED)], ["pod:ns/p"]),
        (pod(BY_NAME), [claim(**ALLOCATED)], []),
        (pod(BY_NAME, node="n"), [claim(**ALLOCATED, users=[P])], []),
        (pod(FROM_TEMPLATE, claims={"gpu": "c"}, node="n"), [claim(**ALLOCATED)], []),
        (pod(FROM_TEMPLATE, claims={"gpu": "c"}, node="n"), [claim(owner=P, **ALLOCATED)], ["pod:ns/p"]),
        (pod(FROM_TEMPLATE, deleted="x", node="n"), [], []),
        (pod(BY_NAME, FROM_TEMPLATE, deleted="x"), [], ["claim:ns/c"]),
        (pod(BY_NAME, FROM_TEMPLATE, phase="Failed"), [], ["claim:ns/c"]),
        (pod(extended="e"), [], []),
        (pod(extended="e", phase="Succeeded"), [], ["claim:ns/e"]),
    ],
)
async def test_a_pod_is_queued_if_it_lacks_a_claim_and_its_claims_once_it_is_done(
    changed: Json, there: list[Json], keys: list[str]
) -> None:
    client = ClaimClient().has(*there)
    assert client.put(changed) == keys
    assert client.put({**changed, "changed": True}) == keys


async def test_a_pod_that_is_gone_gives_its_claims_back() -> None:
    for found, keys in ((pod(BY_NAME, node="n"), ["claim:ns/c"]), (pod(extended="e", node="n"), ["claim:ns/e"]),
                        (pod(), [])):  # fmt: skip
        client = ClaimClient().has(found)
        assert client.drop(found) == keys
        assert bool(client.component._gone) is bool(keys)


async def test_a_claim_or_a_template_that_changes_brings_its_pods() -> None:
    client = ClaimClient().has(pod(BY_NAME, node="n"), pod(FROM_TEMPLATE, name="q"), pod(name="other"))
    assert client.put(claim(**ALLOCATED)) == ["claim:ns/c", "pod:ns/p"]
    assert client.put(claim(**ALLOCATED, users=[P])) == ["claim:ns/c"]
    assert client.drop(claim()) == []
    assert client.put(template()) == ["pod:ns/q"]
    assert client.put(template(devices={})) == ["pod:ns/q"]
    assert client.put(template("none")) == []
    client.has(pod(FROM_TEMPLATE, claims={"gpu": "made"}), claim("made", owner=P))
    assert client.drop(claim("made")) == ["pod:ns/p"], "it is made again"


# --- claims for pods


async def test_missing_claims_of_a_pod_are_created_from_the_template_and_listed_in_its_status() -> None:
    two = {"name": "two", "resourceClaimTemplateName": "t"}
    client = ClaimClient().has(pod(BY_NAME, FROM_TEMPLATE | {"name": "one"}, two), template(devices={"x": 1}))
    client._answers["ResourceClaim"] = lambda body: {
        **body, "metadata": {**body["metadata"], "name": body["metadata"]["generateName"] + "x", "resourceVersion": "7",
                             "uid": body["metadata"]["generateName"]},
    }  # fmt: skip
    first, second, status = await client.writes_of("pod:ns/p")
    assert (first[:2], second[:2]) == (("create", "ResourceClaim"),) * 2
    assert first[2] == generated_claim(P, PODS, "one", template(devices={"x": 1}))
    assert second[2]["metadata"]["annotations"] == {POD_CLAIM_NAME: "two"}
    names = [{"name": "one", "resourceClaimName": "p-one-x"}, {"name": "two", "resourceClaimName": "p-two-x"}]
    metadata = {"name": "p", "uid": "p-uid"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"resourceClaimStatuses": names}}
    assert status == ("patch/status", "Pod", ("p", body))
    assert await client.verbs_of("pod:ns/p") == ["patch/status"], "remembered until it is seen"
    client.has(claim("p-one-x") | {"metadata": {**claim("p-one-x")["metadata"], "uid": "p-one-"}})
    assert await client.verbs_of("pod:ns/p") == ["create", "patch/status"]
    assert client.events == []


@pytest.mark.parametrize(
    ("found", "there", "verbs"),
    [
        (pod(BY_NAME), [], []),
        (pod(FROM_TEMPLATE, claims={"gpu": None}), [], []),
        (pod(FROM_TEMPLATE, claims={"gpu": "c"}), [claim(owner=P)], []),
        (pod(FROM_TEMPLATE, claims={"gpu": "c"}), [], ["create", "patch/status"]),
        (pod(FROM_TEMPLATE, claims={"gpu": "c"}), [claim()], ["create", "patch/status"]),
        (pod(FROM_TEMPLATE), [claim("old", owner=P)], ["patch/status"]),
        (pod(FROM_TEMPLATE), [claim("old", owner=P, entry="other")], ["create", "patch/status"]),
        (pod(FROM_TEMPLATE), [claim("old", owner=pod(name="q"))], ["create", "patch/status"]),
        (pod(FROM_TEMPLATE, deleted="x"), [], []),
        (pod(), [], []),
    ],
)
async def test_a_claim_is_made_where_the_pod_has_none(found: Json, there: list[Json], verbs: list[str]) -> None:
    client = ClaimClient().has(found, template(), *there)
    assert await client.verbs_of("pod:ns/p") == verbs
    assert await client.writes_of("pod:ns/none") == []


async def test_a_claim_that_cannot_be_created_is_reported_and_tried_again() -> None:
    missing = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
    client = ClaimClient().has(pod(FROM_TEMPLATE))
    await client.fails("pod:ns/p", missing)
    assert client.events == [
        ("Warning", "FailedResourceClaimCreation", f"PodResourceClaim gpu: {missing}"),
    ]  # fmt: skip
    client = ClaimClient().has(pod(FROM_TEMPLATE), template())
    client.refuses["create"] = (403, "Forbidden")
    await client.fails("pod:ns/p", "create ResourceClaim : refused")
    assert client.reasons == ["FailedResourceClaimCreation"]
    client = ClaimClient().has(pod({"name": "broken"}))
    with pytest.raises(ClaimReferenceError, match="none of the supported fields are set"):
        await client.writes_of("pod:ns/p")
    assert client.reasons == ["FailedResourceClaimCreation"]


ADMIN: Json = {"devices": {"requests": [{"name": "a"}, {"name": "r", "exactly": {"adminAccess": True}}]}}
FIRST: Json = {"devices": {"requests": [{"name": "a"}, {"name": "r", "firstAvailable": [{}]}]}}


@pytest.mark.parametrize(
    ("spec", "gate", "text"),
    [(ADMIN, "DRAAdminAccess", "admin access is requested, but the feature is disabled"),
     (FIRST, "DRAPrioritizedList", "template includes a prioritized list of subrequests, but the feature is disabled")],
)  # fmt: skip
async def test_a_template_may_ask_for_what_is_enabled(spec: Json, gate: str, text: str) -> None:
    client = ClaimClient((1, 34), **{gate: False}).has(pod(FROM_TEMPLATE), template(**spec))
    await client.fails("pod:ns/p", text)
    other = FIRST if spec is ADMIN else ADMIN
    allowed = ClaimClient((1, 34), **{gate: True}).has(pod(FROM_TEMPLATE), template(**spec))
    assert "create" in await allowed.verbs_of("pod:ns/p")
    others = ClaimClient((1, 34), **{gate: False}).has(pod(FROM_TEMPLATE), template(**other))
    assert "create" in await others.verbs_of("pod:ns/p")


# --- reservations


async def test_a_pod_that_is_on_a_node_reserves_what_is_allocated() -> None:
    found = pod(BY_NAME, FROM_TEMPLATE | {"name": "later"}, node="n")
    given = claim(**ALLOCATED)
    client = ClaimClient().has(found, given, template())
    made, status, reserved = await client.writes_of("pod:ns/p")
    assert (made[0], status[0]) == ("create", "patch/status")
    users = [{"resource": "pods", "name": "p", "uid": "p-uid"}]
    assert reserved == ("update/status", "ResourceClaim",
                        {**given, "status": {**ALLOCATED, "reservedFor": users}})  # fmt: skip
    for other in (claim(), claim(**ALLOCATED, users=[P])):
        assert await ClaimClient().has(pod(BY_NAME, node="n"), other).writes_of("pod:ns/p") == []
    assert await ClaimClient().has(pod(BY_NAME, node="n")).writes_of("pod:ns/p") == []
    assert await ClaimClient().has(pod(BY_NAME), claim(**ALLOCATED)).writes_of("pod:ns/p") == []
    foreign = claim("old", owner=P) | {"status": dict(ALLOCATED)}
    mine = pod(FROM_TEMPLATE, claims={"gpu": "old"}, node="n")
    assert await ClaimClient().has(mine, foreign).verbs_of("pod:ns/p") == ["update/status"]
    taken = ClaimClient().has(pod(FROM_TEMPLATE, claims={"gpu": "c"}, node="n"), claim(**ALLOCATED), template())
    await taken.fails("pod:ns/p", r"was not created for Pod ns/p \(Pod is not owner\)")


Q = pod(name="q")
RUNS = pod(node="n", phase="Running")


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
        (claim(**ALLOCATED, users=[P], ours=True), [pod(uid="another", node="n")],
         [("update/status", [], False), ("update", ["other"], False)]),
        (claim(**ALLOCATED, users=[P], ours=True), [pod(phase="Failed", node="n")],
         [("update/status", [], False), ("update", ["other"], False)]),
        (claim(**ALLOCATED, ours=True), [], []),
        (claim(**ALLOCATED, ours=True, deleted="x"), [],
         [("update/status", [], False), ("update", ["other"], False)]),
        (claim(ours=True, deleted="x"), [], [("update", ["other"], False)]),
        (claim(deleted="x"), [], []),
        (claim(**ALLOCATED, users=[RUNS], ours=True, deleted="x"), [RUNS], []),
        (claim(**ALLOCATED, deleted="x"), [], []),
    ],
)  # fmt: skip
async def test_an_unused_claim_is_deallocated(found: Json, there: list[Json], writes: list[Any]) -> None:
    client = ClaimClient().has(found, *there)
    seen = []
    for verb, kind, body in await client.writes_of("claim:ns/c"):
        assert kind == "ResourceClaim"
        allocated = "allocation" in body["status"]
        if verb == "update":
            seen.append((verb, body["metadata"]["finalizers"], allocated))
        else:
            assert ("reservedFor" in body["status"]) is bool(body["status"].get("reservedFor"))
            seen.append((verb, body["status"].get("reservedFor") or [], allocated))
    expected = [(v, [user(u) if isinstance(u, dict) else u for u in what], left) for v, what, left in writes]
    assert seen == expected


async def test_a_pod_unknown_to_informers_is_gone_only_if_the_server_has_none() -> None:
    found = claim(**ALLOCATED, users=[P], ours=True)
    there = ClaimClient().has(found)
    there.there["Pod", "p"] = P
    assert await there.writes_of("claim:ns/c") == []
    there.there["Pod", "p"] = pod(uid="another")
    assert len(await there.writes_of("claim:ns/c")) == 2
    there.refuses["get"] = (500, "InternalError")
    await there.fails("claim:ns/c", "refused")
    there.refuses = {}
    there.there["Pod", "p"] = P
    there.has(pod(BY_NAME, node="n"))
    there.drop(pod(BY_NAME, node="n"))
    assert len(await there.writes_of("claim:ns/c")) == 2, "that it is gone was seen"
    assert await there.writes_of("claim:ns/none") == []


@pytest.mark.parametrize(
    ("owner", "there", "deleted"),
    [
        (P, [pod(phase="Succeeded", node="n")], True),
        (P, [pod(uid="another", node="n")], True),
        (P, [pod(deleted="x")], True),
        (P, [RUNS], False),
        (P, [], False),
        (None, [pod(phase="Succeeded")], False),
        (group(name="p"), [pod(phase="Succeeded")], False),
    ],
)
async def test_a_claim_that_was_made_for_a_pod_goes_with_its_work(owner: Any, there: list[Json], deleted: bool) -> None:
    client = ClaimClient().has(claim(owner=owner), *there)
    assert await client.writes_of("claim:ns/c") == ([("delete", "ResourceClaim", ("ns/c", {}))] if deleted else [])
    used = ClaimClient().has(claim(owner=owner, users=[UNKNOWN]), *there)
    assert await used.writes_of("claim:ns/c") == []
    if deleted:
        client.refuses["delete"] = (404, "NotFound")
        await client.writes_of("claim:ns/c")
        client.refuses["delete"] = (403, "Forbidden")
        await client.fails("claim:ns/c", "refused")


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


async def test_what_the_server_has_shown_already_is_not_remembered() -> None:
    for version, remembered in (("6", True), ("7", False), ("8", False), ("", True)):
        client = ClaimClient().has(pod(FROM_TEMPLATE), template())
        client.component._claims.resource_version = version
        await client.writes_of("pod:ns/p")
        assert bool(client.component._generated._created) is remembered


async def test_claims_are_counted_by_what_they_are_and_how_they_came_to_be() -> None:
    extended = claim("e", entry="", **ALLOCATED)
    extended["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    plain = claim("plain")
    plain["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "false"}
    admin = claim("admin", owner=P)
    admin["spec"] = ADMIN
    client = ClaimClient().has(
        extended, plain, admin, claim("unowned"), pod(FROM_TEMPLATE, name="q"), template(**ADMIN)
    )
    await client.writes_of("pod:ns/q")
    client.refuses["create"] = (500, "InternalError")
    client.component._generated._created.clear()
    await client.fails("pod:ns/q", "refused")
    creates, present = client.component._metrics.families
    assert present._read() == {
        ("true", "false", "extended_resource"): 1, ("false", "false", ""): 1,
        ("false", "true", "resource_claim_template"): 1, ("false", "false", "resource_claim_template"): 1,
    }  # fmt: skip
    assert [creates.value(how, "true") for how in ("success", "failure")] == [1, 1]
    assert len(client.component.metrics) > len(client.component._controller.metrics)
