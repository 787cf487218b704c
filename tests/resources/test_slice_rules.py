"""Valid ResourceSlices."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from apiserver.api.helpers import flat_devices
from apiserver.api.objects import Json
from tests.resources.conftest import Judge, find


def slice_of(*devices: Json, **spec: Any) -> Json:
    return {"spec": {
        "driver": "gpu.example.com", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n",
        **({"devices": list(devices)} if devices else {}), **spec,
    }}  # fmt: skip


def errors(judge: Judge, obj: Json, version: str = "") -> list[str]:
    found: list[str] = judge.create("resourceslices", obj, version)[1]
    return found


def of_device(judge: Judge, **device: Any) -> list[str]:
    return [text.removeprefix("spec.devices[0]") for text in errors(judge, slice_of({"name": "d0", **device}))]


def test_a_node_selector_has_exactly_one_term(judge: Judge) -> None:
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    assert errors(judge, slice_of(nodeName=None, nodeSelector={"nodeSelectorTerms": [term]})) == []
    (wrong,) = errors(judge, slice_of(nodeName=None, nodeSelector={"nodeSelectorTerms": [term, term]}))
    assert wrong.endswith("must have exactly one node selector term")
    assert errors(judge, slice_of(nodeName=None, nodeSelector={})) == [
        "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
        "spec.nodeSelector.nodeSelectorTerms: Invalid value: null: must have exactly one node selector term",
    ]


def test_drivers_may_be_upper_case_with_a_warning(judge: Judge) -> None:
    assert errors(judge, slice_of(driver="GPU.example.com")) == []
    resource = find("resourceslices")
    shown = resource.strategy.warnings_on_create(judge.context(resource), slice_of(driver="GPU.example.com"))
    assert shown == ['spec.driver: driver names should be lowercase; "GPU.example.com" contains uppercase characters']


def test_a_slice_holds_devices_or_counters_even_when_both_lists_are_empty(judge: Judge) -> None:
    assert errors(judge, slice_of(sharedCounters=[], devices=[])) == [
        'spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed'
    ]
    stored = judge.create_valid("resourceslices", slice_of(devices=[]))
    assert "devices" not in stored["spec"]


def test_devices_are_unique_and_limited(judge: Judge) -> None:
    many = [{"name": f"d{i}"} for i in range(129)]
    assert errors(judge, slice_of(*many[:128])) == []
    assert errors(judge, slice_of(*many)) == ["spec.devices: Too many: 129: must have at most 128 items"]
    tainted = {"name": "t", "taints": [{"key": "a", "effect": "NoSchedule"}]}
    assert errors(judge, slice_of(tainted, *many[:64])) == ["spec.devices: Too many: 65: must have at most 64 items"]
    assert errors(judge, slice_of(many[0], many[0])) == ['spec.devices[1]: Duplicate value: "d0"']


@pytest.mark.parametrize(
    ("attribute", "wrong"),
    [
        ({"int": 1}, []), ({"string": "x"}, []), ({"version": "1.2.3"}, []), ({"bool": False}, []),
        ({}, [': Invalid value: "": exactly one value must be specified']),
        ({"string": "x" * 65}, [".string: Too long: may not be more than 64 bytes"]),
        ({"version": "v1"}, ['.version: Invalid value: "v1": must be a string compatible with semver.org spec 2.0.0']),
    ],
)  # fmt: skip
def test_an_attribute_has_one_value(judge: Judge, attribute: Json, wrong: list[str]) -> None:
    assert of_device(judge, attributes={"a": attribute}) == [f".attributes[a]{text}" for text in wrong]


def test_two_values_are_shown_as_the_server_holds_them(judge: Judge) -> None:
    (wrong,) = of_device(judge, attributes={"a": {"int": 1, "bool": True}})
    assert (
        wrong == ".attributes[a]: Invalid value:"
        ' {"IntValue":1,"BoolValue":true,"StringValue":null,"VersionValue":null,"IntValues":null,"BoolValues":null,"StringValues":null,"VersionValues":null}:'
        " exactly one value must be specified"
    )


def test_list_attributes_are_gated_and_not_empty(judge: Judge, judge_with: Any) -> None:
    on = judge_with(DRAListTypeAttributes=True)
    assert of_device(on, attributes={"a": {"ints": [1, 2]}}) == []
    assert of_device(on, attributes={"a": {"ints": []}}) == [
        ".attributes[a].ints: Invalid value: []: must not be empty if specified"
    ]
    assert of_device(judge, attributes={"a": {"ints": [1]}}) == [
        '.attributes[a]: Invalid value: "": exactly one value must be specified'
    ]


def test_attributes_and_capacities_are_limited_together(judge: Judge) -> None:
    attributes = {f"a{i}": {"int": i} for i in range(32)}
    assert of_device(judge, attributes=attributes) == []
    assert of_device(judge, attributes=attributes, capacity={"c": {"value": "1"}}) == [
        ": Invalid value: 33: the total number of attributes and capacities must not exceed 32"
    ]


def test_values_of_attributes_are_limited_together_a_list_counting_as_its_length(judge_with: Any) -> None:
    judge = judge_with(DRAListTypeAttributes=True)
    too_many = ": Invalid value: 49: the total number of attribute values must not exceed 48"
    expected = [": Invalid value: 49: the total number of attributes and capacities must not exceed 32", too_many]
    assert of_device(judge, attributes={f"a{index}": {"int": 1} for index in range(49)}) == expected
    assert of_device(judge, attributes={"a": {"ints": list(range(48))}, "b": {"int": 1}}) == [too_many]
    assert of_device(judge, attributes={"a": {"ints": list(range(47))}, "b": {"int": 1}}) == []


def test_names_of_attributes_are_identifiers_with_an_optional_domain(judge: Judge) -> None:
    assert of_device(judge, attributes={"example.com/a_b": {"int": 1}}) == []
    assert of_device(judge, attributes={"/a": {"int": 1}}) == [
        '.attributes: Invalid value: "": the domain must not be empty'
    ]
    (wrong,) = of_device(judge, attributes={"a-b": {"int": 1}})
    assert wrong.startswith('.attributes: Invalid value: "a-b": a valid C identifier')


def policy(judge: Judge, **given: Any) -> list[str]:
    found = of_device(judge, allowMultipleAllocations=True, capacity={"m": {"value": "10Gi", "requestPolicy": given}})
    return [text.removeprefix(".capacity[m].requestPolicy") for text in found]


def test_a_request_policy_belongs_to_a_shared_device(judge: Judge) -> None:
    assert policy(judge, default="1Gi") == []
    assert of_device(judge, capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}}) == [
        ".capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"
    ]


def test_valid_values_are_sorted_and_hold_the_default(judge: Judge) -> None:
    assert policy(judge, default="1Gi", validValues=["1Gi", "2Gi"]) == []
    assert policy(judge, default="3Gi", validValues=["2Gi", "1Gi"]) == [
        '.validValues[1]: Invalid value: "1Gi": values must be sorted in ascending order',
        '.validValues: Invalid value: "3Gi": default value is not valid according to the requestPolicy',
    ]
    assert policy(judge, validValues=["1Gi"]) == [".default: Required value: required when validValues is defined"]
    assert policy(judge, default="2Gi", validValues=["1Gi", "1024Mi", "2Gi"]) == [
        '.validValues[1]: Duplicate value: "1073741824"'
    ]
    ten = [str(number) for number in range(1, 11)]
    assert policy(judge, default="10", validValues=ten) == []
    assert policy(judge, default="10", validValues=[*ten, "11"]) == [
        ".validValues: Too many: 11: must have at most 10 items",
        '.validValues: Invalid value: "10": default value is not valid according to the requestPolicy',
    ]
    assert policy(judge, validValues=[]) == []


def test_a_range_has_a_minimum_and_steps_that_fit(judge: Judge) -> None:
    assert policy(judge, default="1Gi", validRange={"min": "1Gi", "max": "3Gi", "step": "1Gi"}) == []
    assert policy(judge, default="1Gi", validRange={"max": "2Gi"}) == [
        ".validRange.min: Required value: required when validRange is defined"
    ]
    assert policy(judge, default="1536Mi", validRange={"min": "1Gi", "step": "1Gi"}) == [
        '.validRange.step: Invalid value: "1536Mi": value is not a multiple of a given step (1Gi) from (1Gi)'
    ]
    assert policy(judge, default="20Gi", validRange={"min": "1Gi", "max": "20Gi"}) == [
        '.validRange.max: Invalid value: "20Gi": max is larger than capacity value: 10Gi'
    ]


def test_taints_get_their_time_and_are_checked(judge: Judge) -> None:
    tainted = {"name": "d0", "taints": [{"key": "a", "effect": "NoExecute"}]}
    stored = judge.create_valid("resourceslices", slice_of(tainted))
    assert stored["spec"]["devices"][0]["taints"][0]["timeAdded"] == "2026-01-02T03:04:05Z"
    assert of_device(judge, taints=[{"key": "a"}]) == [".taints[0].effect: Required value"]
    assert of_device(judge, taints=[{"key": "a", "effect": "X"}]) == [
        '.taints[0].effect: Unsupported value: "X": supported values: "NoExecute", "NoSchedule", "None"'
    ]


def test_counters_are_named_and_limited(judge: Judge) -> None:
    counters = {"m": {"value": "1"}}
    assert errors(judge, slice_of(sharedCounters=[{"name": "s", "counters": counters}])) == []
    assert errors(judge, slice_of(sharedCounters=[{"name": "", "counters": {}}])) == [
        "spec.sharedCounters[0].name: Required value", "spec.sharedCounters[0].counters: Required value",
    ]  # fmt: skip
    assert of_device(judge, consumesCounters=[{"counterSet": "s", "counters": counters}] * 2) == [
        '.consumesCounters[1]: Duplicate value: "s"'
    ]


def test_a_device_says_where_it_is_only_when_the_slice_leaves_it_to_devices(judge: Judge) -> None:
    per_device = {"nodeName": None, "perDeviceNodeSelection": True}
    assert errors(judge, slice_of({"name": "d", "allNodes": True}, **per_device)) == []
    (wrong,) = errors(judge, slice_of({"name": "d"}, **per_device))
    assert wrong.startswith("spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes`")
    (wrong,) = of_device(judge, allNodes=True)
    assert wrong.startswith(": Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if")


def test_driver_pool_and_node_do_not_change(judge: Judge) -> None:
    stored, _ = judge.create("resourceslices", slice_of())
    pool = {"name": "p", "generation": 2, "resourceSliceCount": 1}
    assert judge.update("resourceslices", stored, slice_of(pool=pool))[1] == []
    assert judge.update("resourceslices", stored, slice_of(driver="other", nodeName="m"))[1] == [
        'spec.driver: Invalid value: "other": field is immutable',
        'spec.nodeName: Invalid value: "m": field is immutable',
    ]


def test_the_generation_counts_changes_of_the_spec(judge: Judge) -> None:
    stored, _ = judge.create("resourceslices", slice_of({"name": "d0"}))
    assert stored["metadata"]["generation"] == 1
    same, _ = judge.update("resourceslices", stored, slice_of({"name": "d0"}))
    assert same["metadata"].get("generation", 1) == 1
    changed, _ = judge.update("resourceslices", stored, slice_of({"name": "d1"}))
    assert changed["metadata"]["generation"] == 2


def test_a_device_of_v1beta1_has_its_properties_under_basic(judge: Judge) -> None:
    old = slice_of({"name": "d0", "basic": {"attributes": {"a": {"int": 1}}}})
    new = slice_of({"name": "d0", "attributes": {"a": {"int": 1}}})
    assert judge.create("resourceslices", old, "v1beta1") == judge.create("resourceslices", new)


def test_v1beta1_shows_a_node_or_all_nodes_only_where_it_says_something() -> None:
    def shown(**spec: Any) -> Any:
        return flat_devices.slice_from_hub({"spec": spec})["spec"]

    assert shown(nodeName="", allNodes=False, driver="d") == {"driver": "d"}
    assert shown(nodeName="n", allNodes=True) == {"nodeName": "n", "allNodes": True}
    assert flat_devices.slice_from_hub({}) == {}


WAYS: dict[str, Any] = {
    "nodeName": "n",
    "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]},
    "allNodes": True,
    "perDeviceNodeSelection": True,
}


@pytest.mark.parametrize("ways", [chosen for size in range(5) for chosen in itertools.combinations(WAYS, size)])
def test_of_all_ways_to_say_where_devices_are_one_is_chosen(judge: Judge, ways: tuple[str, ...]) -> None:
    found = errors(judge, slice_of(**{"nodeName": None, **{way: WAYS[way] for way in ways}}))
    one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    listed = ", ".join(f"`{way}`" for way in ways)
    several = f'spec: Invalid value: "{{{listed}}}": {one}, but multiple fields are set'
    assert found == {0: [f"spec: Required value: {one}"], 1: []}.get(len(ways), [several])


def test_false_and_empty_are_no_ways_to_say_where_devices_are(judge: Judge) -> None:
    assert errors(judge, slice_of(nodeName="")) == [
        'spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string',
        "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
    ]
    for field in ("allNodes", "perDeviceNodeSelection"):
        assert errors(judge, slice_of(**{field: False})) == [
            f"spec.{field}: Invalid value: false: must be either unset or set to true"
        ]


PLAIN: Json = {"attributes": {"a": {"string": "x"}, "b": {"int": 1}}, "capacity": {"c": {"value": "1"}}}
SIXTEEN: Json = {f"a{number}": {"bool": True} for number in range(16)}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({}, None),
        ({"name": "D 0"}, ".name"),
        ({"attributes": {"a b": {"int": 1}}}, ".attributes"),
        ({"attributes": {"a": {"int": 1}, "b c": {"int": 1}}}, ".attributes"),
        ({"attributes": {"a": {"int": 1}, "b": {}}}, ".attributes[b]"),
        ({"attributes": {"a": {"int": 1, "bool": True}}}, ".attributes[a]"),
        ({"attributes": {"a": {"string": "x" * 64}}}, None),
        ({"attributes": {"a": {"string": "x" * 65}}}, ".attributes[a].string"),
        ({"attributes": {"a": {"version": "1"}}}, ".attributes[a].version"),
        ({"attributes": {"a": {"version": "1.0.0"}}}, None),
        ({"capacity": {"c d": {"value": "1"}}}, ".capacity"),
        ({"capacity": {"c": {"value": "1"}, "d e": {"value": "1"}}}, ".capacity"),
        ({"capacity": {"c": {"value": "1", "requestPolicy": {"default": "2"}}}}, ".capacity[c].requestPolicy"),
        ({"attributes": SIXTEEN, "capacity": {f"c{number}": {"value": "1"} for number in range(16)}}, None),
        ({"attributes": SIXTEEN, "capacity": {f"c{number}": {"value": "1"} for number in range(17)}}, ""),
        ({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}, None),
        ({"taints": [{"key": "k k", "value": "v", "effect": "NoSchedule"}]}, ".taints[0].key"),
        ({"taints": [{"key": "k", "value": "v v", "effect": "NoSchedule"}]}, ".taints[0].value"),
        ({"taints": [{"key": "k", "value": "v", "effect": "Never"}]}, ".taints[0].effect"),
        ({"taints": [{"value": "v", "effect": "NoSchedule"}]}, ".taints[0].key"),
        ({"taints": [{"key": "k", "effect": "NoSchedule"}]}, None),
    ],
)
def test_a_device_that_is_plain_but_for_one_thing_is_refused_for_it(
    judge: Judge, change: Json, where: str | None
) -> None:
    found = of_device(judge, **{**PLAIN, **change})
    assert bool(found) == (where is not None)
    assert all(text.startswith(f"{where}:" if where in ("", ".name") else f"{where}") for text in found), found
