"""What of a pod a service's endpoints show, rule by rule: without a server."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.endpoints.services import ports
from controllers.endpoints.slices import _with_hints, address_types, endpoint_of

pytestmark = pytest.mark.integration


def service(**spec: Any) -> Json:
    return {"metadata": {"name": "web", "namespace": "ns"}, "spec": spec}


def pod(*, ready: bool = True, leaving: bool = False, **spec: Any) -> Json:
    metadata = {"name": "p", "namespace": "ns", "uid": "u", **({"deletionTimestamp": "x"} if leaving else {})}
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"podIPs": [{"ip": "10.0.0.1"}], "conditions": conditions}
    return {"metadata": metadata, "spec": {"containers": [], **spec}, "status": status}


@pytest.mark.parametrize(
    ("ready", "leaving", "unready_too", "shown"),
    [(True, False, False, True), (False, False, False, False), (True, True, False, False), (True, True, True, True)],
)
def test_a_pod_that_leaves_still_serves_but_is_ready_only_where_all_are(
    ready: bool, leaving: bool, unready_too: bool, shown: bool
) -> None:
    made = endpoint_of(service(publishNotReadyAddresses=unready_too), pod(ready=ready, leaving=leaving), None, "IPv4")
    assert made is not None
    assert made["conditions"] == {"ready": shown, "serving": ready, "terminating": leaving}
    assert endpoint_of(service(), pod(), None, "IPv6") is None


def test_a_host_name_shows_only_in_the_domain_of_the_service() -> None:
    named = [endpoint_of(service(), pod(hostname="a", subdomain=domain), None, "IPv4") for domain in ("web", "other")]
    assert [(one or {}).get("hostname") for one in named] == ["a", None]


def test_a_named_port_is_that_of_a_container_or_sidecar_with_its_protocol() -> None:
    def container(number: int, protocol: str, **more: Any) -> Json:
        return {"ports": [{"name": "dns", "containerPort": number, "protocol": protocol}], **more}

    one = pod(containers=[container(1, "TCP")])
    one["spec"]["initContainers"] = [container(2, "UDP"), container(3, "UDP", restartPolicy="Always")]
    wanted = service(ports=[{"port": 53, "targetPort": "dns", "protocol": p} for p in ("TCP", "UDP", "SCTP")])
    assert [number for _, number in ports(wanted, one)] == [1, 3]


@pytest.mark.parametrize(
    ("spec", "families"),
    [
        ({"ipFamilies": ["IPv6", "IPv4"]}, ["IPv6", "IPv4"]),
        ({"clusterIP": "fd00::1"}, ["IPv6"]),
        ({"clusterIP": "10.0.0.1"}, ["IPv4"]),
        ({"clusterIP": "None"}, ["IPv4", "IPv6"]),
    ],
)
def test_a_service_has_endpoints_of_its_families_or_of_those_of_its_address(spec: Json, families: list[str]) -> None:
    assert address_types(service(**spec)) == families


def test_hints_are_of_ready_endpoints_and_go_with_the_wish_for_them() -> None:
    one = {"conditions": {"ready": True}, "zone": "a", "nodeName": "n"}
    zone, node = [{"name": "a"}], [{"name": "n"}]
    assert _with_hints(one, "PreferSameZone") == {**one, "hints": {"forZones": zone}}
    assert _with_hints(one, "PreferSameNode") == {**one, "hints": {"forZones": zone, "forNodes": node}}
    assert _with_hints({**one, "hints": {"forZones": zone}}, "") == one
    unready = {**one, "conditions": {"ready": False}}
    assert _with_hints(unready, "PreferSameZone") == unready
