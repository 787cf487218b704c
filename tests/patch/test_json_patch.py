"""JSON patch and merge patch."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.patch import PatchError, json_patch, merge_patch

_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=2)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(st.sampled_from("abc"), _VALUES, max_size=3)


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/x", "value": 1}], {"a": {"b": [1, 2]}, "x": 1}),
        ([{"op": "add", "path": "/a/b/1", "value": 9}], {"a": {"b": [1, 9, 2]}}),
        ([{"op": "add", "path": "/a/b/-", "value": 9}], {"a": {"b": [1, 2, 9]}}),
        ([{"op": "add", "path": "/a/b/-1", "value": 9}], {"a": {"b": [1, 2, 9]}}),
        ([{"op": "add", "path": "/x"}], {"a": {"b": [1, 2]}, "x": None}),
        ([{"op": "remove", "path": "/a/b/0"}], {"a": {"b": [2]}}),
        ([{"op": "remove", "path": "/a/b/-1"}], {"a": {"b": [1]}}),
        ([{"op": "replace", "path": "/a/c", "value": 1}], {"a": {"b": [1, 2], "c": 1}}),
        ([{"op": "replace", "path": "", "value": []}], []),
        ([{"op": "move", "from": "/a/b", "path": "/b"}], {"a": {}, "b": [1, 2]}),
        (
            [{"op": "copy", "from": "/a", "path": "/c"}, {"op": "add", "path": "/c/b/-", "value": 3}],
            {"a": {"b": [1, 2]}, "c": {"b": [1, 2, 3]}},
        ),
        ([{"op": "test", "path": "/a/b", "value": [1, 2]}, {"op": "remove", "path": "/a"}], {}),
        ([{"op": "test", "path": "/nope", "value": None}], {"a": {"b": [1, 2]}}),
        ([{"op": "add", "path": "/a~1b~0~01", "value": 1}], {"a": {"b": [1, 2]}, "a/b~~1": 1}),
        ([], {"a": {"b": [1, 2]}}),
    ],
)
def test_operations_do_what_they_say(operations: list[Any], result: Any) -> None:
    assert json_patch({"a": {"b": [1, 2]}}, operations) == result


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"op": "nope", "path": "/a"}, "Unexpected kind: nope"),
        ({"path": "/a"}, "Unexpected kind: unknown"),
        ({"op": "add", "path": "/x/y", "value": 1}, 'add operation does not apply: doc is missing path: "/x/y": missing value'),
        ({"op": "add", "path": "/a/3", "value": 1}, "error in add for path: '/a/3': Unable to access invalid index: 3: invalid index referenced"),
        ({"op": "add", "path": "/a/01x", "value": 1},
         "error in add for path: '/a/01x': value was not a proper array index: '01x': strconv.Atoi: parsing \"01x\": invalid syntax"),
        ({"op": "remove", "path": "/x"}, "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value"),
        ({"op": "remove", "path": "/a/2"}, "error in remove for path: '/a/2': Unable to access invalid index: 2: invalid index referenced"),
        ({"op": "replace", "path": "/a/7", "value": 1}, "replace operation does not apply: doc is missing key: /a/7: missing value"),
        ({"op": "replace", "path": "", "value": "x"}, "replace operation value must be object or array: %!w(<nil>)"),
        ({"op": "replace"}, "replace operation failed to decode path: operation missing path field: missing value"),
        ({"op": "move", "from": "/a", "path": "/a/b"}, "move operation does not apply: doc is missing destination path: /a/b: missing value"),
        ({"op": "copy", "path": "/x"}, "copy operation failed to decode from: operation, missing from field: missing value"),
        ({"op": "test", "path": "/a/0", "value": True}, "testing value /a/0 failed: test failed"),
        ({"op": "test", "path": "/a/0", "value": 1.0}, "testing value /a/0 failed: test failed"),
        ({"op": "test", "path": 1}, "test operation failed to decode path: json: cannot unmarshal number into Go value of type string"),
    ],
)  # fmt: skip
def test_an_operation_that_cannot_be_done_says_why(operation: dict[str, Any], message: str) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch({"a": [1, 2]}, [operation])
    assert caught.value.text == message


def test_copies_have_a_limit_altogether() -> None:
    copies = [{"op": "copy", "from": "/a", "path": f"/c{number}"} for number in range(4)]
    with pytest.raises(PatchError, match="exceeding the limit 3145728"):
        json_patch({"a": "x" * 1_000_000}, copies)


@given(document=_OBJECTS, value=_VALUES)
def test_what_is_added_can_be_tested_and_removed(document: dict[str, Any], value: Any) -> None:
    before = copy.deepcopy(document)
    document.pop("z", None)
    operations = [
        {"op": "add", "path": "/z", "value": value},
        {"op": "test", "path": "/z", "value": value},
        {"op": "remove", "path": "/z"},
    ]
    assert json_patch(document, operations) == document == before


@given(document=_OBJECTS, patch=_OBJECTS)
def test_merging_follows_rfc_7386_where_no_nulls_are_added(document: dict[str, Any], patch: dict[str, Any]) -> None:
    def reference(target: Any, change: Any) -> Any:
        if not isinstance(change, dict):
            return change
        out = dict(target) if isinstance(target, dict) else {}
        for key, value in change.items():
            if value is None:
                out.pop(key, None)
            else:
                out[key] = reference(out.get(key), value)
        return out

    before = copy.deepcopy((document, patch))
    assert _lists_pruned(merge_patch(document, patch)) == _lists_pruned(reference(document, patch))
    assert (document, patch) == before


def _lists_pruned(value: Any, inside: bool = False) -> Any:
    """Upstream prunes nulls of objects in lists that are added, the RFC does not: compare without them."""
    if isinstance(value, dict):
        return {key: _lists_pruned(item, inside) for key, item in value.items() if not (inside and item is None)}
    return [_lists_pruned(item, True) for item in value] if isinstance(value, list) else value


def test_nulls_stay_in_lists_but_not_in_their_objects() -> None:
    assert merge_patch({}, {"a": [None, {"b": None, "c": 1}]}) == {"a": [None, {"c": 1}]}


def test_what_a_merge_patch_touches_has_its_keys_sorted() -> None:
    merged = merge_patch({"z": {"b": 1, "a": 2}, "m": {"d": 1, "c": 2}}, {"m": {"x": [{"f": 1, "e": 2}]}})
    assert json.dumps(merged) == '{"m": {"c": 2, "d": 1, "x": [{"e": 2, "f": 1}]}, "z": {"b": 1, "a": 2}}'


@pytest.mark.parametrize("patch", [None, 1, "x", True])
def test_a_merge_patch_that_is_no_object_is_none(patch: Any) -> None:
    with pytest.raises(PatchError, match="Invalid JSON Patch") as caught:
        merge_patch({}, patch)
    assert caught.value.status == 400


def test_a_list_as_merge_patch_replaces_the_document() -> None:
    assert merge_patch({"a": 1}, [1]) == [1]
