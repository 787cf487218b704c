"""Services: valid specs and valid updates.

A server assigns addresses and node ports (tests/http/test_service_network.py).
"""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.resources.services.ranges import AddressRange, PortRange
from tests.resources.conftest import Judge

PORTS: list[Json] = [{"port": 80}]
ADDRESS: Json = {"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ipFamilies": ["IPv4"]}
SINGLE: Json = {**ADDRESS, "ipFamilyPolicy": "SingleStack", "ports": PORTS}
BALANCER: Json = {**SINGLE, "type": "LoadBalancer"}


def errors(judge: Judge, **spec: Any) -> list[str]:
    return judge.create("services", {"spec": spec})[1]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"ports": PORTS}, []),
        ({}, ["ports: Required value"]),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, []),
        ({"type": "ExternalName", "externalName": "example.com."}, []),
        ({"type": "ExternalName"}, ["externalName: Required value"]),
        (
            {"type": "ExternalName", "externalName": "a", **ADDRESS},
            [
                "clusterIPs: Forbidden: may not be set for ExternalName services",
                "ipFamilies: Forbidden: may not be set for ExternalName services",
            ],
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30000}]},
            ["ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            {"type": "NodePort", "clusterIP": "None", "clusterIPs": ["None"], "ports": PORTS},
            ["clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
        ),
        (
            {**SINGLE, "clusterIPs": ["10.0.0.9", "10.0.0.10"]},
            ['clusterIPs: Invalid value: ["10.0.0.9","10.0.0.10"]: may specify no more than one IP for each IP family'],
        ),
        (
            {**SINGLE, "ipFamilies": ["IPv6"]},
            ['clusterIPs[0]: Invalid value: "10.0.0.9": expected an IPv6 value as indicated by `ipFamilies[0]`'],
        ),
        ({**SINGLE, "ipFamilies": ["IPv4", "IPv4"]}, ['ipFamilies[1]: Duplicate value: "IPv4"']),
        ({**SINGLE, "clusterIP": ""}, ['clusterIPs: Invalid value: ["10.0.0.9"]: must be empty when `clusterIP` is not specified']),
        ({**SINGLE, "loadBalancerClass": "a/b"}, ["loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"]),
        ({**BALANCER, "externalTrafficPolicy": "Local"}, ["healthCheckNodePort: Required value"]),
        (
            {**SINGLE, "trafficDistribution": "Near"},
            ['trafficDistribution: Unsupported value: "Near": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"'],
        ),
    ],
)  # fmt: skip
def test_what_a_service_says_goes_together(judge: Judge, spec: Json, wrong: list[str]) -> None:
    assert errors(judge, **spec) == ["spec." + text for text in wrong]


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (SINGLE, {**SINGLE, "clusterIPs": ["10.0.0.8"], "clusterIP": "10.0.0.8"},
            ['clusterIPs[0]: Invalid value: ["10.0.0.8"]: may not change once set']),
        (SINGLE, {**SINGLE, "ipFamilies": ["IPv4", "IPv6"], "clusterIPs": ["10.0.0.9", "fd00::1"]}, []),
        ({**SINGLE, "ipFamilies": ["IPv4", "IPv6"], "clusterIPs": ["10.0.0.9", "fd00::1"]},
            {**SINGLE, "ipFamilyPolicy": "PreferDualStack"},
            ["ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the secondary clusterIP",
             "ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the secondary ipFamily"]),
        ({**BALANCER, "loadBalancerClass": "a/b"}, {**BALANCER, "loadBalancerClass": "a/c"},
            ['loadBalancerClass: Invalid value: "a/c": may not change once set']),
        ({**BALANCER, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001},
            {**BALANCER, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30002},
            ["healthCheckNodePort: Forbidden: field is immutable"]),
        ({**SINGLE, "externalIPs": ["010.1.1.1"]}, {**SINGLE, "externalIPs": ["010.1.1.1", "010.1.1.2"]},
            ['externalIPs[1]: Invalid value: "010.1.1.2": must not have leading 0s']),
    ],
)  # fmt: skip
def test_what_a_service_has_stays_unless_it_may_go(judge: Judge, old: Json, new: Json, wrong: list[str]) -> None:
    stored = judge.decoded(judge.find("services"), {"spec": old})
    assert judge.update("services", stored, {"spec": new})[1] == ["spec." + text for text in wrong]


def test_what_a_type_had_goes_with_the_type_unless_it_is_changed(judge: Judge) -> None:
    ports = [{"port": 80, "nodePort": 30000}]
    had = {**BALANCER, "ports": ports, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001}
    stored = judge.decoded(judge.find("services"), {"spec": {**had, "loadBalancerClass": "a/b"}})
    stored["status"]["loadBalancer"] = {"ingress": [{"ip": "10.1.1.1", "ipMode": "VIP"}]}
    sent = {**stored["spec"], "type": "ClusterIP"}
    spec = judge.update_valid("services", stored, {"spec": sent})
    assert spec["status"] == {"loadBalancer": {}}
    gone = ("externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts", "loadBalancerClass")
    assert [name for name in gone if name in spec["spec"]] == []
    assert spec["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert judge.update("services", stored, {"spec": {**sent, "healthCheckNodePort": 30002}})[1] != []
    named = {**sent, "type": "ExternalName", "externalName": "a"}
    assert "clusterIPs" not in judge.update("services", stored, {"spec": named})[0]["spec"]


def test_a_balancer_has_addresses_of_a_known_mode(judge: Judge) -> None:
    stored = judge.decoded(judge.find("services"), {"spec": BALANCER})

    def wrong(*ingress: Json) -> list[str]:
        sent = {**stored, "status": {"loadBalancer": {"ingress": list(ingress)}}}
        return judge.update("services", stored, sent, status=True)[1]

    at = "status.loadBalancer.ingress[0]."
    assert wrong({"ip": "10.1.1.1"}) == []
    assert wrong({"hostname": "a", "ipMode": "VIP"}) == [
        at + "ipMode: Forbidden: may not be specified when `ip` is not set"
    ]
    assert wrong({"ip": "10.1.1.1", "ipMode": "Odd"}) == [
        at + 'ipMode: Unsupported value: "Odd": supported values: "Proxy", "VIP"'
    ]


def test_authors_are_told_what_is_ignored(judge: Judge) -> None:
    resource = judge.find("services")
    sent = {"clusterIP": "None", "externalIPs": ["10.1.1.1"], "externalName": "a", "trafficDistribution": "PreferClose"}
    stored = judge.decoded(resource, {"spec": sent})
    assert resource.strategy.warnings_on_create(judge.context(resource), stored) == [
        "spec.externalIPs is ignored for headless services",
        'spec.externalName is ignored when spec.type is not "ExternalName"',
        'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
    ]


def test_what_is_chosen_comes_from_the_upper_part_first() -> None:
    found = list(AddressRange("10.0.0.0/24").candidates(lambda size: size - 1))
    assert (len(found), found[0], found[1], found[-1]) == (254, "10.0.0.254", "10.0.0.17", "10.0.0.15")
    assert set(found[-16:]) == {f"10.0.0.{n}" for n in range(1, 17)}
    assert "10.0.0.0" not in AddressRange("10.0.0.0/24")
    assert "10.0.0.255" not in AddressRange("10.0.0.0/24")
    assert "fd00::ffff" in AddressRange("fd00::/112")
    assert list(PortRange(30000, 30003).numbers.candidates(lambda _: 0)) == [30000, 30001, 30002, 30003]
    assert next(PortRange(30000, 32767).numbers.candidates(lambda _: 0)) == 30086


def test_a_name_for_something_elsewhere_has_no_policy_for_traffic(judge: Judge) -> None:
    spec = {"type": "ExternalName", "externalName": "example.com", "internalTrafficPolicy": "Cluster"}
    made, wrong = judge.create("services", {"spec": spec})
    assert (wrong, made["spec"].get("internalTrafficPolicy")) == ([], None)
