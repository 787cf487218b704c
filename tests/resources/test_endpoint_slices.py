"""EndpointSlices: valid endpoints, ports and addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apiserver.api.objects import Json
from tests.resources.conftest import Judge


def slice_of(kind: str = "IPv4", *endpoints: Json, **more: Any) -> Json:
    return {"addressType": kind, "endpoints": list(endpoints), **more}


def errors(judge: Judge, obj: Json) -> list[str]:
    return judge.create("endpointslices", obj)[1]


def test_a_slice_says_what_its_addresses_are(judge: Judge) -> None:
    assert errors(judge, {}) == ["addressType: Required value"]
    assert errors(judge, slice_of("DNS")) == [
        'addressType: Unsupported value: "DNS": supported values: "FQDN", "IPv4", "IPv6"'
    ]
    stored = judge.create_valid("endpointslices", slice_of())
    assert judge.update("endpointslices", stored, slice_of("IPv6"))[1] == [
        'addressType: Invalid value: "IPv6": field is immutable'
    ]


@pytest.mark.parametrize(
    ("kind", "address", "wrong"),
    [
        ("IPv4", "10.0.0.1", []),
        ("IPv4", "fd00::1", ['endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address']),
        (
            "IPv4",
            "0.0.0.0",
            ['endpoints[0].addresses[0]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)'],
        ),
        ("IPv6", "fd00::1", []),
        (
            "IPv6",
            "FD00:0::1",
            ['endpoints[0].addresses[0]: Invalid value: "FD00:0::1": must be in canonical form ("fd00::1")'],
        ),
        ("FQDN", "a.example.com", []),
        (
            "FQDN",
            "a",
            ['endpoints[0].addresses[0]: Invalid value: "a": should be a domain with at least two segments separated by dots'],
        ),
    ],
)  # fmt: skip
def test_an_address_is_of_the_type_of_its_slice(judge: Judge, kind: str, address: str, wrong: list[str]) -> None:
    assert errors(judge, slice_of(kind, {"addresses": [address]})) == wrong


def test_ports_have_names_of_their_own_and_defaults(judge: Judge) -> None:
    stored = judge.create_valid("endpointslices", slice_of(ports=[{"port": 80}, {"name": "b", "protocol": "UDP"}]))
    assert stored["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}, {"name": "b", "protocol": "UDP"}]
    assert errors(judge, slice_of(ports=[{"port": 80}, {"port": 81, "protocol": "ICMP"}])) == [
        'ports[1].name: Duplicate value: ""',
        'ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
    ]


def test_hints_name_each_zone_and_node_once_and_at_most_eight(judge: Judge) -> None:
    twice = {"forZones": [{"name": "a"}, {"name": "a"}], "forNodes": [{"name": str(n)} for n in range(9)]}
    assert errors(judge, slice_of("IPv4", {"addresses": ["10.0.0.1"], "hints": twice})) == [
        'endpoints[0].hints.forZones[1].name: Duplicate value: "a"',
        "endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items",
    ]


def test_endpoints_that_stay_as_they_are_are_not_judged_again(judge: Judge) -> None:
    old, _ = judge.create("endpointslices", slice_of("IPv4", {"addresses": ["127.0.0.1"]}))
    kept = slice_of("IPv4", {"addresses": ["127.0.0.1"]}, ports=[{"port": 80}])
    stored, wrong = judge.update("endpointslices", old, kept)
    assert (wrong, stored["metadata"]["generation"]) == ([], 2)


def test_topology_is_not_written_but_its_node_is_kept(judge: Judge) -> None:
    old, _ = judge.create("endpointslices", slice_of("IPv4", {"addresses": ["10.0.0.1"]}))
    old["endpoints"][0]["deprecatedTopology"] = {"kubernetes.io/hostname": "n"}
    sent = slice_of(
        "IPv4",
        {"addresses": ["10.0.0.2"], "deprecatedTopology": {"kubernetes.io/hostname": "n"}},
        {"addresses": ["10.0.0.3"], "deprecatedTopology": {"kubernetes.io/hostname": "other"}},
    )
    stored = judge.update_valid("endpointslices", old, sent)
    expected = [("n", False), (None, False)]
    assert [(e.get("nodeName"), "deprecatedTopology" in e) for e in stored["endpoints"]] == expected


def test_odd_addresses_are_warned_of_unless_a_controller_wrote_them(
    judge: Judge, judge_with: Callable[..., Judge]
) -> None:
    obj = slice_of("IPv4", {"addresses": ["010.0.0.1"]})
    assert errors(judge, obj) == ['endpoints[0].addresses[0]: Invalid value: "010.0.0.1": must not have leading 0s']
    lax = judge_with((1, 35), StrictIPCIDRValidation=False)
    resource = lax.find("endpointslices")
    stored = lax.create_valid("endpointslices", obj)
    assert resource.strategy.warnings_on_create(lax.context(resource), stored) == [
        'endpoints[0].addresses[0]: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"'
    ]
    stored["metadata"]["labels"] = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    assert resource.strategy.warnings_on_create(lax.context(resource), stored) == []


def test_the_table_shows_the_first_ports_and_addresses(judge: Judge) -> None:
    columns = {column.name: column for column in judge.find("endpointslices").columns}
    obj = slice_of("IPv4", {"addresses": [f"10.0.0.{n}" for n in range(1, 6)]}, ports=[{"port": 80}, {"name": "b"}, {}])
    assert columns["Endpoints"].cell(obj) == "10.0.0.1,10.0.0.2,10.0.0.3 + 2 more..."
    assert columns["Ports"].cell(obj) == "80,b,*"
    assert columns["Ports"].cell({}) == "<unset>"
