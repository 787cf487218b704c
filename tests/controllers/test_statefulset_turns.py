"""One pass over a StatefulSet, by the state of its pods: without a server."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.workloads.statefulset.identity import (
    has_identity,
    has_storage,
    is_member,
    keeps_current,
    new_pod,
    split_name,
    with_identity,
    with_storage,
)
from controllers.workloads.statefulset.reconcile import ReconcilePass
from tests.support.recording import RecordingClient

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW = "s-old", "s-new"


def owner(replicas: int = 3, *, parallel: bool = False, kind: str = "RollingUpdate", **spec: Any) -> Json:
    rolling = {key: spec.pop(key) for key in ("partition", "maxUnavailable") if key in spec}
    strategy = {"type": kind, **({"rollingUpdate": rolling} if rolling else {})}
    template = {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": []}}
    return {
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "s", "namespace": "ns", "uid": "u"},
        "spec": {"replicas": replicas, "template": template, "updateStrategy": strategy, "serviceName": "svc",
                 **({"podManagementPolicy": "Parallel"} if parallel else {}), **spec},
        "status": {"currentReplicas": 0},
    }  # fmt: skip


def revision(name: str) -> Json:
    return {
        "metadata": {"name": name},
        "data": {"spec": {"template": {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": []}}}},
    }


def pod(number: int, of: str = NEW, *, ready: bool = True, phase: str = "Running", going: bool = False) -> Json:
    made = new_pod(owner(), of, number)
    made["metadata"] |= {"deletionTimestamp": "x"} if going else {}
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2025-01-01T00:00:00Z"}
    return {**made, "status": {"phase": phase, "conditions": [condition]}}


class NoClaims:
    """Claims without work; `stale`: whether a pod's claim is stale."""

    def __init__(self, stale: bool = False) -> None:
        self.stale = stale

    def is_stale(self, *_: Json) -> bool:
        return self.stale

    def has_owners(self, *_: Json) -> bool:
        return True

    async def create(self, *_: Json) -> None:
        pass

    async def set_owners(self, *_: Json) -> None:
        pass


class SetClient(RecordingClient):
    """Records one pass over a set."""

    reconcile_pass: ReconcilePass

    @property
    def steps(self) -> list[str]:
        """The writes: `+0` created, `-0` deleted, `~0` repaired."""
        signs = {"create": "+", "delete": "-", "update": "~"}
        return [
            f"{signs[verb]}{split_name(what[0] if verb == 'delete' else what['metadata']['name'])[1]}"
            for verb, _, what in self.writes
        ]


async def reconcile(
    of: Json, *pods: Json, several: bool = False, stale: bool = False, **refuses: tuple[int, str]
) -> SetClient:
    """Run one pass over a set with these pods."""
    client = SetClient()
    client.refuses = {**refuses}
    component = SimpleNamespace(client=client, recorder=client.recorder, record_write=lambda *_: None)
    client.reconcile_pass = ReconcilePass(
        component, NoClaims(stale), of, (revision(OLD), revision(NEW)), pods, NOW, with_unavailable=several  # type: ignore[arg-type]
    )  # fmt: skip
    return await client.run(client.reconcile_pass.run())


UP = [pod(0), pod(1), pod(2)]


@pytest.mark.parametrize(
    ("of", "pods", "steps"),
    [
        (owner(), [], ["+0"]),
        (owner(), [pod(0)], ["+1"]),
        (owner(), [pod(0, ready=False)], []),
        (owner(), [pod(0, phase="Pending")], []),
        (owner(), [pod(0, going=True)], []),
        (owner(), [pod(1), pod(2)], ["+0"]),
        (owner(), UP, []),
        (owner(minReadySeconds=10**9), [pod(0)], []),
        (owner(), [pod(0, phase="Failed"), pod(1)], ["-0"]),
        (owner(), [pod(0, phase="Succeeded"), pod(1)], ["-0"]),
        (owner(), [pod(0, phase="Failed", going=True), pod(1)], []),
        (owner(parallel=True), [], ["+0", "+1", "+2"]),
        (owner(parallel=True), [pod(1, ready=False)], ["+0", "+2"]),
        (owner(0), [], []),
        (owner(2, ordinals={"start": 5}), [], ["+5"]),
        (owner(2, ordinals={"start": 1}), [pod(0), pod(1), pod(2)], ["-0"]),
    ],
)
async def test_pods_that_are_missing_come_in_order(of: Json, pods: list[Json], steps: list[str]) -> None:
    assert (await reconcile(of, *pods)).steps == steps


@pytest.mark.parametrize(
    ("of", "pods", "steps"),
    [
        (owner(1), UP, ["-2"]),
        (owner(1), [*UP[:2], pod(2, going=True)], []),
        (owner(1), [pod(0), pod(1, ready=False), pod(2)], ["-2"]),
        (owner(1), [pod(0), pod(1), pod(2, ready=False)], ["-2"]),
        (owner(1), [pod(0), pod(1, ready=False), pod(2, ready=False)], []),
        (owner(1), [pod(0, ready=False), *UP[1:]], []),
        (owner(1, parallel=True), UP, ["-2", "-1"]),
        (owner(1, parallel=True), [pod(0, ready=False), pod(1), pod(2, going=True)], ["-1"]),
        (owner(0), UP, ["-2"]),
    ],
)
async def test_pods_beyond_the_size_go_the_last_first(of: Json, pods: list[Json], steps: list[str]) -> None:
    assert (await reconcile(of, *pods)).steps == steps


@pytest.mark.parametrize(
    ("of", "pods", "steps"),
    [
        (owner(), [pod(n, OLD) for n in range(3)], ["-2"]),
        (owner(), [pod(0, OLD), pod(1, OLD), pod(2)], ["-1"]),
        (owner(), [pod(0), pod(1), pod(2, OLD)], ["-2"]),
        (owner(partition=1), [pod(0, OLD), pod(1), pod(2)], []),
        (owner(partition=1), [pod(0, OLD), pod(1, OLD), pod(2)], ["-1"]),
        (owner(partition=9), [pod(n, OLD) for n in range(3)], []),
        (owner(kind="OnDelete"), [pod(n, OLD) for n in range(3)], []),
        (owner(parallel=True), [pod(0, OLD), pod(1, OLD), pod(2, ready=False)], []),
        (owner(parallel=True), [pod(0, OLD), pod(1, OLD, ready=False), pod(2)], ["-1"]),
        (owner(parallel=True), [pod(0, OLD), pod(1, OLD), pod(2, OLD, going=True)], []),
    ],
)
async def test_pods_of_an_old_template_go_one_by_one_from_the_last(
    of: Json, pods: list[Json], steps: list[str]
) -> None:
    client = await reconcile(of, *pods)
    assert client.steps == steps
    assert client.reconcile_pass.deleted_outdated == len(steps)


@pytest.mark.parametrize(
    ("most", "pods", "steps"),
    [
        (2, [pod(n, OLD) for n in range(4)], ["-3", "-2"]),
        ("50%", [pod(n, OLD) for n in range(4)], ["-3", "-2"]),
        ("10%", [pod(n, OLD) for n in range(4)], ["-3"]),
        (3, [pod(n, OLD) for n in range(4)], ["-3", "-2", "-1"]),
        (2, [pod(0, OLD), pod(1, OLD), pod(2, OLD), pod(3, ready=False)], ["-2"]),
        (1, [pod(0, OLD), pod(1, OLD), pod(2, OLD), pod(3, ready=False)], []),
    ],
)
async def test_several_may_be_updated_at_once_as_far_as_not_too_many_are_missing(
    most: Any, pods: list[Json], steps: list[str]
) -> None:
    of = owner(4, parallel=True, maxUnavailable=most)
    assert (await reconcile(of, *pods, several=True)).steps == steps
    assert (await reconcile(owner(4, parallel=True, maxUnavailable=most, partition=4), *pods, several=True)).steps == []


async def test_a_set_that_is_being_deleted_does_nothing() -> None:
    going = owner()
    going["metadata"]["deletionTimestamp"] = "x"
    assert (await reconcile(going)).steps == []
    assert (await reconcile(owner(), stale=True)).steps == []


async def test_a_pod_gets_back_what_it_is_known_by() -> None:
    nameless = pod(0)
    del nameless["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"]
    client = await reconcile(owner(1), nameless)
    assert client.steps == ["~0"]
    assert client.writes[0][2]["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "s-0"
    assert client.events == [("Normal", "SuccessfulUpdate", "Update Pod s-0 in StatefulSet s successful")]
    assert (await reconcile(owner(1), nameless, update=(500, "InternalError"))).reasons == ["FailedUpdate"]


async def test_the_writes_of_pods_are_reported() -> None:
    assert (await reconcile(owner())).events == [
        ("Normal", "SuccessfulCreate", "Create Pod s-0 in StatefulSet s successful")
    ]
    failed = await reconcile(owner(), create=(500, "InternalError"))
    assert failed.events == [("Warning", "FailedCreate", "Create Pod s-0 in StatefulSet s failed error: refused")]
    assert failed.error is not None
    there = await reconcile(owner(), create=(409, "AlreadyExists"))
    assert (there.error is not None, there.events) == (True, [])
    gone = await reconcile(owner(0), pod(0), delete=(404, "NotFound"))
    assert (gone.error, gone.reasons) == (None, ["SuccessfulDelete"])
    stuck = await reconcile(owner(0), pod(0), delete=(500, "InternalError"))
    assert (stuck.error is not None, stuck.reasons) == (True, ["FailedDelete"])


async def test_the_status_counts_pods_by_what_they_are() -> None:
    pods = [pod(0, OLD), pod(1, OLD, ready=False), pod(2, NEW, going=True), pod(3, NEW)]
    turn = (await reconcile(owner(4, kind="OnDelete", minReadySeconds=5), *pods)).reconcile_pass
    assert turn.counts() == {
        "replicas": 4, "readyReplicas": 3, "availableReplicas": 3, "currentReplicas": 2, "updatedReplicas": 1,
    }  # fmt: skip
    updated = (await reconcile(owner(), *(pod(n, OLD) for n in range(3)))).reconcile_pass
    assert (updated.counts()["currentReplicas"], updated.counts()["updatedReplicas"]) == (2, 0)


# --- names and numbers


@pytest.mark.parametrize(
    ("name", "parent", "number"),
    [("s-0", "s", 0), ("a-b-12", "a-b", 12), ("s", "", -1), ("s-", "", -1), ("s-x", "", -1), ("s-2147483647", "s", 2**31 - 1),
     ("s-2147483648", "s", -1), ("s-1\n", "", -1), ("s-٣", "", -1)],
)  # fmt: skip
def test_a_name_consists_of_the_set_and_the_ordinal(name: str, parent: str, number: int) -> None:
    assert split_name(name) == (parent, number)


def test_a_pod_is_made_of_its_number() -> None:
    templates = [{"metadata": {"name": "data"}}]
    of = owner(volumeClaimTemplates=templates)
    of["spec"]["template"]["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}, {"name": "other", "emptyDir": {}}]
    made = new_pod(of, "r", 7)
    assert (made["metadata"]["name"], made["spec"]["hostname"], made["spec"]["subdomain"]) == ("s-7", "s-7", "svc")
    assert made["metadata"]["labels"] == {
        "app": "s", "controller-revision-hash": "r", "statefulset.kubernetes.io/pod-name": "s-7",
        "apps.kubernetes.io/pod-index": "7",
    }  # fmt: skip
    assert made["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-7"}}, {"name": "other", "emptyDir": {}},
    ]  # fmt: skip
    assert has_identity(of, made)
    assert has_storage(of, made)
    assert not has_identity(of, {**made, "metadata": {**made["metadata"], "labels": {}}})
    assert not has_storage(of, {**made, "spec": {"volumes": [{"name": "data", "emptyDir": {}}]}})
    assert not has_storage(of, {**made, "spec": {}})
    assert is_member(of, made)
    assert not is_member(of, {"metadata": {"name": "t-7"}})
    nameless = new_pod(owner(serviceName=""), "r", 0)
    assert "subdomain" not in nameless["spec"]
    assert with_storage(owner(), {"metadata": {"name": "s-0"}, "spec": {}}) == {"metadata": {"name": "s-0"}, "spec": {}}
    assert with_identity(of, {"metadata": {"name": "other-3"}})["metadata"]["name"] == "s-3"


@pytest.mark.parametrize(
    ("of", "kept"),
    [
        (owner(partition=2), 2),
        (owner(), 0),
        ({**owner(), "status": {"currentReplicas": 1}}, 1),
        ({**owner(kind="OnDelete"), "status": {"currentReplicas": 1}}, 0),
        (owner(partition=1, ordinals={"start": 4}), 1),
    ],
)
async def test_a_missing_pod_below_the_partition_comes_back_as_it_was(of: Json, kept: int) -> None:
    start = (of["spec"].get("ordinals") or {}).get("start", 0)
    assert [keeps_current(of, start + number) for number in range(3)] == [number < kept for number in range(3)]
    assert (await reconcile(of)).writes[0][2]["metadata"]["labels"]["controller-revision-hash"] == (
        OLD if kept else NEW
    )
