"""What one look of the resource claim controller does for groups of pods, and for workloads as a whole."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.resourceclaims.generated_claims import generated_claim
from controllers.runtime.kinds import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.controllers.claimworld import (
    ALLOCATED,
    BY_NAME,
    FROM_TEMPLATE,
    GROUPS,
    UNKNOWN,
    World,
    claim,
    group,
    played,
    pod,
    template,
    user,
)

pytestmark = pytest.mark.integration

# --- claims for groups

MEMBER = pod(FROM_TEMPLATE, group="g")


def test_a_group_is_looked_at_where_it_lacks_a_claim_and_its_pods_with_it() -> None:
    async def scenario() -> None:
        world = World(**GROUPS).has(template())
        assert world.put(POD_GROUPS, group()) == []
        assert world.put(POD_GROUPS, group(FROM_TEMPLATE)) == ["podgroup:ns/g"]
        assert world.put(POD_GROUPS, group(FROM_TEMPLATE, going=True)) == []
        world.has(MEMBER, group(FROM_TEMPLATE))
        assert world.put(PODS, {**MEMBER, "changed": True}) == ["pod:ns/p"], "it has no name for it"
        assert world.put(POD_GROUPS, group(FROM_TEMPLATE) | {"x": 1}) == ["pod:ns/p", "podgroup:ns/g"]
        assert world.put(RESOURCE_CLAIM_TEMPLATES, template(devices={})) == ["pod:ns/p", "podgroup:ns/g"]
        named = group(FROM_TEMPLATE, named={"gpu": "c"})
        assert world.put(POD_GROUPS, named) == ["pod:ns/p", "podgroup:ns/g"], "its claim is not there"
        assert world.put(RESOURCE_CLAIMS, claim(owner=named)) == ["claim:ns/c", "pod:ns/p"]
        world.has(pod(FROM_TEMPLATE, group="g", named={"gpu": "c"}))
        assert world.put(POD_GROUPS, named | {"x": 1}) == []
        assert world.put(RESOURCE_CLAIMS, claim(), gone=True) == ["podgroup:ns/g"], "the group's work, not the pod's"
        assert world.put(POD_GROUPS, named, gone=True) == ["claim:ns/c"]
        assert "g-uid" in world.part._gone
        assert world.put(POD_GROUPS, group(BY_NAME, name="other")) == [], "nothing has to be made"
        assert world.put(POD_GROUPS, group(name="none"), gone=True) == []

    played(scenario)


@pytest.mark.parametrize(
    ("found", "there", "verbs"),
    [
        (group(FROM_TEMPLATE), [], ["create", "patch/status"]),
        (group(BY_NAME), [], []),
        (group(), [], []),
        (group(FROM_TEMPLATE, going=True), [], []),
        (group(FROM_TEMPLATE), [claim("old", owner=group())], ["patch/status"]),
        (group(FROM_TEMPLATE, named={"gpu": "c"}), [], ["create", "patch/status"]),
        (group(FROM_TEMPLATE, named={"gpu": "c"}), [claim()], ["create", "patch/status"]),
        (group(FROM_TEMPLATE, named={"gpu": "c"}), [claim(owner=group())], []),
        (group(FROM_TEMPLATE, named={"gpu": None}), [], []),
    ],
)
def test_a_groups_claim_is_made_once(found: Json, there: list[Json], verbs: list[str]) -> None:
    async def scenario() -> None:
        world = World(**GROUPS).has(found, template(), *there)
        writes = await world.look("podgroup:ns/g")
        assert [verb for verb, *_ in writes] == verbs
        if "create" in verbs:
            assert writes[0][2] == generated_claim(group(), POD_GROUPS, "gpu", template())
        if verbs:
            assert writes[-1][1] == "PodGroup"
        assert await world.look("podgroup:ns/none") == []
        assert await World().look("podgroup:ns/g") == []

    played(scenario)


def test_what_cannot_be_made_for_a_group_is_said_of_it() -> None:
    async def scenario() -> None:
        world = World(**GROUPS).has(group(FROM_TEMPLATE))
        await world.refused("podgroup:ns/g", 'resource claim template "t"')
        [(kind, reason, message)] = world.told.events
        assert (kind, reason) == ("Warning", "FailedResourceClaimCreation")
        assert message.startswith('PodGroupResourceClaim gpu: resource claim template "t"')

    played(scenario)


def test_a_pod_of_a_group_has_its_groups_claim_and_waits_for_the_group() -> None:
    async def scenario() -> None:
        world = World(**GROUPS).has(MEMBER, template())
        await world.refused("pod:ns/p", 'get PodGroup for Pod ns/p: podgroup.scheduling.k8s.io "g" not found')
        whole = group(FROM_TEMPLATE)
        world.has(whole)
        assert await world.look("pod:ns/p") == [], "the group's claim is not there yet"
        shared = claim("shared", owner=whole)
        world.has(shared)
        [(verb, kind, (name, body))] = await world.look("pod:ns/p")
        assert (verb, kind, name) == ("patch/status", "Pod", "p")
        assert body["status"]["resourceClaimStatuses"] == [{"name": "gpu", "resourceClaimName": "shared"}]
        own = pod(FROM_TEMPLATE | {"name": "own"}, group="g")
        assert [verb for verb, *_ in await world.has(own).look("pod:ns/p")] == ["create", "patch/status"]

    played(scenario)


def test_a_groups_reservation_holds_while_the_group_is_there() -> None:
    async def scenario() -> None:
        whole = group(FROM_TEMPLATE)
        found = claim(**ALLOCATED, users=[whole], ours=True)
        assert await World(**GROUPS).has(found, whole).look("claim:ns/c") == []
        assert len(await World(**GROUPS).has(found).look("claim:ns/c")) == 2
        assert await World().has(found).look("claim:ns/c") == [], "without the gate it is of an unknown kind"
        placed = pod(FROM_TEMPLATE, group="g", named={"gpu": "c"}, on="n")
        allocated = claim(owner=whole, **ALLOCATED)
        world = World(**GROUPS).has(whole, allocated)
        assert world.put(PODS, placed) == ["pod:ns/p"]
        [(verb, _, body)] = await world.look("pod:ns/p")
        assert (verb, body["status"]["reservedFor"]) == ("update/status", [user(whole)])
        assert world.put(RESOURCE_CLAIMS, claim(owner=whole, **ALLOCATED, users=[whole])) == ["claim:ns/c"]

    played(scenario)


# --- claims for workloads as a whole


def test_a_claim_for_a_workload_is_open_to_its_pods_and_given_back_when_the_reference_is_gone() -> None:
    async def scenario() -> None:
        open_to_all: Json = {"allocation": {"devices": {}, "reservedForAnyPod": True}}
        world = World(DRAReservedForWorkloads=True).has(claim(**open_to_all, ours=True))
        assert [verb for verb, *_ in await world.look("claim:ns/c")] == ["update/status", "update"]
        assert await World().has(claim(**open_to_all, ours=True)).look("claim:ns/c") == []
        assert world.put(PODS, pod(BY_NAME, on="n")) == [], "nothing to reserve"
        wanted = claim(**ALLOCATED)
        wanted["spec"] = {"reservedFor": UNKNOWN}
        world = World(DRAReservedForWorkloads=True).has(wanted, pod(BY_NAME, on="n"))
        [(_, _, body)] = await world.look("pod:ns/p")
        assert body["status"]["reservedFor"] == [UNKNOWN]
        assert body["status"]["allocation"]["reservedForAnyPod"] is True

    played(scenario)
