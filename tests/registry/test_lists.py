"""Get and list: selectors, pages, versions."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.registry.verbs.continuation import decode_token, encode_token
from apiserver.registry.verbs.selection import labels_of
from tests.registry.conftest import World


def names(listing: Any) -> list[str]:
    return [entry.obj["metadata"]["name"] for entry in listing.entries]


async def fill(world: World) -> None:
    for name, labels in (("a", {"app": "x", "tier": "1"}), ("b", {"app": "y"}), ("c", {"app": "x"}), ("d", None)):
        await world.create("configmaps", {"metadata": {"name": name, "labels": labels}})


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app%3Dx", "ac"), ("app", "abc"), ("!app", "d"), ("app!%3Dx", "bd"), ("app%3Dx,tier%3D1", "a"), ("app+in+(x,y),!tier", "bc"), ("app%3Dnope", ""),
        ("app+in+(y,z)", "b"), ("app,app!%3Dx", "b"), ("app+notin+(x)", "bd"), ("tier+in+(1),app", "a"),
        ("", "abcd"),
    ],
)  # fmt: skip
async def test_label_selectors(world: World, selector: str, expected: str) -> None:
    await fill(world)
    assert names(await world.list("configmaps", f"labelSelector={selector}")) == list(expected)


async def test_an_index_follows_what_is_written_after_it_was_built(world: World) -> None:
    await fill(world)
    assert names(await world.list("configmaps", "labelSelector=app%3Dx")) == ["a", "c"]
    await world.merge("configmaps", "a", {"metadata": {"labels": {"app": "y"}}})
    await world.delete("configmaps", "b")
    await world.create("configmaps", {"metadata": {"name": "e", "labels": {"app": "x"}}})
    assert names(await world.list("configmaps", "labelSelector=app%3Dx")) == ["c", "e"]
    assert names(await world.list("configmaps", "labelSelector=app%3Dy")) == ["a"]


async def test_field_selectors(world: World) -> None:
    for name, node in (("p", "n1"), ("q", "")):
        await world.create("pods", {"metadata": {"name": name}, "spec": {"containers": [], "nodeName": node}})
    assert names(await world.list("pods", "fieldSelector=spec.nodeName%3Dn1")) == ["p"]
    assert names(await world.list("pods", "fieldSelector=spec.nodeName%3D")) == ["q"]
    assert names(await world.list("pods", "fieldSelector=metadata.name!%3Dp")) == ["q"]
    assert names(await world.list("pods", "fieldSelector=metadata.name%3Dq,spec.nodeName%3Dn1")) == []
    assert names(await world.list("pods", "fieldSelector=metadata.namespace%3Ddefault", namespace="")) == ["p", "q"]
    with pytest.raises(
        StatusError, match=r'"spec\.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    ):
        await world.list("configmaps", "fieldSelector=spec.x%3D1")


async def test_labels_and_fields_select_together(world: World) -> None:
    both = {"app": "x", "tier": "1"}
    pods = (("p", "n1", both), ("q", "n1", {"app": "x"}), ("r", "n2", both), ("s", "n1", {"tier": "1"}))
    for name, node, has in pods:
        spec = {"containers": [], "nodeName": node}
        await world.create("pods", {"metadata": {"name": name, "labels": has}, "spec": spec})
    for labels, fields, expected in (
        ("app%3Dx", "spec.nodeName%3Dn1", "pq"),
        ("app%3Dx,tier%3D1", "spec.nodeName%3Dn1", "p"),
        ("app%3Dx,tier", "spec.nodeName%3Dn1,metadata.name!%3Dp", ""),
        ("tier", "spec.nodeName!%3Dn1", "r"),
        ("app", "metadata.name%3Dq", "q"),
        ("tier", "metadata.name%3Dq", ""),
    ):
        for more in ("", "&resourceVersion=0", "&limit=9"):
            found = await world.list("pods", f"labelSelector={labels}&fieldSelector={fields}{more}")
            assert names(found) == list(expected), (labels, fields, more)


async def test_pages_are_of_one_revision(world: World) -> None:
    await fill(world)
    first = await world.list("configmaps", "limit=2")
    assert (names(first), first.remaining) == (["a", "b"], 2)
    await world.create("configmaps", {"metadata": {"name": "bb"}})
    await world.delete("configmaps", "d")
    second = await world.list("configmaps", f"limit=2&continue={first.continue_token}")
    assert (names(second), second.continue_token, second.remaining) == (["c", "d"], "", None)
    assert second.revision == first.revision


async def test_selected_pages_tell_no_count_and_go_on(world: World) -> None:
    await fill(world)
    first = await world.list("configmaps", "limit=1&labelSelector=app")
    assert (names(first), first.remaining) == (["a"], None)
    second = await world.list("configmaps", f"limit=1&labelSelector=app&continue={first.continue_token}")
    assert names(second) == ["b"]


async def pages(world: World, query: str) -> list[list[str]]:
    """Return the names of every page."""
    found, token = [], ""
    while True:
        page = await world.list("configmaps", query + (f"&continue={token}" if token else ""))
        found.append(names(page))
        token = page.continue_token
        if not token:
            return found


@pytest.mark.parametrize("size", [1, 2, 500])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("limit=2", ["ab", "cd"]),
        ("limit=3", ["abc", "d"]),
        ("limit=4", ["abcd"]),
        ("limit=9", ["abcd"]),
        ("limit=1&labelSelector=app", ["a", "b", "c", ""]),
        ("limit=2&labelSelector=app%3Dx", ["ac", ""]),
        ("limit=3&labelSelector=app", ["abc", ""]),
        ("limit=2&labelSelector=!app", ["d"]),
        ("limit=1&labelSelector=none", [""]),
        ("limit=2&fieldSelector=metadata.name!%3Db", ["ac", "d"]),
    ],
)
async def test_pages_hold_as_many_as_were_asked_for_whatever_is_read_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch, size: int, query: str, expected: list[str]
) -> None:
    """A full page announces more objects if any follow it, selected or not."""
    monkeypatch.setattr("apiserver.registry.verbs.list._PAGE", size)
    await fill(world)
    assert await pages(world, query) == [list(page) for page in expected]


async def test_pages_of_the_past_hold_what_was_selected_then(world: World) -> None:
    await fill(world)
    then = world.registry.log.revision
    await world.merge("configmaps", "a", {"metadata": {"labels": {"app": None}}})
    await world.delete("configmaps", "c")
    await world.create("configmaps", {"metadata": {"name": "e", "labels": {"app": "x"}}})
    for query, expected in (
        ("labelSelector=app%3Dx&limit=1", [["a"], ["c"]]),
        ("labelSelector=app&limit=2", [["a", "b"], ["c"]]),
        ("labelSelector=app&limit=3", [["a", "b", "c"]]),
        ("limit=3", [["a", "b", "c"], ["d"]]),
        ("limit=4", [["a", "b", "c", "d"]]),
    ):
        exact = f"resourceVersion={then}&resourceVersionMatch=Exact&{query}"
        first = await world.list("configmaps", exact)
        found, token = [names(first)], first.continue_token
        while token:
            page = await world.list("configmaps", f"{query}&continue={token}")
            found.append(names(page))
            token = page.continue_token
            assert page.revision == then
        assert [page for page in found if page] == expected, query
    whole = await world.list("configmaps", f"resourceVersion={then}&resourceVersionMatch=Exact&labelSelector=app")
    assert (names(whole), whole.continue_token, whole.remaining) == (["a", "b", "c"], "", None)
    with pytest.raises(StatusError, match="specifying resource version is not allowed when using continue"):
        await world.list("configmaps", f"resourceVersion=1&continue={first.continue_token or encode_token('x', '', 1)}")


async def test_versions_of_a_list(world: World) -> None:
    await world.create("configmaps", {"metadata": {"name": "a"}})
    then = world.registry.log.revision
    await world.create("configmaps", {"metadata": {"name": "b"}})
    assert names(await world.list("configmaps", "resourceVersion=0&limit=1")) == ["a", "b"]
    assert names(await world.list("configmaps", f"resourceVersion={then}")) == ["a", "b"]
    assert names(await world.list("configmaps", f"resourceVersion={then}&resourceVersionMatch=Exact")) == ["a"]
    assert names(await world.list("configmaps", f"resourceVersion={then}&limit=5")) == ["a"]
    assert names(await world.list("configmaps", "limit=-1")) == ["a", "b"]


async def test_versions_that_cannot_be_had(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apiserver.registry.verbs.revisions.WAIT_SECONDS", 0.01)
    for query in (
        "resourceVersion=999",
        "resourceVersion=999&resourceVersionMatch=Exact",
        "resourceVersion=999&limit=1",
    ):
        with pytest.raises(StatusError, match="Too large resource version: 999, current: 1") as large:
            await world.list("configmaps", query)
        assert (large.value.code, large.value.reason) == (504, "Timeout")
        assert large.value.to_dict()["details"]["retryAfterSeconds"] == 1
    with pytest.raises(
        StatusError, match=r'invalid resource version: resourceVersion: Invalid value: "abc": strconv\.ParseUint'
    ) as bad:
        await world.list("configmaps", "resourceVersion=abc")
    assert bad.value.code == 400
    await world.create("configmaps", {"metadata": {"name": "a"}})
    with pytest.raises(StatusError, match='resourceVersion: Invalid value: "abc"') as bare:
        await world.call("get", "configmaps", "a", query="resourceVersion=abc")
    assert (bare.value.code, bare.value.reason) == (500, "")


async def test_a_compacted_page_offers_to_go_on_in_the_present(world: World) -> None:
    await fill(world)
    first = await world.list("configmaps", "limit=2")
    for i in range(3):
        await world.merge("configmaps", "c", {"data": {"n": str(i)}})
    await world.forget_history("configmaps")
    with pytest.raises(StatusError, match="The provided continue parameter is too old") as gone:
        await world.list("configmaps", f"limit=2&continue={first.continue_token}")
    assert gone.value.code == 410
    token = gone.value.to_dict()["metadata"]["continue"]
    assert names(await world.list("configmaps", f"limit=2&continue={token}")) == ["c", "d"]
    with pytest.raises(StatusError, match="The resourceVersion for the provided list is too old"):
        await world.list("configmaps", f"resourceVersion={first.revision}&resourceVersionMatch=Exact")


async def test_a_compacted_past_is_gone_whatever_this_server_remembers(world: World) -> None:
    await fill(world)
    first = await world.list("configmaps", "limit=2")
    await world.merge("configmaps", "c", {"data": {"n": "1"}})
    log = world.registry.log
    await log.compact(first.revision)
    assert names(await world.list("configmaps", f"limit=2&continue={first.continue_token}")) == ["c", "d"]
    await log.compact(log.revision)
    with pytest.raises(StatusError, match="The provided continue parameter is too old"):
        await world.list("configmaps", f"limit=2&continue={first.continue_token}")
    with pytest.raises(StatusError, match="The resourceVersion for the provided list is too old"):
        await world.list("configmaps", f"resourceVersion={first.revision}&resourceVersionMatch=Exact")
    assert len(names(await world.list("configmaps", f"resourceVersion={first.revision}"))) == 4


def test_tokens_come_back_as_they_were_made() -> None:
    token = encode_token("/registry/configmaps/ns/a\0", "/registry/configmaps/ns/", 7)
    assert json.loads(base64.urlsafe_b64decode(token + "==")) == {"v": "meta.k8s.io/v1", "rv": 7, "start": "a\0"}
    assert decode_token(token, "/registry/configmaps/ns/") == ("/registry/configmaps/ns/a\0", 7)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("%", "illegal base64 data at input byte 0"),
        ("abc", "invalid character 'i' looking for beginning of value"),
        ("YQE", "invalid character 'a' looking for beginning of value"),
        ("AWE", "invalid character '\\x01' looking for beginning of value"),
        ("", "unexpected end of JSON input"),
        ("IA", "unexpected end of JSON input"),
        ("ew", "unexpected end of JSON input"),
        ("eHs", "invalid character 'x' looking for beginning of value"),
        ("IHg", "invalid character 'x' looking for beginning of value"),
        ("bnVsbA", "server does not recognize this encoded version "),
        ("W10", "json: cannot unmarshal array into Go value of type storage.continueToken"),
        ("eyJydiI6dHJ1ZX0", "json: cannot unmarshal bool into Go struct field continueToken.rv of type int64"),
        (
            base64.urlsafe_b64encode(b'{"v":"other","rv":5,"start":"a"}').decode().rstrip("="),
            "server does not recognize this encoded version other",
        ),
        (base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":5,"start":"../a"}').decode().rstrip("="), "../a"),
        (
            base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","start":"a"}').decode().rstrip("="),
            "incorrect encoded start resourceVersion",
        ),
    ],
)
def test_wrong_tokens_are_told_in_upstreams_words(token: str, words: str) -> None:
    with pytest.raises(StatusError) as wrong:
        decode_token(token, "/registry/configmaps/")
    assert wrong.value.message.startswith(f"invalid continue token: continue key is not valid: {words}")


async def test_labels_are_read_from_the_bytes_as_the_object_has_them(world: World) -> None:
    given = {"a": "x", "example.com/b": ""}
    sent: list[Json] = [
        {"metadata": {"name": "plain", "labels": given}},
        {"metadata": {"name": "none", "annotations": {"n": '"labels":{"x":"y"}'}}},
        {"metadata": {"name": "both", "labels": given, "annotations": {"labels": "{"}}},
    ]
    for body in sent:
        await world.create("configmaps", body)
    for entry in (await world.list("configmaps")).entries:
        assert labels_of(entry) == entry.obj["metadata"].get("labels")
    await world.create("pods", {"metadata": {"name": "p"}, "spec": {"containers": [], "nodeSelector": {"labels": "x"}}})
    assert labels_of((await world.list("pods")).entries[0]) is None
