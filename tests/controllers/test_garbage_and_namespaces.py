"""Objects are deleted with their owners and their namespaces."""

import asyncio

import pytest

from apiserver.api.objects import Json
from controllers.cleanup.garbage_collector import PATIENCE
from controllers.manager.manager import Manager
from controllers.options.options import Options
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import CONFIG_MAPS, Kind
from kubedra.pytest_plugin import Kube
from tests.scheduler.world import World
from tests.support.objects import make_manifest
from tests.support.virtual import passes, run

pytestmark = pytest.mark.integration

DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)


def config_map(name: str, *owners: Json, finalizers: tuple[str, ...] = ()) -> Json:
    meta = {"name": name, "ownerReferences": list(owners), "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def owner(obj: Json, *, blocks: bool = False) -> Json:
    meta = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "blockOwnerDeletion": blocks,
    }


def delete(kube: Kube, target: str, policy: str) -> None:
    kind, _, name = target.partition("/")
    client = kube.client()
    client.request("DELETE", client.path(*client.resolve(kind), None, name), params={"propagationPolicy": policy})


def test_what_is_owned_goes_after_its_owner(kube: Kube) -> None:
    (parent,) = kube.apply(config_map("parent"))
    kube.apply(config_map("child", owner(parent)))
    delete(kube, "configmap/parent", "Background")
    kube.wait("configmap/child", "delete")


def test_an_object_whose_owner_never_was_goes(kube: Kube) -> None:
    (parent,) = kube.apply(config_map("parent"))
    stranger = {**owner(parent), "uid": "00000000-0000-0000-0000-000000000000"}
    kube.apply(config_map("child", stranger))
    kube.wait("configmap/child", "delete")
    assert kube.get("configmap/parent")


def test_orphaning_sets_the_children_free(kube: Kube) -> None:
    (parent,) = kube.apply(config_map("parent"))
    kube.apply(config_map("child", owner(parent)))
    delete(kube, "configmap/parent", "Orphan")
    kube.wait("configmap/parent", "delete")
    assert "ownerReferences" not in kube.get("configmap/child")["metadata"]


def test_in_the_foreground_the_owner_waits_for_those_that_block_it(kube: Kube) -> None:
    (parent,) = kube.apply(config_map("parent"))
    kube.apply(config_map("child", owner(parent, blocks=True), finalizers=("example.com/hold",)))
    delete(kube, "configmap/parent", "Foreground")
    kube.wait("configmap/child", lambda obj: "deletionTimestamp" in obj["metadata"])
    assert kube.get("configmap/parent")["metadata"]["finalizers"] == ["foregroundDeletion"]
    kube.client().patch("configmap/child", {"metadata": {"finalizers": None}})
    kube.wait("configmap/parent", "delete")


def test_a_circle_of_owners_that_block_each_other_goes(kube: Kube) -> None:
    (first,) = kube.apply(config_map("first"))
    (second,) = kube.apply(config_map("second", owner(first, blocks=True)))
    kube.apply(config_map("first", owner(second, blocks=True)))
    delete(kube, "configmap/first", "Foreground")
    kube.wait("configmap/first", "delete")
    kube.wait("configmap/second", "delete")


@pytest.fixture
def team(kube: Kube) -> Kube:
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    return kube


def conditions(namespace: Json) -> dict[str, str]:
    return {one["type"]: one["status"] for one in namespace["status"].get("conditions") or ()}


def test_a_namespace_goes_with_everything_in_it(team: Kube) -> None:
    team.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "team"}})
    team.delete("namespace/team")
    team.wait("namespace/team", "delete")


def test_a_namespace_waits_for_what_a_finalizer_holds(team: Kube) -> None:
    team.apply(make_manifest(CONFIG_MAPS, "a", namespace="team", finalizers=["example.com/hold"]))
    team.delete("namespace/team")
    team.wait("configmap/a", lambda obj: "deletionTimestamp" in obj["metadata"], namespace="team")
    said = team.wait("namespace/team", lambda obj: conditions(obj).get("NamespaceFinalizersRemaining") == "True")
    assert said["status"]["phase"] == "Terminating"
    assert conditions(said) == {
        "NamespaceDeletionDiscoveryFailure": "False",
        "NamespaceDeletionGroupVersionParsingFailure": "False",
        "NamespaceDeletionContentFailure": "False",
        "NamespaceContentRemaining": "True",
        "NamespaceFinalizersRemaining": "True",
    }
    assert [condition["message"] for condition in said["status"]["conditions"][3:]] == [
        "Some resources are remaining: configmaps. has 1 resource instances",
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
    ]
    team.client().patch("configmap/a", {"metadata": {"finalizers": None}}, namespace="team")
    team.wait("namespace/team", "delete")


def test_every_namespace_has_a_default_service_account_that_comes_back(team: Kube) -> None:
    team.wait("serviceaccount/default", "create", namespace="team")
    uid = team.get("serviceaccount/default", namespace="team")["metadata"]["uid"]
    team.delete("serviceaccount/default", namespace="team")
    team.wait("serviceaccount/default", lambda obj: obj["metadata"]["uid"] != uid, namespace="team")


def test_a_kind_that_cannot_be_read_does_not_keep_the_garbage_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with World() as world:
            manager = Manager(world.client, Options(), ["garbage-collector-controller"])
            running = asyncio.create_task(manager.run())
            stranger = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0"}
            orphan = config_map("child", stranger)
            orphan["metadata"]["namespace"] = "ns"
            await world.create(CONFIG_MAPS, orphan)
            await passes(PATIENCE.total_seconds() - 5)
            assert (await world.client.list(CONFIG_MAPS, "ns"))["items"]
            await passes(10)
            assert not (await world.client.list(CONFIG_MAPS, "ns"))["items"]
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    read = Informer.run

    async def unreadable(informer: Informer) -> None:
        if informer.kind.plural == "secrets":
            await asyncio.Event().wait()
        await read(informer)

    monkeypatch.setattr(Informer, "run", unreadable)
    run(scenario)


async def test_an_object_with_an_owner_of_an_unserved_kind_stays_until_the_kind_is_served() -> None:
    async with World("garbage-collector-controller") as world:
        gone = "00000000-0000-0000-0000-00000000000{}"
        refs = [
            {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": gone.format(1)},
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": gone.format(2)},
        ]
        made = config_map("child", *refs)
        await world.client.create(CONFIG_MAPS, {**made, "metadata": {**made["metadata"], "namespace": "ns"}})
        await passes(60)
        child = await world.client.get(CONFIG_MAPS, "child", "ns")
        assert child["metadata"]["ownerReferences"] == refs
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
        schema = {"openAPIV3Schema": {"type": "object"}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
        await world.client.create(DEFINITIONS, {"metadata": {"name": "widgets.example.com"}, "spec": spec})
        await passes(60)
        assert "child" not in [
            each["metadata"]["name"] for each in (await world.client.list(CONFIG_MAPS, "ns"))["items"]
        ]


async def test_objects_of_a_new_kind_are_collected_before_the_next_regular_poll_of_discovery() -> None:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    orphan = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0"}
    async with World("garbage-collector-controller") as world:
        await passes(3600)
        await world.client.create(DEFINITIONS, {"metadata": {"name": "widgets.example.com"}, "spec": spec})
        await passes(0.1)
        widgets = Kind("example.com", "v1", "widgets", "Widget")
        meta = {"name": "w", "namespace": "ns", "ownerReferences": [orphan]}
        await world.client.create(widgets, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta})
        await passes(6)
        assert (await world.client.list(widgets, "ns"))["items"] == []
