"""Manifests in every form that people have them."""

from pathlib import Path

import pytest

from kubedra.client.manifests import load

pytestmark = pytest.mark.integration

POD = {"apiVersion": "v1", "kind": "Pod"}
NODE = {"apiVersion": "v1", "kind": "Node"}
TWO = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
---
---
apiVersion: v1
kind: Pod
metadata: {name: b}
"""


def test_documents_of_a_text_come_in_order_and_empty_ones_are_skipped() -> None:
    assert [obj["metadata"]["name"] for obj in load(TWO)] == ["a", "b"]


def test_a_directory_is_read_file_by_file_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "2.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: second}\n")
    (tmp_path / "1.json").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first"}}')
    (tmp_path / "notes.txt").write_text("not a manifest")
    assert [obj["metadata"]["name"] for obj in load(tmp_path)] == ["first", "second"]


def test_a_list_is_taken_apart() -> None:
    assert load({"apiVersion": "v1", "kind": "List", "items": [POD, NODE]}) == [POD, NODE]


def test_items_of_a_typed_list_need_not_say_what_they_are() -> None:
    assert load({"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}) == [
        {**POD, "metadata": {"name": "a"}}
    ]


def test_an_object_and_an_iterable_of_objects_are_manifests_too() -> None:
    assert load(POD) == [POD]
    assert load([POD, NODE]) == [POD, NODE]


def test_times_stay_text() -> None:
    (obj,) = load("apiVersion: v1\nkind: Lease\nspec:\n  renewTime: 2026-01-02T03:04:05.000006Z\n")
    assert obj["spec"]["renewTime"] == "2026-01-02T03:04:05.000006Z"


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("/no/such/file.yaml", "/no/such/file.yaml: no such file"),
        ("kind: [\n", "not YAML"),
        ("a: 1\nb: 2\n", "manifest, document 1: not a Kubernetes object: apiVersion and kind missing"),
        (TWO + "---\nkind: Node\n", r"manifest, document 3 \(Node\): not a Kubernetes object: apiVersion missing"),
        (
            [POD, {"apiVersion": "v1", "metadata": {"name": "x"}}],
            r"object 2 \(x\): not a Kubernetes object: kind missing",
        ),
        ("just\ntext\n", "manifest, document 1: not a Kubernetes object but str"),
    ],
    ids=["missing file", "no YAML", "no object", "no apiVersion", "no kind", "text"],
)
def test_what_cannot_be_read_is_named_in_one_line(manifest: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        load(manifest)
    assert "\n" not in str(caught.value)
