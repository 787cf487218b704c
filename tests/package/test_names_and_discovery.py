"""A client's request is about the object that was named, of a type that the server has by then."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from kubedra.client.client import ApiError, Client
from kubedra.pytest_plugin import Kube

pytestmark = pytest.mark.integration


def a_role(name: str) -> Json:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}


def a_definition(plural: str) -> Json:
    kind = plural.capitalize().removesuffix("s")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def requested_paths(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the paths that the client requests from now on."""
    paths: list[str] = []
    do = client._do

    def record(step: Any) -> Any:
        paths.append(step.path)
        return do(step)

    monkeypatch.setattr(client, "_do", record)
    return paths


ODD = ["a?b", "a#b", "a b", "ü", "a&b=c", "system:x"]


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_never_means_another_object(kube: Kube, name: str) -> None:
    kube.apply([a_role("a"), a_role("system")])
    with pytest.raises(ApiError, match="not found"):
        kube.delete(f"clusterrole/{name}")
    kube.apply(a_role(name))
    assert kube.get(f"clusterrole/{name}")["metadata"]["name"] == name
    assert kube.wait(f"clusterrole/{name}", "create")["metadata"]["name"] == name
    kube.delete(f"clusterrole/{name}")
    assert {role["metadata"]["name"] for role in kube.list("clusterroles")} >= {"a", "system"}


@pytest.mark.parametrize(
    "call",
    [
        lambda kube, name: kube.get(f"clusterrole/{name}"),
        lambda kube, name: kube.get("pod/web", namespace=name),
        lambda kube, name: kube.list("pods", namespace=name),
        lambda kube, name: kube.patch("pod/web", {}, subresource=name),
        lambda kube, name: kube.explain(f"node/{name}"),
    ],
)
@pytest.mark.parametrize("name", ["..", ".", "a%2Fb"])
def test_what_no_path_can_hold_is_refused_before_it_is_sent(
    kube: Kube, name: str, call: Callable[[Any, str], Any]
) -> None:
    with pytest.raises(ValueError, match="invalid resource name"):
        call(kube, name)


def test_a_slash_in_a_name_leads_to_no_subresource(kube: Kube) -> None:
    with pytest.raises(ValueError, match=r'invalid resource name "web/status": \[may not contain \'/\'\]'):
        kube.get("pod/web/status")


def test_a_manifest_with_such_a_name_is_named(kube: Kube, tmp_path: Path) -> None:
    (tmp_path / "role.json").write_text(json.dumps(a_role("a/b")))
    with pytest.raises(ValueError, match=r'role\.json.*: invalid resource name "a/b"'):
        kube.apply(tmp_path / "role.json")


def test_namespaces_and_subresources_are_escaped_too(kube: Kube) -> None:
    path = kube.client().path("v1", "Pod", "x?y", "a#b", "c d/e")
    assert path == "/api/v1/namespaces/x%3Fy/pods/a%23b/c%20d/e"


def test_a_name_is_one_value_of_a_selector(kube: Kube) -> None:
    kube.apply(a_role("other"))
    with pytest.raises(TimeoutError):
        kube.wait("clusterrole/other,metadata.name=other", "create", timeout=0.1)
    assert kube.events("pod/a,b") == []


def test_a_wait_names_an_object(kube: Kube) -> None:
    with pytest.raises(ValueError, match='"pods" names no object'):
        kube.wait("pods", "create")


def test_a_type_that_came_after_discovery_is_found(kube: Kube) -> None:
    kube.apply(a_definition("widgets"))
    assert kube.list("widgets") == []
    kube.apply(a_definition("gadgets"))
    assert kube.list("gadgets") == []
    assert kube.client().resolve("gadget") == ("example.com/v1", "Gadget")


def test_an_extension_server_that_is_down_hinders_no_search(kube: Kube) -> None:
    service = {"service": {"namespace": "default", "name": "none"}, "insecureSkipTLSVerify": True}
    spec = {
        "group": "down.example.com",
        "version": "v1",
        "groupPriorityMinimum": 19000,
        "versionPriority": 1,
        **service,
    }
    kube.apply(a_definition("widgets"))
    name = {"name": "v1.down.example.com"}
    kube.apply([{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": name, "spec": spec}])
    with kube.plane.client() as client:
        assert client.resolve("widget") == ("example.com/v1", "Widget")
        with pytest.raises(ApiError, match="service unavailable"):
            client.path("down.example.com/v1", "Thing")


def test_a_group_that_went_after_discovery_hinders_no_search(kube: Kube) -> None:
    kube.apply(a_definition("widgets"))
    client = kube.client()
    client.resolve("crd")
    kube.delete("crd/widgets.example.com")
    kube.wait("crd/widgets.example.com", "delete")
    with pytest.raises(ApiError, match='the server does not have a resource type "nonsense"'):
        client.resolve("nonsense")


def test_an_unknown_type_reloads_discovery_once_and_a_known_one_never(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = kube.client()
    client.resolve("clusterrole")
    paths = requested_paths(client, monkeypatch)
    client.resolve("clusterrole")
    assert paths == []
    with pytest.raises(ApiError, match='the server does not have a resource type "nonsense"'):
        client.resolve("nonsense")
    assert paths.count("/apis") == 1
    assert max(paths.count(path) for path in paths) <= 2
    paths.clear()
    with pytest.raises(ApiError):
        client.resolve("nonsense")
    assert len(paths) == len(set(paths))
