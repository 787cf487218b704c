"""Claims made from templates, where something gets in their way."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import (
    CORE_EVENTS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
)
from tests.scheduler.world import World
from tests.support.objects import make_claim, make_device_class, make_node, make_pod
from tests.support.virtual import passes

TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "t", "namespace": "ns"},
    "spec": {"spec": make_claim("c")["spec"]},
}  # fmt: skip


def user(name: str, **spec: Any) -> Json:
    return make_pod(name, resourceClaims=[{"name": "d", "resourceClaimTemplateName": "t"}], **spec)


async def claims(world: World) -> list[str]:
    return [claim["metadata"]["name"] for claim in await world.items(RESOURCE_CLAIMS)]


async def test_the_deleted_claim_of_a_pod_that_waits_is_made_again_within_a_second() -> None:
    async with World("scheduler", "resourceclaim-controller") as world:
        await world.add(make_device_class(), make_node("n1"), TEMPLATE, user("p"))
        await passes(3)
        for _ in range(2):
            (before,) = await claims(world)
            await world.client.delete(RESOURCE_CLAIMS, before, "ns")
            await passes(1)
            (after,) = await claims(world)
            assert after != before
            (named,) = (await world.pod("p"))["status"]["resourceClaimStatuses"]
            assert named["resourceClaimName"] == after


async def test_what_keeps_a_claim_from_being_made_is_told_to_the_pod_in_upstreams_words() -> None:
    async with World("resourceclaim-controller") as world:
        await world.add(TEMPLATE)
        hard = {"count/resourceclaims.resource.k8s.io": "0"}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "ns"}}
        made = await world.create(RESOURCE_QUOTAS, {**quota, "spec": {"hard": hard}})
        await world.client.update_status(RESOURCE_QUOTAS, {**made, "status": {"hard": hard, "used": hard}})
        await world.add(user("p"))
        await passes(1)
        event = (await world.items(CORE_EVENTS))[0]
        assert event["reason"] == "FailedResourceClaimCreation"
        start = 'PodResourceClaim d: create ResourceClaim : resourceclaims.resource.k8s.io "p-d-'
        assert event["message"].startswith(start)
        assert "exceeded quota: q" in event["message"]


async def test_a_pod_that_is_put_on_a_node_by_hand_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async with World("resourceclaim-controller") as world:
        await world.add(make_node("n1"), TEMPLATE, user("p", nodeName="n1"))
        await passes(3)
        assert len(await claims(world)) == 1
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
