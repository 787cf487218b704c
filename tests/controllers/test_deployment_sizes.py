"""One pass over a Deployment that is scaled, paused or rolled back, and its status."""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from controllers.workloads.deployment.replicasets import DESIRED, MAX_REPLICAS, REVISION, ROLLBACK
from tests.controllers.deployments import AVAILABLE, BEFORE, NOW, deployment, held, progress, reconcile, template

pytestmark = pytest.mark.integration

# --- from one size to another


@pytest.mark.parametrize(
    ("wanted", "sets", "sizes"),
    [
        (6, [held("new", 4, 2, of=4)], {"new": 6}),
        (6, [held("old", 4, 2, of=4)], {"old": 6}),
        (6, [held("new", 6, 2, of=6), held("old", 2, 1, of=4)], {"old": 0}),
        (6, [held("new", 6, 2, 5, of=6), held("old", 2, 1, of=8)], {"new": 5, "old": 2}),
        (8, [held("new", 2, 2, of=4), held("old", 3, 1, of=4)], {"new": 4, "old": 5}),
        (2, [held("new", 2, 2, of=4), held("old", 3, 1, of=4)], {"new": 1, "old": 2}),
        (1, [held("new", 2, 2, of=4), held("old", 2, 1, of=4)], {"new": 1, "old": 1}),
    ],
)
async def test_another_size_goes_to_the_active_one_or_to_each_by_its_share(
    wanted: int, sets: list[Json], sizes: dict[str, int]
) -> None:
    client = await reconcile(deployment(replicas=wanted), *sets)
    assert client.sizes == sizes
    assert client.requeue_after is None
    assert client.made == []


async def test_a_share_is_written_even_where_only_what_is_remembered_changes() -> None:
    client = await reconcile(deployment(replicas=5, paused=True), held("new", 3, 2, of=4), held("old", 3, 1, of=5))
    assert client.sizes == {"new": 3}
    assert client.messages == []
    assert {each["metadata"]["annotations"][DESIRED] for each in client.bodies("update", "ReplicaSet")} == {"5"}
    same = await reconcile(deployment(replicas=5, paused=True), held("new", 3, 2, of=5), held("old", 3, 1, of=5))
    assert same.sizes == {}
    recreated = await reconcile(
        deployment(replicas=9, strategy={"type": "Recreate"}), held("new", 3, 2, of=5), held("old", 3, 1, of=5)
    )
    assert recreated.sizes == {}


# --- back, paused, going


@pytest.mark.parametrize(
    ("to", "image", "reason", "message"),
    [
        ("1", "a", "DeploymentRollback", 'Rolled back deployment "d" to revision 1'),
        ("0", "b", "DeploymentRollback", 'Rolled back deployment "d" to revision 2'),
        ("3", "new", "DeploymentRollbackTemplateUnchanged",
         'The rollback revision contains the same template as current deployment "d"'),
        ("9", "new", "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."),
    ],
)  # fmt: skip
async def test_a_deployment_goes_back_once_to_the_revision_that_is_asked_for(
    to: str, image: str, reason: str, message: str
) -> None:
    sets = held("a", 0, 1, annotations={"was": "a"}), held("b", 0, 2), held("new", 4, 3, of=4)
    of = deployment(annotations={ROLLBACK: to, REVISION: "3", "mine": "z"})
    client = await reconcile(of, *sets)
    [updated] = client.bodies("update", "Deployment")
    went = reason == "DeploymentRollback"
    assert updated["spec"]["template"] == template(image)
    assert ROLLBACK not in updated["metadata"]["annotations"]
    assert updated["metadata"]["annotations"].get("was") == ("a" if to == "1" else None)
    assert updated["metadata"]["annotations"].get("mine") == (None if went else "z")
    assert updated["metadata"]["annotations"][REVISION] == "3"
    assert client.events == [("Normal" if went else "Warning", reason, message)]


async def test_without_an_earlier_revision_there_is_none_to_go_back_to() -> None:
    client = await reconcile(deployment(annotations={ROLLBACK: "0"}), held("new", 4, 1, of=4))
    assert client.events == [("Warning", "DeploymentRollbackRevisionNotFound", "Unable to find last revision.")]
    assert ROLLBACK not in client.bodies("update", "Deployment")[0]["metadata"]["annotations"]
    assert (await reconcile(deployment(annotations={ROLLBACK: "one"}), held("new", 4, 1, of=4))).events == []
    paused = await reconcile(deployment(annotations={ROLLBACK: "0"}, paused=True), held("new", 4, 1, of=4))
    assert (paused.events, paused.bodies("update", "Deployment")) == ([], [])


@pytest.mark.parametrize(
    ("paused", "reason", "expected"),
    [
        (True, "NewReplicaSetAvailable", ("Unknown", "DeploymentPaused")),
        (True, "DeploymentPaused", ("Unknown", "DeploymentPaused")),
        (True, "ProgressDeadlineExceeded", ("Unknown", "ProgressDeadlineExceeded")),
        (False, "DeploymentPaused", ("Unknown", "DeploymentResumed")),
    ],
)
async def test_pausing_and_resuming_sets_the_condition(paused: bool, reason: str, expected: tuple[str, str]) -> None:
    status = {"conditions": [progress(reason, "Unknown")], "updatedReplicas": 4, "replicas": 4,
              "readyReplicas": 4, "availableReplicas": 4}  # fmt: skip
    client = await reconcile(
        deployment(status=status, paused=paused, annotations={REVISION: "2"}), held("new", 4, 2, 3, of=4)
    )
    first = client.bodies("update/status", "Deployment")[0]["status"]["conditions"]
    assert next((each["status"], each["reason"]) for each in first if each["type"] == "Progressing") == expected
    unlimited = deployment(paused=True, progressDeadlineSeconds=None, annotations={REVISION: "2"})
    assert (await reconcile(unlimited, held("new", 4, 2, of=4))).progress is None


async def test_old_replica_sets_go_when_all_is_done_or_paused() -> None:
    sets = held("a", 0, 1), held("b", 0, 2), held("new", 4, 3, of=4)
    done = {"updatedReplicas": 4, "replicas": 4, "availableReplicas": 4, "observedGeneration": 3}
    cases: list[tuple[Json, list[str]]] = [
        ({"status": done, "revisionHistoryLimit": 1}, ["a"]),
        ({"status": done, "revisionHistoryLimit": 0}, ["a", "b"]),
        ({"status": done}, []),
        ({"status": done, "revisionHistoryLimit": 2**31 - 1}, []),
        ({"paused": True, "revisionHistoryLimit": 0}, ["a", "b"]),
        *(({"status": {**done, name: done[name] - 1}, "revisionHistoryLimit": 0}, []) for name in done),
    ]
    for fields, gone in cases:
        assert (await reconcile(deployment(**fields), *sets)).gone == gone
    unsettled = held("a", 0, 1)
    unsettled["metadata"]["generation"] = 2
    assert (await reconcile(deployment(status=done, revisionHistoryLimit=0), unsettled, *sets[1:])).gone == ["b"]
    missing = await reconcile(
        deployment(status=done, revisionHistoryLimit=0), *sets, refuses={"delete": (404, "NotFound")}
    )
    assert (missing.gone, missing.error) == (["a", "b"], None)
    refused = await reconcile(
        deployment(status=done, revisionHistoryLimit=0), *sets, refuses={"delete": (500, "InternalError")}
    )
    assert refused.error is not None


async def test_a_deployment_that_goes_is_counted_and_no_more() -> None:
    of = deployment()
    of["metadata"]["deletionTimestamp"] = NOW
    client = await reconcile(of, held("old", 4, 1))
    assert (client.made, client.sizes, client.status["availableReplicas"]) == ([], {}, 4)
    everything = deployment(selector={})
    everything["spec"]["selector"] = {}
    client = await reconcile(everything, held("old", 4, 1))
    assert (client.writes, client.reasons) == ([], ["SelectingAll"])


# --- the status


async def test_a_status_has_counts_and_the_replica_failure() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "lastTransitionTime": BEFORE}
    sets = held("new", 3, 2, 1, of=4), held("old", 2, 1, 2, of=4, conditions=[failure], terminatingReplicas=1)
    client = await reconcile(deployment(missing=1, annotations={REVISION: "2"}), *sets)
    status = {name: value for name, value in client.status.items() if name != "conditions"}
    assert status == {"observedGeneration": 3, "replicas": 5, "updatedReplicas": 3, "readyReplicas": 3,
                      "availableReplicas": 3, "unavailableReplicas": 2}  # fmt: skip
    by_type = {each["type"]: each for each in client.status["conditions"]}
    assert by_type["Available"] == {**AVAILABLE, "lastUpdateTime": NOW, "lastTransitionTime": NOW}
    assert by_type["ReplicaFailure"] == {**failure, "lastUpdateTime": BEFORE}
    less = await reconcile(deployment(missing=0), *sets)
    by_type = {each["type"]: each for each in less.status["conditions"]}
    assert (by_type["Available"]["status"], by_type["Available"]["reason"]) == ("False", "MinimumReplicasUnavailable")
    assert by_type["Available"]["message"] == "Deployment does not have minimum availability."
    gone = await reconcile(deployment(status=client.status), held("new", 3, 2, 1, of=4), held("old", 2, 1, 2, of=4))
    assert [each for each in gone.status["conditions"] if each["type"] == "ReplicaFailure"] == []


@pytest.mark.parametrize(
    ("known", "changed", "expected"),
    [
        ([progress("ReplicaSetUpdated", at=BEFORE)], {}, ("False", "ProgressDeadlineExceeded")),
        ([progress("ReplicaSetUpdated", at="2025-12-31T23:59:00Z")], {}, ("True", "ReplicaSetUpdated")),
        ([progress("ReplicaSetUpdated", at=BEFORE)], {"readyReplicas": 1}, ("True", "ReplicaSetUpdated")),
        ([progress("ReplicaSetUpdated", at=BEFORE)], {"replicas": 6}, ("True", "ReplicaSetUpdated")),
        ([progress("ProgressDeadlineExceeded", "False")], {}, ("False", "ProgressDeadlineExceeded")),
        ([progress("ProgressDeadlineExceeded", "False")], {"updatedReplicas": 0}, ("True", "ReplicaSetUpdated")),
        ([progress("NewReplicaSetAvailable", at=BEFORE)], {}, ("True", "NewReplicaSetAvailable")),
        ([progress("NewReplicaSetAvailable", at=BEFORE)], {"readyReplicas": 3}, ("True", "ReplicaSetUpdated")),
    ],
)
async def test_a_roll_out_makes_progress_or_is_late(
    known: list[Json], changed: Json, expected: tuple[str, str]
) -> None:
    before = {"observedGeneration": 3, "replicas": 5, "updatedReplicas": 1, "readyReplicas": 4,
              "availableReplicas": 4, "unavailableReplicas": 1, "conditions": known, **changed}  # fmt: skip
    client = await reconcile(
        deployment(status=before, annotations={REVISION: "2"}), held("new", 1, 2, 0, of=4), held("old", 4, 1, 4, of=4)
    )
    assert client.progress == expected
    assert (client.requeue_after is None) is (known[0]["reason"] == "ProgressDeadlineExceeded")
    if changed:
        [found] = [each for each in client.status["conditions"] if each["type"] == "Progressing"]
        assert (found["lastUpdateTime"], found["message"]) == (NOW, 'ReplicaSet "d-new" is progressing.')


async def test_a_roll_out_that_was_done_stays_so_while_pods_come_and_go() -> None:
    before = {"observedGeneration": 3, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 2, "availableReplicas": 2,
              "conditions": [progress("NewReplicaSetAvailable", at=BEFORE)]}  # fmt: skip
    begun = {**before, "conditions": [progress("ReplicaSetUpdated", at=BEFORE)]}
    for status, reason in ((before, "NewReplicaSetAvailable"), (begun, "ReplicaSetUpdated")):
        assert (await reconcile(deployment(status=status), held("new", 4, 2, 3, of=4))).progress == ("True", reason)


async def test_without_limits_nothing_is_made_beyond_the_size() -> None:
    [made] = (await reconcile(deployment(strategy={"type": "RollingUpdate"}))).made
    assert made["metadata"]["annotations"][MAX_REPLICAS] == "4"
