"""IPAddresses without a Service are deleted while the server runs, with an event; those of others and new ones stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.server import Running, serve

pytestmark = pytest.mark.integration

ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
SERVICES = "/api/v1/namespaces/default/services"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
OURS = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}


@pytest.fixture
def running() -> Iterator[Running]:
    with serve("--service-cluster-ip-range=10.9.0.0/24,fd00::/112", standing=True) as running:
        yield running


def hold(running: Running, address: str, service: str, labels: dict[str, str]) -> None:
    parent = {"resource": "services", "namespace": "default", "name": service}
    body = {"metadata": {"name": address, "labels": labels}, "spec": {"parentRef": parent}}
    assert running.wire().post(ADDRESSES, body).status == 201


def held(running: Running) -> set[str]:
    return {item["metadata"]["name"] for item in running.wire().get(ADDRESSES).json["items"]} - {"10.9.0.1"}


def events(running: Running) -> list[dict[str, Any]]:
    found = running.wire().get(EVENTS).json["items"]
    return [event for event in found if event["reportingController"] == "ipallocator-repair-controller"]


def test_orphaned_addresses_are_deleted_with_an_event(running: Running) -> None:
    made = running.wire().post(SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}).json
    own = made["spec"]["clusterIP"]
    for address, service in (("10.9.0.77", "gone"), ("fd00::77", "gone"), ("10.9.0.78", "s")):
        hold(running, address, service, OURS)
    hold(running, "10.9.0.79", "gone", {})
    running.time.advance(110)
    assert held(running) == {own, "10.9.0.77", "fd00::77", "10.9.0.78", "10.9.0.79"}
    running.time.advance(80)
    assert held(running) == {own, "10.9.0.79"}
    assert {(event["reason"], event["action"], event["type"], event["note"]) for event in events(running)} == {
        (reason, "IPAddressAllocation", "Warning", f"IPAddress: {address} for Service default/{service} {text}")
        for address, service, reason, text in (
            ("10.9.0.77", "gone", "IPAddressNotAllocated", "appears to have leaked: cleaning up"),
            ("fd00::77", "gone", "IPAddressNotAllocated", "appears to have leaked: cleaning up"),
            ("10.9.0.78", "s", "IPAddressWrongReference", "has a wrong reference; cleaning up"),
        )
    }


def test_a_new_address_waits_for_its_service_and_a_missing_one_is_created(running: Running) -> None:
    made = running.wire().post(SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}).json
    own = made["spec"]["clusterIP"]
    assert running.wire().request("DELETE", f"{ADDRESSES}/{own}").status == 200
    running.time.advance(150)
    hold(running, "10.9.0.77", "gone", OURS)
    running.time.advance(40)
    assert held(running) == {own, "10.9.0.77"}
    running.time.advance(180)
    assert held(running) == {own}
