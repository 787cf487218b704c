"""A question about pools is answered once, with the figures of their highest generation."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from apiserver.api.objects import Json
from controllers.resourceclaims.pool_status_requests import is_old, pools_of
from controllers.runtime.kinds import RESOURCE_POOL_STATUS_REQUESTS
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_manifest
from tests.support.patience import wait_until

pytestmark = pytest.mark.integration

DRIVER = "d.example.com"
ON = pytest.mark.kube(
    own=True, feature_gates={"DRAResourcePoolStatus": True}, runtime_config="resource.k8s.io/v1alpha3=true"
)


def slice_of(
    name: str,
    pool: str,
    devices: int,
    *,
    generation: int = 1,
    count: int = 1,
    node: str | None = "n",
    driver: str = DRIVER,
) -> Json:
    where = {"nodeName": node} if node else {"allNodes": True}
    spec = {"driver": driver, "pool": {"name": pool, "generation": generation, "resourceSliceCount": count}, **where}
    spec["devices"] = [{"name": f"{name}-{index}"} for index in range(devices)]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def request(name: str, **spec: Any) -> Json:
    return make_manifest(RESOURCE_POOL_STATUS_REQUESTS, name, {"driver": DRIVER, **spec})


def answer_to(kube: Kube, name: str) -> Json:
    client = kube.client()
    path = client.path("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", None, name)
    wait_until(lambda: client.request("GET", path).get("status") is not None, f"{name} is answered")
    status: Json = client.request("GET", path)["status"]
    return status


def test_the_node_is_named_when_all_slices_have_it() -> None:
    same = pools_of([slice_of("a", "p", 1, count=2), slice_of("b", "p", 1, count=2)], DRIVER, None)[0]
    mixed = pools_of([slice_of("a", "p", 1, count=2), slice_of("b", "p", 1, count=2, node=None)], DRIVER, None)[0]
    assert same.status(0)["nodeName"] == "n"
    assert "nodeName" not in mixed.status(0)


@ON
def test_a_request_is_answered_once(kube: Kube) -> None:
    kube.apply([slice_of("a", "a", 2), slice_of("b", "b", 3), request("all"), request("one", limit=1)])
    answer = answer_to(kube, "all")
    figures = {
        "resourceSliceCount": 1,
        "allocatedDevices": 0,
        "unavailableDevices": 0,
        "generation": 1,
        "nodeName": "n",
        "driver": DRIVER,
    }
    assert answer["pools"] == [
        {**figures, "poolName": "a", "totalDevices": 2, "availableDevices": 2},
        {**figures, "poolName": "b", "totalDevices": 3, "availableDevices": 3},
    ]
    (condition,) = answer["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Complete", "True", "CalculationComplete")
    assert condition["message"] == "Calculated status for 2 pools"
    processed = [
        line
        for line in httpx.get(f"{kube.url}/metrics").text.splitlines()
        if line.startswith("resourcepoolstatusrequest_controller_requests")
    ]
    assert processed == [f'resourcepoolstatusrequest_controller_requests_processed_total{{driver_name="{DRIVER}"}} 2']
    short = answer_to(kube, "one")
    assert (short["poolCount"], [pool["poolName"] for pool in short["pools"]]) == (2, ["a"])


@ON
def test_an_incomplete_pool_is_answered_with_the_next_change_of_the_request(kube: Kube) -> None:
    kube.apply([slice_of("a", "p", 1, count=2), request("late")])
    kube.apply(slice_of("b", "p", 1, count=2))
    again = request("late")
    again["metadata"]["labels"] = {"again": "please"}
    kube.apply(again)
    assert answer_to(kube, "late")["pools"][0]["totalDevices"] == 2


def test_answers_are_kept_for_an_hour_and_questions_for_a_day() -> None:
    made = datetime(2026, 1, 1, tzinfo=UTC)
    question = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    done = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T02:00:00Z"}
    answered = {**question, "status": {"conditions": [done]}}
    assert [is_old(question, made + timedelta(hours=hours)) for hours in (2, 24, 25)] == [False, False, True]
    assert [is_old(answered, made + timedelta(hours=hours)) for hours in (2, 3, 4)] == [False, False, True]
    assert is_old({**question, "status": {}}, made + timedelta(hours=2))
