"""Ranges of services' addresses: ready when they come, and gone when no service needs them, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.kube(clock="virtual")]


def cidr(name: str, *cidrs: str) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": metadata, "spec": {"cidrs": cidrs}}


def service(name: str, address: str) -> dict[str, Any]:
    spec = {"ports": [{"port": 80}], "clusterIP": address}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def ready(kube: Any, name: str) -> tuple[str, str]:
    (condition,) = kube.client().get(f"servicecidr/{name}")["status"]["conditions"]
    return condition["status"], condition["reason"]


def names(kube: Any) -> set[str]:
    return {item["metadata"]["name"] for item in kube.client().list("servicecidrs")}


def test_a_second_range_gives_addresses_and_stays_until_they_are_given_back(kube: Any) -> None:
    client = kube.client()
    kube.apply([cidr("second", "10.96.7.0/28")])
    kube.advance(seconds=1)
    assert ready(kube, "second") == ("True", "")
    kube.apply([service("a", "10.96.7.9")])
    client.delete("servicecidr/second")
    kube.advance(seconds=60)
    assert ready(kube, "second") == ("False", "Terminating")
    client.delete("service/a")
    kube.advance(seconds=1)
    assert "second" not in names(kube)
