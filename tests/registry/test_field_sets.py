"""Field sets: their algebra, and comparisons of two objects by a schema."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apiserver.api.schema.language import DEDUCED, INT32, STRING, ListOf, MapOf, Struct, field
from apiserver.registry.body.convert import strip_empty
from apiserver.registry.fields.set import contains, difference, intersection, of_paths, ordered, paths, union, without
from apiserver.registry.fields.walk import collect_applied, compare

PORT = Struct(
    "io.test.v1.Port",
    (field("number", 1, INT32, required=True), field("protocol", 2, STRING, default="TCP"), field("name", 3, STRING)),
)
LIMITS = Struct("io.test.v1.Limits", (field("soft", 1, INT32), field("hard", 2, INT32)))
REF = Struct("io.test.v1.Ref", (field("name", 1, STRING), field("uid", 2, STRING)), atomic=True)
THING: Struct = Struct(
    "io.test.v1.Thing",
    lambda: (
        field("labels", 1, MapOf(STRING)),
        field("ports", 2, ListOf(PORT, "map", ("number", "protocol"))),
        field("tags", 3, ListOf(STRING, "set")),
        field("args", 4, ListOf(STRING)),
        field("limits", 5, LIMITS, omit=False),
        field("extra", 6, LIMITS, pointer=True),
        field("ref", 7, REF, pointer=True),
        field("child", 8, THING, pointer=True),
        field("spares", 9, ListOf(STRING), keep_empty=True),
    ),
)


def sets() -> st.SearchStrategy[dict[str, Any]]:
    """Generate field sets in canonical form."""

    def node(children: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        inner = st.dictionaries(st.sampled_from(["f:a", "f:b", 'k:{"n":1}', 'v:"x"']), children, min_size=1, max_size=3)
        return st.one_of(inner, inner.map(lambda below: {".": {}, **below}))

    tree: st.SearchStrategy[dict[str, Any]] = st.recursive(st.just({}), node, max_leaves=8)
    return st.dictionaries(st.sampled_from(["f:a", "f:b", "f:c"]), tree, max_size=3)


@given(sets(), sets())
def test_union_holds_the_paths_of_both(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert set(paths(union(a, b))) == set(paths(a)) | set(paths(b))


@given(sets(), sets())
def test_difference_and_intersection_part_a_set(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert set(paths(difference(a, b))) == set(paths(a)) - set(paths(b))
    assert set(paths(intersection(a, b))) == set(paths(a)) & set(paths(b))
    assert union(difference(a, b), intersection(a, b)) == union(a, {})


@given(sets(), sets())
def test_without_drops_paths_and_all_below_them(a: dict[str, Any], b: dict[str, Any]) -> None:
    gone = paths(b)
    kept = [path for path in paths(a) if not any(path == g or path.startswith((g + ".", g + "[")) for g in gone)]
    assert sorted(paths(without(a, b))) == sorted(kept)


@given(sets())
def test_operations_keep_the_one_form(a: dict[str, Any]) -> None:
    assert difference(a, a) == {}
    assert intersection(a, a) == a
    assert ordered(a) == a


def test_a_set_of_plain_paths() -> None:
    assert of_paths("status", "metadata.labels") == {"f:status": {}, "f:metadata": {"f:labels": {}}}
    assert contains(of_paths("metadata", "metadata.labels"), "f:metadata")
    assert not contains(of_paths("metadata.labels"), "f:metadata")


EMPTY: dict[str, Any] = {"limits": {}}


def test_what_was_absent_is_gained_with_all_below_it() -> None:
    gained, lost = compare(THING, EMPTY, {"labels": {"x": "1"}, "limits": {"soft": 1}, "extra": {"hard": 2}})
    assert lost == {}
    assert gained == {"f:labels": {".": {}, "f:x": {}}, "f:limits": {"f:soft": {}}, "f:extra": {".": {}, "f:hard": {}}}


def test_an_empty_value_is_a_leaf() -> None:
    assert compare(THING, EMPTY, {"limits": {}, "extra": {}}) == ({"f:extra": {}}, {})


def test_list_items_are_known_by_their_keys_and_defaults_fill_absent_ones() -> None:
    gained, lost = compare(THING, EMPTY, {"limits": {}, "ports": [{"number": 80, "name": "http"}]})
    assert gained == {"f:ports": {".": {}, 'k:{"number":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:number": {}}}}
    assert lost == {}


def test_a_changed_item_gains_only_its_changed_field() -> None:
    old = {"ports": [{"number": 80, "name": "a"}, {"number": 81}], "limits": {}}
    new = {"ports": [{"number": 80, "name": "b"}], "limits": {}}
    gained, lost = compare(THING, old, new)
    assert gained == {"f:ports": {'k:{"number":80,"protocol":"TCP"}': {"f:name": {}}}}
    assert lost == {"f:ports": {'k:{"number":81,"protocol":"TCP"}': {".": {}, "f:number": {}}}}


def test_items_of_a_set_are_known_by_their_value() -> None:
    expected: Any = ({"f:tags": {'v:"c"': {}}}, {"f:tags": {'v:"a"': {}}})
    assert compare(THING, {"tags": ["a", "b"], "limits": {}}, {"tags": ["b", "c"], "limits": {}}) == expected


def test_atomic_lists_and_structs_are_owned_as_a_whole() -> None:
    old = {"args": ["a"], "ref": {"name": "x"}, "limits": {}}
    expected: Any = ({"f:args": {}, "f:ref": {}}, {})
    assert compare(THING, old, {"args": ["a", "b"], "ref": {"name": "y"}, "limits": {}}) == expected
    assert compare(THING, old, {"limits": {}}) == ({}, {"f:args": {}, "f:ref": {}})


def test_items_that_repeat_a_key_are_compared_as_a_group() -> None:
    twice = {"ports": [{"number": 80, "name": "a"}, {"number": 80, "name": "b"}], "limits": {}}
    element = 'k:{"number":80,"protocol":"TCP"}'
    assert compare(THING, EMPTY, twice)[0] == {"f:ports": {".": {}, element: {}}}
    once = {"ports": [{"number": 80, "name": "a"}], "limits": {}}
    expected: Any = ({"f:ports": {element: {".": {}, "f:name": {}, "f:number": {}}}}, {"f:ports": {element: {}}})
    assert compare(THING, twice, once) == expected


def test_a_type_may_hold_itself() -> None:
    gained, _ = compare(THING, EMPTY, {"limits": {}, "child": {"limits": {}, "child": {"limits": {"soft": 1}}}})
    assert gained == {"f:child": {".": {}, "f:child": {".": {}, "f:limits": {".": {}, "f:soft": {}}}, "f:limits": {}}}


def test_characters_that_go_escapes_are_escaped_in_elements() -> None:
    gained, _ = compare(THING, EMPTY, {"limits": {}, "tags": ['<a & "b">']})
    assert list(gained["f:tags"])[1] == 'v:"\\u003ca \\u0026 \\"b\\"\\u003e"'


def test_a_stated_map_owns_its_keys_but_not_itself_unless_it_is_empty() -> None:
    expected: Any = {"f:labels": {"f:a": {}}, "f:limits": {"f:soft": {}}}
    assert collect_applied(THING, {"labels": {"a": "1"}, "limits": {"soft": 1}}) == expected
    assert collect_applied(THING, {"labels": {}, "extra": {}}) == {"f:extra": {}, "f:labels": {}}


def test_a_stated_item_owns_itself() -> None:
    assert collect_applied(THING, {"ports": [{"number": 1}], "tags": ["a"], "args": []}) == {
        "f:args": {},
        "f:ports": {'k:{"number":1,"protocol":"TCP"}': {".": {}, "f:number": {}}},
        "f:tags": {'v:"a"': {}},
    }


def test_paths_are_shown_as_upstream_shows_them() -> None:
    shown = paths(
        {"f:a": {".": {}, "f:b": {}}, "f:ports": {'k:{"number":80,"protocol":"TCP"}': {}}, "f:tags": {'v:"x"': {}}}
    )
    assert shown == [".a", ".a.b", '.ports[number=80,protocol="TCP"]', '.tags[="x"]']


def test_an_empty_list_belongs_to_who_applies_it_and_is_nothing_in_what_was_written() -> None:
    assert collect_applied(THING, {"args": [], "spares": []}) == {"f:args": {}, "f:spares": {}}
    given = {"spares": [], "child": {"spares": []}}
    assert strip_empty(THING, given) == {"child": {}}
    assert given == {"spares": [], "child": {"spares": []}}
    full = {"spares": ["a"], "child": {"spares": ["b"]}}
    assert strip_empty(THING, full) is full


OPEN = Struct("io.test.v1.Open", (field("known", 1, LIMITS), field("any", 2, DEDUCED)), others=DEDUCED)


def test_what_has_no_schema_is_walked_as_far_as_it_is_maps() -> None:
    nested = {"a": {"b": 1}, "c": [1]}
    assert collect_applied(OPEN, {"any": nested}) == {"f:any": {"f:a": {".": {}, "f:b": {}}, "f:c": {}}}
    assert collect_applied(OPEN, {"other": nested}) == {"f:other": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:c": {}}}
    assert collect_applied(OPEN, {"other": 1, "any": "x"}) == {"f:any": {}, "f:other": {}}
    whole: dict[str, Any] = {"f:any": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:c": {}}}
    assert compare(OPEN, {}, {"any": nested}) == (whole, {})
    assert compare(OPEN, {"any": nested}, {}) == ({}, whole)


def test_what_changes_without_a_schema_is_gained_at_its_place_and_lost_below_it() -> None:
    for old, new, gained, lost in (
        ({"a": 1}, {"a": 2}, {"f:a": {}}, None),
        ({"a": 1}, {"a": 1, "b": {}}, {"f:b": {}}, None),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, None, {"f:a": {"f:c": {}}}),
        ({"a": {"b": 1}}, {"a": 5}, {"f:a": {}}, {"f:a": {"f:b": {}}}),
        ({"a": 5}, {"a": {"b": 1}}, {"f:a": {".": {}, "f:b": {}}}, None),
        ({"a": [1]}, {"a": [2]}, {"f:a": {}}, None),
        ({"a": 5}, {"a": "x"}, {"f:a": {}}, None),
    ):
        plus, minus = compare(OPEN, {"any": old}, {"any": new})
        assert plus == ({} if gained is None else {"f:any": gained})
        assert minus == ({} if lost is None else {"f:any": lost})


def test_elements_that_occur_several_times_are_compared_as_a_group() -> None:
    one, two = {"number": 1, "protocol": "TCP", "name": "a"}, {"number": 1, "protocol": "TCP", "name": "b"}
    element = 'k:{"number":1,"protocol":"TCP"}'
    whole: dict[str, Any] = {".": {}, "f:number": {}, "f:protocol": {}, "f:name": {}}
    for old, new, gained, lost in (
        ([one, two], [two, one], {element: {}}, None),
        ([one], [one, two], {element: {}}, {element: whole}),
        ([one, two], [one], {element: whole}, {element: {}}),
        ([], [one, two], {".": {}, element: {}}, None),
        ([one, two], [one, two, {"number": 2}], {'k:{"number":2,"protocol":"TCP"}': {".": {}, "f:number": {}}}, None),
    ):
        plus, minus = compare(THING, {"ports": old} if old else {}, {"ports": new})
        assert (plus.get("f:ports"), minus.get("f:ports")) == (gained, lost)


def test_keys_and_values_stand_in_elements_as_go_writes_json() -> None:
    tags = ["plain", 'quo"te', "back\\slash", "<&>", "é", "\u2028", "tab\t"]
    elements = collect_applied(THING, {"tags": tags})["f:tags"]
    assert list(elements) == sorted(
        [
            'v:"plain"', 'v:"quo\\"te"', 'v:"back\\\\slash"', 'v:"\\u003c\\u0026\\u003e"', 'v:"é"', 'v:"\\u2028"',
            'v:"tab\\t"',
        ]
    )  # fmt: skip
