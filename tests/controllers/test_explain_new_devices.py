"""Remedies with new kinds of devices: derived from the selectors of a claim, and tried."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from tests.controllers.test_explain import changes, claim, gpus, node, of_pod, pod, slice_, world
from tests.support.objects import make_device_class

pytestmark = pytest.mark.integration


def selecting(*expressions: str) -> list[Json]:
    return [{"cel": {"expression": each}} for each in expressions]


def of_class(expression: str) -> list[Json]:
    return [make_device_class(selectors=selecting(expression))]


def test_a_new_kind_of_device_is_derived_from_class_and_claim() -> None:
    wanted = claim(
        "wanted", selectors=selecting('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0')
    )
    classes = of_class('device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "H100"')
    base = [node("n"), *classes, pod(), wanted]
    said = "of class gpu (model=H100, memory=40Gi) of driver gpu.example.com to node n"
    assert [(each["changes"], each["node"]) for each in of_pod(world(*base))["changes"]] == [
        ([f"add 1 device {said}"], "n")
    ]
    # Devices of other kinds exist.
    assert f"add 1 device {said}" in changes(of_pod(world(*base, slice_("n", gpus(2)))))
    wanted["spec"]["devices"]["requests"][0]["exactly"]["count"] = 3
    assert changes(of_pod(world(*base))) == [f"add 3 devices {said}"]


def test_a_claim_without_selectors_accepts_a_device_of_any_driver() -> None:
    found = of_pod(world(node("a"), node("b"), claim("wanted"), pod()))
    assert changes(found) == ["add 1 device of class gpu of any driver to node a"]
    # If a matching device exists, more devices like it are proposed instead.
    found = of_pod(world(node("n"), slice_("n", gpus(1)), claim("wanted"), claim("c", held=[("n", "gpu-0")]), pod()))
    assert [each for each in changes(found) if "device" in each] == [
        "add 1 more device like gpu-0 (model=A1) of driver d to node n"
    ]


@pytest.mark.parametrize(
    ("expression", "described"),
    [
        ('device.attributes["d"].model in ["A1", "B2"]', "(model=A1)"),
        ('"d" in device.attributes && device.attributes["d"].model.startsWith("A")', "(model=A)"),
        ('device.attributes["d"].n > 3 && device.attributes["d"].n < 9', "(n=8)"),
        ('4 < device.attributes["d"].n', "(n=5)"),
        ('device.attributes["d"].model == "A1" && device.attributes["d"].model != "B2"', "(model=A1)"),
        ('!(device.attributes["d"].n >= 4 || device.attributes["d"].shared)', "(n=3, shared=false)"),
        ('has(device.attributes["d"].model) && device.attributes["d"].model.lowerAscii() == "a1"', "(model=a1)"),
        ('has(device.attributes["d"].fast) && has(device.capacity["d"].memory)', "(fast=true, memory=1)"),
        ('device.attributes["d"].model != "A1"', "(model=other)"),
        ('device.attributes["d"].version.isGreaterThan(semver("1.2.0"))', "(version=2.0.0)"),
        ('device.attributes["d"].version.compareTo(semver("1.2.0")) < 0', "(version=0.0.0)"),
        ('device.capacity["d"].memory.isGreaterThan(quantity("40Gi"))', "(memory=80Gi)"),
        ('0 > quantity("1").compareTo(device.capacity["d"].memory)', ""),
        ('cel.bind(mine, device.attributes["d"], mine.model == "A1")', "(model=A1)"),
        ('device.attributes["d"].?model.orValue("") == "A1"', "(model=A1)"),
        ('device.attributes["d"].n > 1 ? device.attributes["d"].model == "A1" : false', "(model=A1, n=2)"),
        ('device.attributes["d"].model.matches("^A[0-9]$")', ""),
        ("false", ""),
    ],
)
def test_attributes_of_the_device_are_derived_from_the_selectors(expression: str, described: str) -> None:
    wanted = claim("wanted", selectors=selecting(expression))
    found = of_pod(world(node("n"), wanted, pod()))
    said = [each for each in changes(found) if each.startswith("add 1 device ")]
    assert said == ([f"add 1 device of class gpu {described} of driver d to node n"] if described else [])


def test_a_shared_device_has_the_requested_capacity() -> None:
    gates = {"DRAConsumableCapacity": True}
    wanted = claim(
        "wanted", selectors=selecting("device.allowMultipleAllocations"), capacity={"requests": {"memory": "10Gi"}}
    )
    found = of_pod(world(node("n"), wanted, pod(), gates=gates))
    assert changes(found)[:1] == ["add 1 device of class gpu (memory=10Gi) of any driver to node n"]


def test_devices_of_two_kinds_are_found_in_sequence() -> None:
    one = claim("one", selectors=selecting('device.attributes["d"].model == "A1"'))
    two = claim("two", selectors=selecting('device.attributes["e"].speed == 100'))
    found = of_pod(world(node("n"), one, two, pod(claims=("one", "two"))))
    assert changes(found) == [
        "add 1 device of class gpu (model=A1) of driver d to node n and add 1 device of class gpu (speed=100) of driver e to node n"
    ]


def test_a_missing_class_is_to_be_created() -> None:
    wanted = claim("wanted", deviceClassName="nope")
    base = [node("n"), wanted, pod()]
    assert changes(of_pod(world(*base, slice_("n", gpus(1))))) == ["create device class nope"]
    assert changes(of_pod(world(*base))) == [
        "create device class nope and add 1 device of class nope of any driver to node n"
    ]
    either = {
        "name": "r",
        "firstAvailable": [{"name": "a", "deviceClassName": "nope", "allocationMode": "ExactCount", "count": 1}],
    }
    # An existing class that rejects all devices is not reported as missing.
    found = of_pod(world(*base, claim("wanted"), *of_class("false"), slice_("n", gpus(1))))
    assert changes(found) == []
    wanted["spec"]["devices"]["requests"] = [either]
    assert changes(of_pod(world(*base, slice_("n", gpus(1))))) == ["create device class nope"]


@pytest.mark.parametrize("there", [[], gpus(4)], ids=["none", "without it"])
def test_new_devices_share_the_attribute_of_a_constraint(there: list[Json]) -> None:
    wanted = claim("wanted", 2)
    wanted["spec"]["devices"]["constraints"] = [{"matchAttribute": "d/numa"}]
    found = of_pod(world(node("n"), slice_("n", there), wanted, pod()))
    assert changes(found) == ["add 2 devices of class gpu (d/numa=any) of any driver to node n"]
    # The constraint applies only to another request.
    wanted["spec"]["devices"]["constraints"][0]["requests"] = ["other"]
    found = of_pod(world(node("n"), wanted, pod()))
    assert changes(found) == ["add 2 devices of class gpu of any driver to node n"]
