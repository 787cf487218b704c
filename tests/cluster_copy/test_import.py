"""A copy has what the cluster has, changes nothing there, and leaves out secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver.command.import_cluster import write_copy
from kubedra.client.client import Client
from kubedra.client.responses import ApiError
from kubedra.cluster_copy.collect import Copy, Selection, collect
from kubedra.cluster_copy.importing import run
from kubedra.cluster_copy.kinds import Kind, KindFilter
from kubedra.cluster_copy.progress import Progress
from kubedra.cluster_copy.source import LostError, Source
from kubedra.cluster_copy.target import send
from tests.cluster_copy.sources import cluster, production, write_config
from tests.support.server import Running

Json = dict[str, Any]
Served = tuple[Running, Client]


@pytest.fixture(scope="module")
def source() -> Iterator[Served]:
    with cluster(objects=production()) as served:
        yield served


@pytest.fixture
def target() -> Iterator[Served]:
    with cluster() as served:
        yield served


def read(client: Client, **selection: Any) -> Copy:
    return collect(Source(client), Selection(**selection), Progress())


def comparable(copy: Copy) -> dict[tuple[str, str, str], Json]:
    """Return the objects without their resource versions, by kind, namespace and name."""
    found = {}
    for each in copy.objects:
        obj = json.loads(json.dumps(each))
        obj["metadata"].pop("resourceVersion")
        found[obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]] = obj
    return found


def test_a_copy_of_a_copy_is_the_same(source: Served, target: Served) -> None:
    first = read(source[1], with_secrets=True)
    assert send(target[1], first.objects)["refused"] == []
    second = read(target[1], with_secrets=True)
    assert comparable(second) == comparable(first)


def test_a_second_import_changes_nothing(source: Served, target: Served) -> None:
    copy = read(source[1])
    send(target[1], copy.objects)
    answer = send(target[1], copy.objects)
    assert (answer["created"], answer["replaced"], answer["unchanged"]) == (0, 0, len(copy.objects))


def test_uids_owners_and_statuses_are_kept(source: Served, target: Served) -> None:
    send(target[1], read(source[1]).objects)
    pod = target[1].get("pod/payroll-9f55f9956-2pf4d", namespace="acme")
    (sent,) = (each for each in production() if each["metadata"]["name"] == pod["metadata"]["name"])
    assert pod["metadata"]["uid"] == sent["metadata"]["uid"]
    assert pod["metadata"]["ownerReferences"] == sent["metadata"]["ownerReferences"]
    assert pod["metadata"]["creationTimestamp"] == sent["metadata"]["creationTimestamp"]
    assert (pod["spec"]["nodeName"], pod["status"]["podIP"]) == ("acme-node-1", "10.1.2.3")


def test_only_gets_and_lists_are_sent(source: Served) -> None:
    running, client = source
    with Client(client.url, user_agent="kubedra-import") as reader:
        read(reader)
    records = [record for record in running.server.requests.latest() if record.user_agent.startswith("kubedra-import")]
    assert records
    assert {record.method for record in records} == {"GET"}
    assert {record.info.verb for record in records} <= {"get", "list"}


def test_values_of_secrets_are_left_out_unless_wanted(source: Served) -> None:
    copy = read(source[1])
    (secret,) = (each for each in copy.objects if each["kind"] == "Secret")
    assert secret["data"] == {"password": ""}
    assert "aHVudGVyMg" not in json.dumps(copy.objects)
    assert "left out 1 tokens of service accounts; --with-secrets copies them" in copy.notes
    with_values = [each for each in read(source[1], with_secrets=True).objects if each["kind"] == "Secret"]
    assert {each["metadata"]["name"]: each["data"] for each in with_values} == {
        "db": {"password": "aHVudGVyMg=="}, "token": {"token": "aHVudGVyMg=="},
    }  # fmt: skip


def test_only_ready_nodes_are_run(source: Served) -> None:
    nodes = {each["metadata"]["name"]: each for each in read(source[1]).objects if each["kind"] == "Node"}
    assert nodes["acme-node-1"]["metadata"]["annotations"] == {"kubedra.dev/emulated": "true"}
    assert "annotations" not in nodes["acme-node-2"]["metadata"]


def test_custom_resources_come_in_their_stored_version_without_a_webhook(source: Served, target: Served) -> None:
    copy = read(source[1])
    assert "removed the conversion webhook of racks.acme.example" in copy.notes
    send(target[1], copy.objects)
    assert target[1].get("rack/r1")["spec"] == {"slots": 42}
    definition = target[1].get("crd/racks.acme.example")
    assert definition["spec"]["conversion"] == {"strategy": "None"}
    assert definition["status"]["storedVersions"] == ["v1beta1"]


def test_references_to_missing_owners_are_removed(source: Served) -> None:
    copy = read(source[1])
    (orphan,) = (each for each in copy.objects if each["metadata"]["name"] == "orphan")
    assert "ownerReferences" not in orphan["metadata"]
    assert "removed 1 references to owners of kind Wheel, which are not copied" in copy.notes


def test_a_selection_has_the_named_namespaces_and_kinds(source: Served) -> None:
    copy = read(source[1], namespaces=["acme"], kinds=KindFilter(["po,deploy", "namespaces"]))
    assert {(each["kind"], each["metadata"]["name"]) for each in copy.objects} == {
        ("Namespace", "acme"), ("Pod", "payroll-9f55f9956-2pf4d"), ("Pod", "training"), ("Deployment", "payroll"),
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"--kind pots: the cluster serves no such kind; did you mean pods\?"):
        read(source[1], kinds=KindFilter(["pots"]))
    missing = read(source[1], namespaces=["acme", "moon"])
    assert ("namespace moon", "it does not exist") in missing.problems


def test_heartbeats_and_webhooks_are_left_out(source: Served) -> None:
    kinds = {each["kind"] for each in read(source[1]).objects}
    assert not kinds & {"Lease", "Event", "APIService", "FlowSchema", "ValidatingWebhookConfiguration"}
    assert {each["kind"] for each in read(source[1], kinds=KindFilter(["ev"])).objects} <= {"Event"}


class Interrupted:
    """A client whose request number `at` fails."""

    def __init__(self, client: Client, fail: Callable[[str, dict[str, str]], None]) -> None:
        self.url, self._client, self._fail = client.url, client, fail

    def request(self, method: str, path: str, *, params: dict[str, str] | None = None) -> Json:
        self._fail(path, params or {})
        return self._client.request(method, path, params=params)


def test_a_list_goes_on_page_by_page(source: Served) -> None:
    pages: list[int] = []
    kind = Kind("", "v1", "configmaps", "ConfigMap", True)
    objects = Source(source[1], page=1, counted=pages.append).list(kind)
    assert len(objects) == len(pages) == len(source[1].list("configmaps", namespace=""))
    assert all(each["kind"] == "ConfigMap" and each["apiVersion"] == "v1" for each in objects)


def test_an_expired_page_lists_everything_again(source: Served) -> None:
    expired: list[str] = []

    def fail(path: str, params: dict[str, str]) -> None:
        if "continue" in params and not expired:
            expired.append(path)
            raise ApiError(410, "Expired", "The provided continue parameter is too old")

    counted: list[int] = []
    kind = Kind("", "v1", "configmaps", "ConfigMap", True)
    objects = Source(Interrupted(source[1], fail), page=1, counted=counted.append).list(kind)
    names = [each["metadata"]["name"] for each in objects]
    assert expired
    assert sorted(names) == sorted(each["metadata"]["name"] for each in source[1].list("configmaps", namespace=""))
    assert sum(counted) == len(names)


def test_a_lost_connection_ends_the_copy(source: Served) -> None:
    def fail(path: str, params: dict[str, str]) -> None:
        if path.endswith("/pods"):
            raise ConnectionResetError("connection reset by peer")

    with pytest.raises(
        LostError, match=r"the connection was lost while reading /api/v1/pods: connection reset by peer"
    ):
        collect(Source(Interrupted(source[1], fail)), Selection(), Progress())


def test_a_refused_kind_is_listed_and_the_rest_copied(source: Served) -> None:
    def fail(path: str, params: dict[str, str]) -> None:
        if path.endswith("/secrets"):
            raise ApiError(403, "Forbidden", "secrets is forbidden: not for you")

    copy = collect(Source(Interrupted(source[1], fail)), Selection(), Progress())
    assert copy.problems == [("secrets", "secrets is forbidden: not for you")]
    assert any(each["kind"] == "Pod" for each in copy.objects)


def test_objects_that_kubedra_does_not_know_are_listed_with_the_reason(target: Served) -> None:
    metadata = {"name": "x", "namespace": "default"}
    answer = send(target[1], [
        {"apiVersion": "x.example/v1", "kind": "Wheel", "metadata": metadata},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": 1}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y"}},
        {"apiVersion": "v2", "kind": "ConfigMap", "metadata": metadata},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "name": "new"}, "colour": "red"},
    ])  # fmt: skip
    reasons = [each["reason"] for each in answer["refused"]]
    assert reasons[0] == "kubedra has no kind Wheel in group x.example"
    assert reasons[1].startswith('ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal')
    assert reasons[2] == "it must have a namespace"
    assert reasons[3] == "kubedra has no version v2 of this kind"
    assert (answer["created"], answer["warnings"]) == (1, {'ConfigMap: unknown field "colour"': 1})


def test_another_object_of_the_name_is_deleted_first(target: Served) -> None:
    client = target[1]
    before = client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}})
    path = "/api/v1/namespaces/default/configmaps"
    copied = {**before, "metadata": {"name": "c", "namespace": "default", "uid": "another"}, "data": {"a": "2"}}
    assert send(client, [copied])["replaced"] == 1
    events = client.watch(path, timeout=1, resourceVersion=before["metadata"]["resourceVersion"])
    assert [(next(events)["type"], next(events)["type"])] == [("DELETED", "ADDED")]
    assert client.get("configmap/c")["metadata"]["uid"] == "another"


def test_a_copy_without_all_parts_stores_nothing(target: Served) -> None:
    client = target[1]
    body = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}]
    with pytest.raises(ApiError, match="the copy has 3 parts, but 1 arrived; send it again"):
        client.request("POST", "/-/import", body, params={"copy": "a", "parts": "3"})
    with pytest.raises(ApiError, match="object 1: not a Kubernetes object"):
        client.request("POST", "/-/import", [{"kind": "Pod"}])
    assert all(each["metadata"]["name"] != "c" for each in client.list("configmaps"))


def test_the_command_copies_into_a_running_server(
    source: Served, target: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, source[1].url)
    to = write_config(tmp_path, target[1].url, "target")
    assert run([f"--kubeconfig={config}", f"--to={to}", "-n", "acme"], write_copy) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("imported ")
    assert f"objects into {target[1].url}: " in printed.out
    assert "note: left out events, events.events.k8s.io, leases.coordination.k8s.io" in printed.err
    assert "\r" not in printed.err
    assert target[1].get("pod/training", namespace="acme")["status"]["phase"] == "Pending"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--kubeconfig=/nowhere"], "kubedra import: /nowhere: no such file or directory"),
        (["--with-secrets", "--anonymize"], "kubedra import: --with-secrets: not with --anonymize, which removes them"),
        (["-o", "x", "--to", "y"], "kubedra import: argument --to: not allowed with argument -o/--output"),
    ],
)
def test_a_mistake_is_one_line(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = run(args, write_copy)
    except SystemExit as end:
        code = int(str(end.code))
    assert (code, capsys.readouterr().err) == (2, f"{message}\n")


def test_a_lost_source_is_one_line_and_exit_code_1(
    target: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:1")
    to = write_config(tmp_path, target[1].url, "target")
    before = target[0].server.log.revision
    assert run([f"--kubeconfig={config}", f"--to={to}"], write_copy) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kubedra import: http://127.0.0.1:1: the connection was lost while reading /apis: ")
    assert line.endswith("; nothing was changed")
    assert target[0].server.log.revision == before
