"""`apply` is server-side apply: fields have managers, mistakes are errors that say where they are."""

from pathlib import Path

import pytest

from apiserver.api.objects import Json
from kubedra.client.client import ApiError
from kubedra.pytest_plugin import Kube
from tests.support.objects import pod_manifest

pytestmark = pytest.mark.integration

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
MISSPELT = pod_manifest("web", nodeNme="n1")


def test_a_field_that_is_left_out_of_the_next_manifest_goes(kube: Kube) -> None:
    kube.apply({**MAP, "data": {"a": "1", "b": "2"}})
    (now,) = kube.apply({**MAP, "data": {"a": "1"}})
    assert now["data"] == {"a": "1"}


def test_what_others_set_stays(kube: Kube) -> None:
    kube.apply({**MAP, "data": {"a": "1"}})
    kube.client().patch("configmap/settings", {"data": {"theirs": "2"}})
    (now,) = kube.apply({**MAP, "data": {"a": "3"}})
    assert now["data"] == {"a": "3", "theirs": "2"}


def test_a_field_of_another_manager_is_a_conflict_that_force_takes(kube: Kube) -> None:
    kube.client().apply({**MAP, "data": {"a": "1"}}, field_manager="someone")
    with pytest.raises(ApiError, match=r'^ConfigMap settings: .*conflict with "someone"') as caught:
        kube.apply({**MAP, "data": {"a": "2"}})
    assert caught.value.code == 409
    (now,) = kube.apply({**MAP, "data": {"a": "2"}}, force=True)
    assert now["data"] == {"a": "2"}


def test_a_misspelt_field_is_an_error_that_names_file_document_and_kind(kube: Kube, tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(f"{MAP}\n---\n{MISSPELT}\n")
    with pytest.raises(ApiError, match="nodeNme") as caught:
        kube.apply(file)
    assert str(caught.value).startswith(f"{file}, document 2 (Pod web): ")
    assert kube.list("pods") == []


def test_unknown_fields_are_dropped_where_that_is_wanted(kube: Kube) -> None:
    for _ in range(2):
        (pod,) = kube.apply(MISSPELT, strict=False)
        assert "nodeNme" not in pod["spec"]
    with pytest.raises(ApiError, match="nodeNme"):
        kube.client().create({**MISSPELT, "metadata": {"name": "other"}})


@pytest.mark.parametrize("api_version", ["example.com/v1", "v1"])
def test_a_kind_that_is_not_served_is_named_with_its_place(kube: Kube, tmp_path: Path, api_version: str) -> None:
    file = tmp_path / "things.yaml"
    file.write_text(f"apiVersion: {api_version}\nkind: Widget\nmetadata:\n  name: w\n")
    with pytest.raises(ApiError) as caught:
        kube.apply(file)
    assert str(caught.value) == f'{file}, document 1 (Widget w): no kind "Widget" is served in version "{api_version}"'


def test_a_document_without_a_name_is_named(kube: Kube) -> None:
    with pytest.raises(ValueError, match=r"^object 2 \(ConfigMap\): no metadata.name"):
        kube.apply([MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}}])


def a_definition(kind: str, *versions: str, plural: str = "") -> Json:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    plural = plural or f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
                for name in versions
            ],
        },
    }


def a_widget(version: str = "v1", name: str = "w") -> Json:
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("clock", [pytest.param(c, marks=pytest.mark.kube(clock=c)) for c in ("real", "virtual")])
def test_an_object_may_follow_its_definition(kube: Kube, strict: bool, clock: str) -> None:
    definition, widget = kube.apply([a_definition("Widget", "v1"), a_widget()], strict=strict)
    assert {"Established", "NamesAccepted"} <= {c["type"] for c in definition["status"]["conditions"]}
    assert widget["metadata"]["uid"]
    assert kube.list("widgets") == [widget]


def test_an_object_may_follow_a_new_version_of_its_definition(kube: Kube) -> None:
    kube.apply([a_definition("Widget", "v1"), a_widget()])
    kube.apply([a_definition("Widget", "v1", "v2"), a_widget("v2", "second")])
    assert len(kube.list("widgets")) == 2


def test_a_definition_that_is_being_deleted_is_applied_again(kube: Kube) -> None:
    for _ in range(3):
        kube.apply([a_definition("Widget", "v1"), a_widget()])
        kube.delete("crd/widgets.example.com")
    (definition,) = kube.apply(a_definition("Widget", "v1"))
    assert "deletionTimestamp" not in definition["metadata"]
    assert kube.list("widgets") == []


def test_a_definition_without_free_names_is_returned(kube: Kube) -> None:
    kube.apply(a_definition("Widget", "v1"))
    (second,) = kube.apply(a_definition("Widget", "v1", plural="others"))
    assert {c["type"]: c["status"] for c in second["status"]["conditions"]}["NamesAccepted"] == "False"


def test_a_definition_that_is_never_served_is_an_error_with_its_place(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEDRA_WAIT_TIMEOUT", "0.1")
    kube.apply(
        [a_definition("Widget", "v1"), {**a_widget(), "metadata": {"name": "w", "finalizers": ["example.com/f"]}}]
    )
    kube.delete("crd/widgets.example.com")
    with pytest.raises(TimeoutError, match=r"^CustomResourceDefinition widgets\.example\.com: its kind was not served"):
        kube.apply(a_definition("Widget", "v1"))
    kube.patch("widget/w", {"metadata": {"finalizers": None}})
