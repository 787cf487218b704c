"""A replay sends what users wrote, leaves the rest to the control plane, and compares what became of pods."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kubedra.archive.archive import header, write_archive
from kubedra.cli import main
from kubedra.recording.actions import Action, from_changes
from kubedra.recording.auditlog import AuditLogError, read_audit_log
from kubedra.recording.changes import Change, ChangeType, format_time
from kubedra.recording.comparing import compare, render_table
from kubedra.recording.outcomes import End, Outcome, Outcomes, follow_changes
from kubedra.recording.replaying import read_script, replay
from tests.cluster_copy.sources import build, build_node, owned, production
from tests.support.objects import pod_manifest

Json = dict[str, Any]
BEGIN = datetime(2026, 11, 28, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def managed(manager: str, *, subresource: str = "", time: str = "t") -> Json:
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time, "subresource": subresource}
    return {"managedFields": [{name: value for name, value in entry.items() if value}]}


def pod(name: str, number: int, node: str = "", *, cpu: str = "1", **metadata: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {**pod_manifest("")["spec"], "containers": [container], **({"nodeName": node} if node else {})}
    return build("Pod", name, number, "acme", spec=spec, metadata={**managed("kubectl"), **metadata})


def users_writes(*changes: tuple[ChangeType, Json]) -> list[Action]:
    """Return the users' writes of changes, one per second."""
    return from_changes([Change(at(number), *change) for number, change in enumerate(changes)], {}).users


def described(actions: list[Action]) -> list[tuple[str, str, str]]:
    return [(action.verb, action.kind, action.name) for action in actions]


def test_creations_by_users_are_replayed_and_those_of_controllers_are_not() -> None:
    replicas = build("ReplicaSet", "r", 2, "acme", version="apps/v1", spec={})
    account = build("ServiceAccount", "default", 5, "acme", metadata=managed("kube-controller-manager"))
    rack = build("Rack", "r", 6, version="acme.example/v1")
    actions = users_writes(
        ("ADDED", build("Namespace", "acme", 1, metadata=managed("kubectl-create"))),
        ("ADDED", pod("by-user", 3)),
        ("ADDED", pod("by-controller", 4, **owned(replicas))),
        ("ADDED", account),
        ("ADDED", build("Event", "e", 7, "acme")),
        ("ADDED", pod("by-operator", 8, **owned(rack))),
    )  # fmt: skip
    assert described(actions) == [("create", "Namespace", "acme"), ("create", "Pod", "by-user")]


def test_changes_are_replayed_as_what_the_user_changed() -> None:
    before = build("Deployment", "web", 1, "acme", version="apps/v1", spec={"replicas": 1}, metadata=managed("kubectl"))
    after = {**before, "spec": {"replicas": 3}, "status": {"replicas": 1},
             "metadata": {**before["metadata"], **managed("kubectl", time="later"), "generation": 2}}  # fmt: skip
    (action,) = users_writes(("STATE", before), ("MODIFIED", after))
    assert (action.verb, action.kind, action.name, action.body) == (
        "patch",
        "Deployment",
        "web",
        {"spec": {"replicas": 3}},
    )


def test_bindings_and_statuses_are_left_to_the_control_plane() -> None:
    scheduled = pod("p", 1, "node-1", **managed("kube-scheduler"))
    by_status = {**scheduled, "status": {"phase": "Running"},
                 "metadata": {**scheduled["metadata"], **managed("kubelet", subresource="status")}}  # fmt: skip
    scaled = build("Deployment", "d", 2, "acme", version="apps/v1", spec={"replicas": 5},
                   metadata=managed("kube-controller-manager", subresource="scale"))  # fmt: skip
    first = {**scaled, "spec": {"replicas": 1}, "metadata": {**scaled["metadata"], **managed("kubectl")}}
    actions = users_writes(
        ("STATE", pod("p", 1)), ("STATE", first), ("MODIFIED", scheduled), ("MODIFIED", by_status), ("MODIFIED", scaled)
    )
    assert actions == []


def test_a_deletion_is_replayed_once_and_evictions_are_not() -> None:
    leaving = pod("p", 1, deletionTimestamp="2026-11-28T12:00:01Z")
    evicted = pod("q", 2, deletionTimestamp="2026-11-28T12:00:01Z")
    evicted["status"] = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    actions = users_writes(
        ("STATE", pod("p", 1)), ("STATE", pod("q", 2)), ("MODIFIED", leaving), ("DELETED", leaving),
        ("MODIFIED", evicted), ("DELETED", evicted), ("DELETED", build("ConfigMap", "c", 3, "acme")),
    )  # fmt: skip
    assert described(actions) == [("delete", "Pod", "p"), ("delete", "ConfigMap", "c")]


def test_a_node_whose_kubelet_goes_is_no_longer_run() -> None:
    ready, lost = build_node("n", 1, "True"), build_node("n", 1, "Unknown")
    actions = users_writes(("STATE", ready), ("MODIFIED", lost), ("MODIFIED", ready))
    values = [action.body["metadata"]["annotations"]["kubedra.dev/emulated"] for action in actions]
    assert values == [None, "true"]


def test_pods_end_as_they_did() -> None:
    actions = from_changes([Change(at(1), "ADDED", pod("p", 1))], {"00000001-0000-4000-8000-000000000000": End(90, 3)})
    annotations = actions.users[0].body["metadata"]["annotations"]
    assert annotations == {"kubedra.dev/exit-after": "90s", "kubedra.dev/exit-code": "3"}


def outcome(name: str, node: str, waited: float = 0.0, family: str = "", created: float = 0.0) -> Outcome:
    bound = at(created + waited) if node else None
    return Outcome("acme", name, family, at(created), bound, node)


def outcomes(*found: Outcome) -> Outcomes:
    return {(each.namespace, each.name): each for each in found}


def test_verdicts() -> None:
    recorded = outcomes(
        outcome("same", "a"), outcome("moved", "a"), outcome("slow", "a", 2), outcome("never", "a"),
        outcome("still", ""), outcome("new", ""), outcome("lost", "a"), outcome("fast", "a", 60),
    )  # fmt: skip
    replayed = outcomes(
        outcome("same", "a", 0.5), outcome("moved", "b"), outcome("slow", "a", 9), outcome("never", ""),
        outcome("still", ""), outcome("new", "b"), outcome("fast", "a", 1),
    )  # fmt: skip
    assert {each.recorded.name: each.verdict for each in compare(recorded, replayed)} == {
        "same": "same", "moved": "other node", "slow": "waited longer", "never": "never ran", "still": "same",
        "new": "ran only in the replay", "lost": "missing", "fast": "waited less",
    }  # fmt: skip


def test_pods_of_a_workload_are_interchangeable() -> None:
    recorded = outcomes(outcome("w-x1", "a", family="w-"), outcome("w-x2", "b", family="w-"))
    replayed = outcomes(outcome("w-y1", "b", family="w-"), outcome("w-y2", "c", family="w-"))
    found = compare(recorded, replayed)
    assert [(each.recorded.name, each.verdict) for each in found] == [("w-x1", "other node"), ("w-x2", "same")]
    assert render_table(found).splitlines() == [
        "2 pods: 1 same, 1 other node",
        "POD        RECORDED       REPLAYED       DIFFERENCE",
        "acme/w-x1  a after 0.0 s  c after 0.0 s  other node",
    ]


def test_waits_are_counted_from_the_creation_or_the_beginning() -> None:
    changes = [
        Change(at(0), "STATE", pod("old", 1)), Change(at(0), "STATE", pod("bound", 2, "a")),
        Change(at(5), "ADDED", pod("new", 3)), Change(at(7), "MODIFIED", pod("new", 3, "a")),
        Change(at(9), "MODIFIED", pod("old", 1, "b")),
    ]  # fmt: skip
    found = follow_changes(changes, BEGIN)
    assert {name: (each.node, each.waited) for (_, name), each in found.items()} == {
        "old": ("b", 9.0),
        "new": ("a", 2.0),
    }


def write_day(place: Path) -> None:
    """Record a day: a user deletes the GPU pod, adds a pod that fits and one that is too large, and a node comes."""
    big = pod("big", 101, cpu="12")
    node = build_node("acme-node-3", 103, "True")
    node["status"]["capacity"] = node["status"]["allocatable"] = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    training = next(each for each in production() if each["metadata"]["name"] == "training")
    state = [each for each in production() if each["metadata"]["name"] != "orphan"]
    changes: list[tuple[float, ChangeType, Json]] = [
        (10, "ADDED", pod("small", 100)), (10.2, "MODIFIED", pod("small", 100, "acme-node-2", **managed("kube-scheduler"))),
        (20, "ADDED", big), (30, "DELETED", training), (60, "ADDED", node),
        (3600, "MODIFIED", pod("big", 101, "acme-node-3", cpu="12", **managed("kube-scheduler"))),
    ]  # fmt: skip
    with write_archive(place, header("recording", release="1.36", created=format_time(BEGIN))) as file:
        for obj in state:
            file.write(Change(BEGIN, "STATE", obj).encode())
        for seconds, type_, obj in changes:
            file.write(Change(at(seconds), type_, obj).encode())


@pytest.mark.integration
def test_a_recorded_hour_is_replayed_in_virtual_time(tmp_path: Path) -> None:
    write_day(tmp_path / "day.kubedra")
    script = read_script(tmp_path / "day.kubedra")
    result = replay(script)
    assert (result.played, result.control_plane, result.refused) == (4, 2, {})
    found = {each.recorded.name: each for each in result.comparisons}
    assert (found["small"].verdict, found["big"].verdict) == ("other node", "waited less")
    assert found["small"].replayed is not None
    assert found["small"].replayed.node == "acme-node-1"
    assert found["big"].replayed is not None
    waited = found["big"].replayed.waited
    assert waited is not None
    assert 40 <= waited < 60


def audit_event(verb: str, resource: str, name: str, agent: str, body: Any, seconds: float, **more: Any) -> Json:
    reference = {"resource": resource, "namespace": "default", "name": name, "apiVersion": "v1", **more}
    part = f"/{reference['subresource']}" if "subresource" in reference else ""
    path = f"/api/v1/namespaces/default/{resource}" + (f"/{name}{part}" if part or verb != "create" else "")
    return {
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Request", "stage": "ResponseComplete", "verb": verb,
        "requestURI": f"{path}?fieldValidation=Strict", "user": {"username": "admin"}, "userAgent": agent,
        "objectRef": reference, "responseStatus": {"code": 201}, "requestObject": body,
        "requestReceivedTimestamp": format_time(at(seconds)),
    }  # fmt: skip


def write_log(place: Path, *events: Json) -> Path:
    place.write_text("".join(f"{json.dumps(each)}\n" for each in events))
    return place


BOUND = {"target": {"kind": "Node", "name": "n1"}}
POD = {"apiVersion": "v1", "kind": "Pod", **pod_manifest("p")}


def test_an_audit_log_has_users_writes_and_what_became_of_pods(tmp_path: Path) -> None:
    generated = {**POD, "metadata": {"generateName": "w-", **owned(build("ReplicaSet", "w", 1, version="apps/v1"))}}
    log = read_audit_log(write_log(
        tmp_path / "audit.log",
        audit_event("create", "pods", "p", "kubectl/v1", POD, 1),
        audit_event("create", "pods", "", "kube-controller-manager/v1", generated, 2),
        audit_event("create", "pods", "p", "kube-scheduler/v1", BOUND, 3, subresource="binding"),
        audit_event("create", "pods", "w-abcde", "kube-scheduler/v1", BOUND, 4, subresource="binding"),
        audit_event("patch", "pods", "p", "kubelet/v1", {"status": {}}, 5, subresource="status"),
        audit_event("delete", "pods", "p", "kubectl/v1", None, 6),
    ))  # fmt: skip
    actions = log.actions()
    assert [(each.method, each.uri) for each in actions.users] == [
        ("POST", "/api/v1/namespaces/default/pods"), ("DELETE", "/api/v1/namespaces/default/pods/p"),
    ]  # fmt: skip
    assert actions.control_plane == 4
    found = log.outcomes()
    assert {name: (each.node, each.waited) for (_, name), each in found.items()} == {
        "p": ("n1", 2.0),
        "w-abcde": ("n1", 2.0),
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"kind":"Pod"}\n', "line 1 is no event of audit.k8s.io/v1"),
        ("{broken\n", "line 1 is no event of audit.k8s.io/v1"),
        (json.dumps({**audit_event("create", "pods", "p", "k", None, 1), "level": "Metadata"}) + "\n",
         "its level is Metadata; a replay needs Request"),
        (json.dumps(audit_event("get", "pods", "p", "k", None, 1)) + "\n", "it has no successful write"),
    ],
)  # fmt: skip
def test_an_unusable_audit_log_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    place = tmp_path / "audit.log"
    place.write_text(text)
    with pytest.raises(AuditLogError) as error:
        read_audit_log(place)
    assert str(error.value) == f"{place}: {reason}"


@pytest.mark.integration
def test_an_audit_log_is_replayed_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    place = write_log(
        tmp_path / "audit.log",
        {**audit_event("create", "nodes", "n1", "kubelet/v1", node, 0), "requestURI": "/api/v1/nodes"},
        audit_event("create", "pods", "p", "kubectl/v1", POD, 30),
        audit_event("create", "pods", "p", "kube-scheduler/v1", BOUND, 31, subresource="binding"),
    )  # fmt: skip
    assert main(["replay", str(place), "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["replayedWrites"], printed["controlPlaneWrites"]) == (2, 1)
    (row,) = printed["pods"]
    assert (row["name"], row["verdict"], row["replayed"]["node"]) == ("p", "same", "n1")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["/nowhere"], "kubedra replay: /nowhere: no such file or directory"),
        (["--speed=-1", "x"], "kubedra replay: --speed -1: must be positive"),
    ],
)
def test_a_mistake_is_one_line(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", *args]) == 2
    assert capsys.readouterr().err == f"{message}\n"
