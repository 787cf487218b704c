"""One pass of the resource claim controller over groups of pods, and over claims for whole workloads."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.resourceclaims.generated_claims import generated_claim
from controllers.runtime.kinds import POD_GROUPS
from tests.controllers.claims import (
    ALLOCATED,
    BY_NAME,
    FROM_TEMPLATE,
    GROUPS,
    UNKNOWN,
    ClaimClient,
    claim,
    group,
    pod,
    template,
    user,
)

pytestmark = pytest.mark.integration

# --- claims for groups

MEMBER = pod(FROM_TEMPLATE, group="g")


async def test_a_group_without_a_claim_is_queued_with_its_pods() -> None:
    client = ClaimClient(**GROUPS).has(template())
    assert client.put(group()) == []
    assert client.put(group(FROM_TEMPLATE)) == ["podgroup:ns/g"]
    assert client.put(group(FROM_TEMPLATE, deleted="x")) == []
    client.has(MEMBER, group(FROM_TEMPLATE))
    assert client.put({**MEMBER, "changed": True}) == ["pod:ns/p"], "it has no name for it"
    assert client.put(group(FROM_TEMPLATE) | {"x": 1}) == ["pod:ns/p", "podgroup:ns/g"]
    assert client.put(template(devices={})) == ["pod:ns/p", "podgroup:ns/g"]
    named = group(FROM_TEMPLATE, claims={"gpu": "c"})
    assert client.put(named) == ["pod:ns/p", "podgroup:ns/g"], "its claim is not there"
    assert client.put(claim(owner=named)) == ["claim:ns/c", "pod:ns/p"]
    client.has(pod(FROM_TEMPLATE, group="g", claims={"gpu": "c"}))
    assert client.put(named | {"x": 1}) == []
    assert client.drop(claim()) == ["podgroup:ns/g"], "the group's work, not the pod's"
    assert client.drop(named) == ["claim:ns/c"]
    assert "g-uid" in client.component._gone
    assert client.put(group(BY_NAME, name="other")) == [], "nothing has to be made"
    assert client.drop(group(name="none")) == []


@pytest.mark.parametrize(
    ("found", "there", "verbs"),
    [
        (group(FROM_TEMPLATE), [], ["create", "patch/status"]),
        (group(BY_NAME), [], []),
        (group(), [], []),
        (group(FROM_TEMPLATE, deleted="x"), [], []),
        (group(FROM_TEMPLATE), [claim("old", owner=group())], ["patch/status"]),
        (group(FROM_TEMPLATE, claims={"gpu": "c"}), [], ["create", "patch/status"]),
        (group(FROM_TEMPLATE, claims={"gpu": "c"}), [claim()], ["create", "patch/status"]),
        (group(FROM_TEMPLATE, claims={"gpu": "c"}), [claim(owner=group())], []),
        (group(FROM_TEMPLATE, claims={"gpu": None}), [], []),
    ],
)
async def test_a_groups_claim_is_made_once(found: Json, there: list[Json], verbs: list[str]) -> None:
    client = ClaimClient(**GROUPS).has(found, template(), *there)
    writes = await client.writes_of("podgroup:ns/g")
    assert [verb for verb, *_ in writes] == verbs
    if "create" in verbs:
        assert writes[0][2] == generated_claim(group(), POD_GROUPS, "gpu", template())
    if verbs:
        assert writes[-1][1] == "PodGroup"
    assert await client.writes_of("podgroup:ns/none") == []
    assert await ClaimClient().writes_of("podgroup:ns/g") == []


async def test_a_claim_that_cannot_be_created_is_reported_for_the_group() -> None:
    client = ClaimClient(**GROUPS).has(group(FROM_TEMPLATE))
    await client.fails("podgroup:ns/g", 'resource claim template "t"')
    [(kind, reason, message)] = client.events
    assert (kind, reason) == ("Warning", "FailedResourceClaimCreation")
    assert message.startswith('PodGroupResourceClaim gpu: resource claim template "t"')


async def test_a_pod_of_a_group_has_its_groups_claim_and_waits_for_the_group() -> None:
    client = ClaimClient(**GROUPS).has(MEMBER, template())
    await client.fails("pod:ns/p", 'get PodGroup for Pod ns/p: podgroup.scheduling.k8s.io "g" not found')
    whole = group(FROM_TEMPLATE)
    client.has(whole)
    assert await client.writes_of("pod:ns/p") == [], "the group's claim is not there yet"
    shared = claim("shared", owner=whole)
    client.has(shared)
    [(verb, kind, (name, body))] = await client.writes_of("pod:ns/p")
    assert (verb, kind, name) == ("patch/status", "Pod", "p")
    assert body["status"]["resourceClaimStatuses"] == [{"name": "gpu", "resourceClaimName": "shared"}]
    own = pod(FROM_TEMPLATE | {"name": "own"}, group="g")
    assert await client.has(own).verbs_of("pod:ns/p") == ["create", "patch/status"]


async def test_a_groups_reservation_holds_while_the_group_is_there() -> None:
    whole = group(FROM_TEMPLATE)
    found = claim(**ALLOCATED, users=[whole], ours=True)
    assert await ClaimClient(**GROUPS).has(found, whole).writes_of("claim:ns/c") == []
    assert len(await ClaimClient(**GROUPS).has(found).writes_of("claim:ns/c")) == 2
    assert await ClaimClient().has(found).writes_of("claim:ns/c") == [], "without the gate it is of an unknown kind"
    placed = pod(FROM_TEMPLATE, group="g", claims={"gpu": "c"}, node="n")
    allocated = claim(owner=whole, **ALLOCATED)
    client = ClaimClient(**GROUPS).has(whole, allocated)
    assert client.put(placed) == ["pod:ns/p"]
    [(verb, _, body)] = await client.writes_of("pod:ns/p")
    assert (verb, body["status"]["reservedFor"]) == ("update/status", [user(whole)])
    assert client.put(claim(owner=whole, **ALLOCATED, users=[whole])) == ["claim:ns/c"]


# --- claims for workloads as a whole


async def test_a_claim_for_a_workload_is_open_to_its_pods_and_given_back_when_the_reference_is_gone() -> None:
    open_to_all: Json = {"allocation": {"devices": {}, "reservedForAnyPod": True}}
    client = ClaimClient(DRAReservedForWorkloads=True).has(claim(**open_to_all, ours=True))
    assert await client.verbs_of("claim:ns/c") == ["update/status", "update"]
    assert await ClaimClient().has(claim(**open_to_all, ours=True)).writes_of("claim:ns/c") == []
    assert client.put(pod(BY_NAME, node="n")) == [], "nothing to reserve"
    wanted = claim(**ALLOCATED)
    wanted["spec"] = {"reservedFor": UNKNOWN}
    unlisted = pod(BY_NAME, node="n")
    client = ClaimClient(DRAReservedForWorkloads=True).has(wanted, unlisted)
    [(_, _, body)] = await client.writes_of("pod:ns/p")
    assert body["status"]["reservedFor"] == [user(unlisted)], "a stored allocation cannot be opened"
    assert "reservedForAnyPod" not in body["status"]["allocation"]


async def test_devices_stay_allocated_while_unlisted_pods_run_with_an_open_claim() -> None:
    open_to_all: Json = {"allocation": {"devices": {}, "reservedForAnyPod": True}}
    running, gone = pod(BY_NAME, node="n"), pod(BY_NAME, uid="gone")
    client = ClaimClient(DRAReservedForWorkloads=True).has(claim(**open_to_all, ours=True), running)
    assert await client.writes_of("claim:ns/c") == []
    client = ClaimClient(DRAReservedForWorkloads=True).has(claim(**open_to_all, users=[gone], ours=True), running)
    [(_, _, body)] = await client.writes_of("claim:ns/c")
    assert body["status"] == open_to_all
    done = {**running, "status": {"phase": "Succeeded"}}
    client = ClaimClient(DRAReservedForWorkloads=True).has(claim(**open_to_all, ours=True), done)
    assert await client.verbs_of("claim:ns/c") == ["update/status", "update"]
    listed = ClaimClient(DRAReservedForWorkloads=True).has(claim(**ALLOCATED, ours=True))
    assert await listed.verbs_of("claim:ns/c") == ["update/status", "update"], "the last of a mixed list is gone"
