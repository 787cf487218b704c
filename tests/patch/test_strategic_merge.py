"""Strategic merge patch, by the merge keys of the schemas."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.api.patch import PatchError, merge_patch, strategic, strategic_merge_patch
from apiserver.api.types.core.configuration import ConfigMap
from apiserver.api.types.core.nodes import Node
from apiserver.api.types.core.pods import Pod
from apiserver.api.types.resource.v1 import ResourceClaim, ResourceSlice

POD: dict[str, Any] = {
    "metadata": {"name": "p", "finalizers": ["x/a", "x/b", "x/c"], "labels": {"l": "1"}},
    "spec": {
        "containers": [
            {
                "name": "a",
                "image": "a:1",
                "env": [{"name": "E", "value": "1"}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
            },
            {"name": "b", "image": "b:1"},
            {"name": "c", "image": "c:1"},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "k"}],
        "nodeSelector": {"zone": "z"},
    },
}


def patched(patch: dict[str, Any], pod: dict[str, Any] = POD) -> Any:
    before = copy.deepcopy((pod, patch))
    result = strategic_merge_patch(Pod, pod, patch)
    assert (pod, patch) == before, "neither side may be changed"
    return result


def names(result: Any, field: str = "containers") -> list[str]:
    return [item["name"] for item in result["spec"][field]]


def test_elements_with_the_same_key_are_merged_and_come_first() -> None:
    result = patched({"spec": {"containers": [{"name": "b", "image": "b:2"}]}})
    assert result["spec"]["containers"][1] == {"name": "b", "image": "b:2"}
    assert names(result) == ["a", "b", "c"]


def test_new_elements_stand_before_what_the_server_has() -> None:
    assert names(patched({"spec": {"containers": [{"name": "n"}, {"name": "m"}]}})) == ["n", "m", "a", "b", "c"]


def test_lists_below_merged_elements_are_merged_too() -> None:
    result = patched(
        {
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        "env": [{"name": "F", "value": "2"}],
                        "ports": [{"containerPort": 80, "protocol": "UDP"}],
                    }
                ]
            }
        }
    )
    assert result["spec"]["containers"][0]["env"] == [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]
    assert result["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "UDP"}]


def test_lists_without_a_merge_strategy_are_replaced() -> None:
    assert patched({"spec": {"tolerations": [{"operator": "Exists"}]}})["spec"]["tolerations"] == [
        {"operator": "Exists"}
    ]
    claim = {"spec": {"devices": {"requests": [{"name": "r"}, {"name": "s"}]}}}
    change = {"spec": {"devices": {"requests": [{"name": "t"}]}}}
    assert strategic_merge_patch(ResourceClaim, claim, change) == change


def test_consumers_of_a_claim_are_merged_by_uid() -> None:
    claim = {"status": {"reservedFor": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]}}
    change = {"status": {"reservedFor": [{"uid": "2", "name": "c"}, {"uid": "1", "$patch": "delete"}]}}
    assert strategic_merge_patch(ResourceClaim, claim, change) == {
        "status": {"reservedFor": [{"uid": "2", "name": "c"}]}
    }


@pytest.mark.parametrize(
    ("containers", "left"),
    [
        ([{"name": "b", "$patch": "delete"}], ["a", "c"]),
        ([{"name": "zz", "$patch": "delete"}], ["a", "b", "c"]),
        ([{"$patch": "replace"}, {"name": "n"}], ["n"]),
        ([{"$patch": "replace"}], []),
        ([{"name": "c", "$patch": "delete"}, {"name": "n"}], ["n", "a", "b"]),
    ],
)
def test_directives_delete_and_replace_elements(containers: list[Any], left: list[str]) -> None:
    assert names(patched({"spec": {"containers": containers}})) == left


def test_maps_are_merged_replaced_and_emptied() -> None:
    assert patched({"metadata": {"labels": {"m": "2"}}})["metadata"]["labels"] == {"l": "1", "m": "2"}
    assert patched({"metadata": {"labels": {"$patch": "replace", "m": "2"}}})["metadata"]["labels"] == {"m": "2"}
    assert patched({"metadata": {"labels": {"$patch": "delete"}}})["metadata"]["labels"] == {}
    assert "labels" not in patched({"metadata": {"labels": None}})["metadata"]


def test_lists_of_scalars_become_sets_and_can_lose_elements() -> None:
    expected = ["x/d", "x/a", "x/b", "x/c"]
    assert patched({"metadata": {"finalizers": ["x/d", "x/a"]}})["metadata"]["finalizers"] == expected
    assert patched({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/b", "x/zz"]}})["metadata"][
        "finalizers"
    ] == ["x/a", "x/c"]


def test_an_element_order_sorts_what_it_names_and_the_rest_stays_before_what_follows_it() -> None:
    order = {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}
    assert names(patched({"spec": order})) == ["b", "c", "a"]
    order = {"$setElementOrder/containers": [{"name": "n"}, {"name": "a"}], "containers": [{"name": "n", "image": "x"}]}
    assert names(patched({"spec": order})) == ["n", "a", "b", "c"]
    expected = ["x/b", "x/c", "x/a"]
    assert patched({"metadata": {"$setElementOrder/finalizers": ["x/c", "x/a"]}})["metadata"]["finalizers"] == expected


def test_retain_keys_drops_what_it_does_not_list() -> None:
    change = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "m"}}]}}
    assert patched(change)["spec"]["volumes"] == [{"name": "v", "configMap": {"name": "m"}}]


def test_directives_never_stay_in_what_is_added() -> None:
    change = {
        "spec": {
            "affinity": {"nodeAffinity": {"x": {"$patch": "delete"}, "y": None, "z": [{"$patch": "replace"}, {"k": 1}]}}
        }
    }
    assert patched(change)["spec"]["affinity"] == {"nodeAffinity": {"z": [{"k": 1}]}}


@pytest.mark.parametrize(
    ("patch", "message", "status"),
    [
        ({"metadata": {"labels": {"$patch": "nope"}}}, "unknown patch type: nope in map: map[$patch:nope]", 500),
        ({"metadata": {"labels": {"$patch": None}}}, "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]", 500),
        (
            {"metadata": {"labels": {"$patch": [1, "a", None, {"b": True}]}}},
            "unknown patch type: [%!s(int64=1) a <nil> map[b:%!s(bool=true)]] in map: map[$patch:[1 a <nil> map[b:true]]]",
            500,
        ),
        ({"spec": {"containers": [{"image": "x"}]}}, "map: map[image:x] does not contain declared merge key: name", 500),
        ({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}}, "merging lists cannot yet be specified in the patch", 500),
        ({"spec": {"containers": [[]]}}, "list element types are not identical: ", 500),
        ({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name"], "secret": {}}]}}, "invalid patch format of retainKeys", 400),
        ({"metadata": {"$setElementOrder/finalizers": "x"}}, "expected a []interface {}, but received a string", 500),
        ({"metadata": {"$deleteFromPrimitiveList": ["x"]}}, "invalid patch format of primitive list", 400),
        ({"metadata": {"finalizers": ["x/d"], "$setElementOrder/finalizers": ["x/a"]}},
         "The order in patch list:\n[x/d]\n doesn't match $setElementOrder list:\n[x/a]\n", 500),
    ],
)  # fmt: skip
def test_a_patch_that_cannot_be_applied_says_why(patch: dict[str, Any], message: str, status: int) -> None:
    with pytest.raises(PatchError) as caught:
        patched(patch)
    assert caught.value.text.startswith(message)
    assert caught.value.status == status


def test_lists_of_lists_are_refused() -> None:
    with pytest.raises(PatchError, match="lists of lists are not supported") as caught:
        strategic_merge_patch(Node, {"spec": {"podCIDRs": [["x"]]}}, {"spec": {"podCIDRs": [["y"]]}})
    assert caught.value.status == 422


def test_unknown_fields_are_added_but_cannot_be_merged() -> None:
    assert strategic_merge_patch(ConfigMap, {}, {"zzz": {"a": 1}}) == {"zzz": {"a": 1}}
    with pytest.raises(PatchError, match='unable to find api field in struct ConfigMap for the json field "zzz"'):
        strategic_merge_patch(ConfigMap, {"zzz": {}}, {"zzz": {"a": 1}})


_DATA = st.dictionaries(st.sampled_from(["a", "b"]), st.one_of(st.none(), st.text(max_size=2)), max_size=2)


@given(
    old=st.fixed_dictionaries(
        {"metadata": st.fixed_dictionaries({"labels": st.dictionaries(st.sampled_from("ab"), st.text(max_size=2))})}
    ),
    labels=_DATA,
)
@settings(max_examples=50)
def test_without_lists_and_directives_it_is_a_merge_patch(old: dict[str, Any], labels: dict[str, Any]) -> None:
    patch = {"metadata": {"labels": labels}}
    assert strategic_merge_patch(ResourceSlice, old, patch) == merge_patch(old, patch)


@given(order=st.permutations(["a", "b", "c"]), changed=st.sets(st.sampled_from("abc")))
@settings(max_examples=50)
def test_an_order_of_all_elements_is_the_result(order: list[str], changed: set[str]) -> None:
    change: dict[str, Any] = {"$setElementOrder/containers": [{"name": name} for name in order]}
    if changed:
        change["containers"] = [{"name": name, "image": "new"} for name in order if name in changed]
    result = patched({"spec": change})
    assert names(result) == order
    assert {item["name"] for item in result["spec"]["containers"] if item["image"] == "new"} == changed


def test_what_a_patch_leaves_as_it_is_stays_the_same_object() -> None:
    change: dict[str, Any] = {
        "metadata": {"name": "p", "labels": {"l": "1", "gone": None}, "finalizers": ["x/b"]},
        "spec": {"containers": [{"name": "a", "image": "a:1"}], "nodeSelector": {"zone": "other"}},
    }
    result = patched(change)
    assert result["spec"] is not POD["spec"]
    assert result["spec"]["containers"] is POD["spec"]["containers"]
    assert result["metadata"]["labels"] is POD["metadata"]["labels"]
    patch = {"metadata": {"finalizers": None}, "spec": {"nodeSelector": {"zone": True}}}
    assert patched(patch)["spec"]["nodeSelector"] == {"zone": True}
    assert "finalizers" not in patched(patch)["metadata"]


_CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abcdef")}, optional={"image": st.sampled_from("xyz")}), max_size=6
)


@given(old=_CONTAINERS, new=_CONTAINERS)
@settings(max_examples=100)
def test_lists_of_plain_elements_are_merged_as_the_general_rules_do(old: list[Any], new: list[Any]) -> None:
    pod, change = {"spec": {"containers": old}}, {"spec": {"containers": new}}
    quick = strategic_merge_patch(Pod, pod, change)
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(strategic, "_merge_plain", lambda *_: None)
        assert quick == strategic_merge_patch(Pod, pod, change)
