"""Claims generated from templates when their creation is disturbed."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import CORE_EVENTS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from tests.scheduler.world import World
from tests.support.objects import make_claim_template, make_device_class, make_node, make_pod
from tests.support.virtual import passes

pytestmark = pytest.mark.integration


def make_user(name: str, **spec: Any) -> Json:
    return make_pod(name, resourceClaims=[{"name": "d", "resourceClaimTemplateName": "t"}], **spec)


async def forbid_claims(world: World) -> None:
    """Create a quota of no claims."""
    hard = {"count/resourceclaims.resource.k8s.io": "0"}
    quota = {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": hard}}
    created = await world.create(RESOURCE_QUOTAS, quota)
    await world.client.update_status(RESOURCE_QUOTAS, {**created, "status": {"hard": hard, "used": hard}})


async def claims(world: World) -> list[str]:
    return [claim["metadata"]["name"] for claim in await world.items(RESOURCE_CLAIMS)]


async def test_the_deleted_claim_of_a_waiting_pod_is_recreated_within_a_second() -> None:
    async with World("scheduler", "resourceclaim-controller") as world:
        await world.add(make_device_class(), make_node("n1"), make_claim_template(), make_user("p"))
        await passes(3)
        for _ in range(2):
            (before,) = await claims(world)
            await world.client.delete(RESOURCE_CLAIMS, before, "ns")
            await passes(1)
            (after,) = await claims(world)
            assert after != before
            (named,) = (await world.pod("p"))["status"]["resourceClaimStatuses"]
            assert named["resourceClaimName"] == after


async def test_a_failed_creation_of_a_claim_is_an_event_of_the_pod_in_upstreams_words() -> None:
    async with World("resourceclaim-controller") as world:
        await world.add(make_claim_template())
        await forbid_claims(world)
        await world.add(make_user("p"))
        await passes(1)
        event = (await world.items(CORE_EVENTS))[0]
        assert event["reason"] == "FailedResourceClaimCreation"
        start = 'PodResourceClaim d: create ResourceClaim : resourceclaims.resource.k8s.io "p-d-'
        assert event["message"].startswith(start)
        assert "exceeded quota: q" in event["message"]


async def test_a_pod_bound_by_hand_causes_no_warnings(caplog: pytest.LogCaptureFixture) -> None:
    async with World("resourceclaim-controller") as world:
        await world.add(make_node("n1"), make_claim_template(), make_user("p", nodeName="n1"))
        await passes(3)
        assert len(await claims(world)) == 1
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
