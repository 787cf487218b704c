"""The controller of Jobs in one pass: which pods it makes, deletes, counts and lets go, and what it writes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import PODS
from controllers.workloads.jobs.indexes import ANNOTATION
from tests.controllers.jobobjects import FINALIZER
from tests.controllers.jobs import FAILURES, IGNORED, NOW, JobClient, build, job, pod, reconcile

pytestmark = pytest.mark.integration

# --- as many as are asked for


@pytest.mark.parametrize(
    ("spec", "status", "pods", "made", "gone"),
    [
        ({}, {}, [], 1, []),
        ({"parallelism": 3}, {}, [pod("a")], 2, []),
        ({"parallelism": 3, "completions": 5}, {"succeeded": 3}, [pod("a")], 1, []),
        ({"parallelism": 3, "completions": 5}, {"succeeded": 3}, [pod("a"), pod("b")], 0, []),
        ({"parallelism": 3}, {"succeeded": 1}, [pod("a")], 0, []),
        ({"parallelism": 0}, {}, [], 0, []),
        ({"parallelism": 1, "completions": 3}, {}, [pod("a", ready=True), pod("b")], 0, ["b"]),
        ({"parallelism": 2}, {}, [pod("a", going=True)], 2, []),
        ({"parallelism": 2, "podReplacementPolicy": "Failed"}, {}, [pod("a", going=True)], 1, []),
        ({"parallelism": 1, "podReplacementPolicy": "Failed"}, {}, [pod("a", going=True)], 0, []),
        ({"parallelism": 2, "suspend": True}, {}, [pod("a"), pod("b")], 0, ["a", "b"]),
    ],
)
async def test_as_many_pods_run_as_are_asked_for_and_left_to_do(
    spec: Json, status: Json, pods: list[Json], made: int, gone: list[str]
) -> None:
    client = await reconcile(job(status, backoffLimit=9, **spec), *pods)
    if client.requeue_after:  # a pod that is going counts as failed: its replacement waits
        assert (client.made, pods[0]["metadata"]["name"]) == ([], "a")
    else:
        assert (len(client.made), client.gone) == (made, gone)
    assert set(gone) <= set(client.let_go), "pods that are too many are not counted"


async def test_created_pods_are_reported_and_counted() -> None:
    client = await reconcile(job(parallelism=3, status={"startTime": None}), pod("a", ready=True))
    assert client.reasons == ["SuccessfulCreate"] * 2
    assert (client.numbers, client.status["ready"], client.status["terminating"]) == ((3, 0, 0), 1, 0)
    assert client.status["startTime"] == NOW
    assert client.samples("job_pods_creation_total") == ['job_pods_creation_total{reason="new",status="succeeded"} 2']
    assert client.samples("job_syncs_total") == [
        'job_syncs_total{completion_mode="NonIndexed",result="success",action="pods_created"} 1'
    ]
    again = await reconcile(job(parallelism=2, status=client.status), pod("a"), pod("b"), pod("c"))
    assert again.gone != []
    assert 'action="pods_deleted"' in again.samples("job_syncs_total")[0]
    settled = await reconcile(job(parallelism=1, status={"active": 1, "ready": 0, "terminating": 0}), pod("a"))
    assert settled.writes == []
    assert 'action="tracking"' in settled.samples("job_syncs_total")[0]


async def test_a_pod_that_cannot_be_created_is_reported_and_tried_again() -> None:
    client = await reconcile(job(parallelism=4), refuses={"create": (500, "InternalError")})
    assert (client.error is not None, len(client.made), client.numbers) == (True, 1, (0, 0, 0))
    assert client.events == [("Warning", "FailedCreate", "Error creating: refused")]
    assert client.samples("job_pods_creation_total") == ['job_pods_creation_total{reason="new",status="failed"} 1']
    assert 'result="error"' in client.samples("job_syncs_total")[0]


@pytest.mark.parametrize(
    ("spec", "status", "pods", "reason"),
    [
        ({}, {"failed": 1}, [], "recreate_terminating_or_failed"),
        ({"podReplacementPolicy": "Failed"}, {"failed": 1}, [], "recreate_failed"),
        ({"podReplacementPolicy": "Failed"}, {}, [pod("a", going=True)], "recreate_terminating_or_failed"),
        ({}, {}, [], "new"),
    ],
)
async def test_why_a_pod_is_made_is_counted(spec: Json, status: Json, pods: list[Json], reason: str) -> None:
    client = await reconcile(job(status, parallelism=2, **spec), *pods)
    assert f'reason="{reason}"' in client.samples("job_pods_creation_total")[0]


# --- how a Job ends


async def test_a_job_that_is_done_counts_its_pods_lets_them_go_and_ends() -> None:
    client = await reconcile(job(completions=2, parallelism=2), pod("a", "Succeeded"), pod("b", "Succeeded"))
    assert client.let_go == ["a", "b"]
    first = client.statuses[0]
    assert first["uncountedTerminatedPods"] == {"succeeded": ["u-a", "u-b"]}
    assert [each["type"] for each in first["conditions"]] == ["SuccessCriteriaMet"]
    assert client.conditions == [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]
    assert (client.numbers, client.status["completionTime"]) == ((0, 2, 0), NOW)
    assert client.status["uncountedTerminatedPods"] == {}
    assert client.events == [("Normal", "Completed", "Job completed")]
    assert client.samples("jobs_finished_total") == [
        'jobs_finished_total{completion_mode="NonIndexed",result="succeeded",reason="CompletionsReached"} 1'
    ]
    assert 'job_pods_finished_total{completion_mode="NonIndexed",result="succeeded"} 2' in client.samples("job_pods_f")
    many = await reconcile(job(completions=1), pod("a", "Succeeded"), pod("b", "Succeeded"))
    assert many.reasons == ["TooManySucceededPods", "Completed"]
    queue = await reconcile(job(), pod("a", "Succeeded"))
    assert queue.conditions[-1] == ("Complete", "CompletionsReached")
    waiting = await reconcile(job(completions=1), pod("a", "Succeeded"), pod("b", going=True))
    assert (waiting.conditions, waiting.events) == ([("SuccessCriteriaMet", "CompletionsReached")], [])


@pytest.mark.parametrize(
    ("spec", "status", "pods", "reason"),
    [
        ({"backoffLimit": 0}, {}, [pod("a", "Failed")], "BackoffLimitExceeded"),
        ({"backoffLimit": 1}, {}, [pod("a", "Failed")], ""),
        ({}, {"failed": 6}, [pod("a", "Failed")], "BackoffLimitExceeded"),
        ({}, {"failed": 5}, [pod("a", "Failed")], ""),
        ({"activeDeadlineSeconds": 60}, {}, [pod("a")], "DeadlineExceeded"),
        ({"activeDeadlineSeconds": 61}, {}, [pod("a")], ""),
        ({"activeDeadlineSeconds": 60, "suspend": True}, {}, [], ""),
    ],
)
async def test_a_job_that_fails_has_a_reason_and_deletes_its_pods(
    spec: Json, status: Json, pods: list[Json], reason: str
) -> None:
    client = await reconcile(job(status, **spec), *pods)
    types = [each for each in client.conditions if each[0] != "Suspended"]
    assert types == (
        [("FailureTarget", reason), ("Failed", reason)][: 2 if pods[0]["status"]["phase"] == "Failed" else 1]
        if reason
        else []
    )
    running = [each["metadata"]["name"] for each in pods if each["status"]["phase"] == "Running"]
    assert client.gone == (running if reason else [])
    if types and len(types) == 2:
        assert client.events[-1][:2] == ("Warning", reason)
        assert client.samples("jobs_finished_total") == [
            f'jobs_finished_total{{completion_mode="NonIndexed",result="failed",reason="{reason}"}} 1'
        ]
        assert "completionTime" not in client.status
    if spec.get("activeDeadlineSeconds") == 61:
        assert client.requeue_after == timedelta(seconds=1)


async def test_a_pod_that_cannot_be_deleted_keeps_a_job_from_ending() -> None:
    client = await reconcile(
        job(activeDeadlineSeconds=1), pod("a"), pod("b", ready=True), refuses={"delete": (500, "InternalError")}
    )
    assert (client.error is not None, client.conditions) == (True, [])
    missing = await reconcile(job(activeDeadlineSeconds=1), pod("a"), refuses={"delete": (404, "NotFound")})
    assert (missing.error, missing.conditions) == (None, [("FailureTarget", "DeadlineExceeded")])


async def test_a_finalizer_that_stays_is_tried_again_and_the_pod_counted_once() -> None:
    client = await reconcile(job(completions=2), pod("a", "Succeeded"), refuses={"patch": (500, "InternalError")})
    assert (client.error is not None, client.numbers[1]) == (True, 0)
    assert client.status["uncountedTerminatedPods"] == {"succeeded": ["u-a"]}
    again = await reconcile(job(client.status, completions=2), pod("a", "Succeeded"))
    assert (again.numbers, again.status["uncountedTerminatedPods"]) == ((1, 1, 0), {})
    gone = await reconcile(job(completions=2), pod("a", "Succeeded"), refuses={"patch": (404, "NotFound")})
    assert (gone.error, gone.numbers) == (None, (1, 1, 0))
    over = await reconcile(job({"uncountedTerminatedPods": {"failed": ["u-x"]}}, completions=2), pod("a"))
    assert (over.numbers, over.status["uncountedTerminatedPods"]) == ((1, 0, 1), {})


async def test_failures_are_waited_for_and_replaced() -> None:
    async def after(seconds: int, *more: Json) -> JobClient:
        return await reconcile(job(), pod("a", "Failed", at=f"2025-12-31T23:59:{60 - seconds:02}Z"), *more)

    early, due = await after(9), await after(10)
    assert (early.made, early.requeue_after) == ([], timedelta(seconds=1))
    assert (due.made, due.requeue_after) == ([None], None)
    twice = await after(15, pod("b", "Failed", at="2025-12-31T23:00:00Z"))
    assert (twice.made, twice.requeue_after, twice.numbers) == ([], timedelta(seconds=5), (0, 0, 2))


async def test_a_suspended_job_stands_still_and_goes_on() -> None:
    still = await reconcile(job(suspend=True), pod("a"))
    assert (still.gone, still.conditions) == (["a"], [("Suspended", "JobSuspended")])
    assert still.events[-1] == ("Normal", "Suspended", "Job suspended")
    again = await reconcile(job(still.status, suspend=True))
    assert again.events == []
    on = await reconcile(job(still.status))
    assert on.conditions == [("Suspended", "JobResumed")]
    assert (on.status["startTime"], on.reasons[-1]) == (NOW, "Resumed")
    new = await reconcile(job({"startTime": None}, suspend=True))
    assert "startTime" not in new.status


# --- indexes


@pytest.mark.parametrize(
    ("status", "pods", "made", "gone", "completed"),
    [
        ({}, [], [0, 1, 2], [], ""),
        ({"completedIndexes": "0"}, [pod("a", index=2)], [1, 3], [], "0"),
        ({}, [pod("a", "Succeeded", 1), pod("b", index=0)], [2, 3], [], "1"),
        ({}, [pod("a", index=0), pod("b", index=0, ready=True)], [], ["a"], ""),
        ({}, [pod("a", index=4), pod("b")], [], ["a", "b"], ""),
        ({"completedIndexes": "0-2"}, [pod("a", "Succeeded", 3)], [], [], "0-3"),
        ({"completedIndexes": "0,9"}, [pod("a", "Succeeded", 9), pod("b", index=1)], [2, 3], [], "0"),
    ],
)
async def test_each_index_has_one_pod_until_it_is_done(
    status: Json, pods: list[Json], made: list[int], gone: list[str], completed: str
) -> None:
    client = await reconcile(job(status, completionMode="Indexed", completions=4, parallelism=3), *pods)
    assert (client.made, client.gone, client.status.get("completedIndexes", "")) == (made, gone, completed)
    if completed == "0-3":
        assert client.conditions[-1] == ("Complete", "CompletionsReached")
        assert client.samples("job_finished_indexes_total") == [
            'job_finished_indexes_total{status="succeeded",backoffLimit="global"} 4'
        ]


def per_index(**more: Any) -> Json:
    return {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1,
            "backoffLimit": 99, **more}  # fmt: skip


async def test_an_index_fails_beyond_its_own_limit() -> None:
    once = await reconcile(job(**per_index()), pod("a", "Failed", 0), pod("b", index=1))
    [made] = once.bodies("create", "Pod")
    assert (once.made, made["metadata"]["annotations"][FAILURES]) == ([0], "1")
    assert IGNORED not in made["metadata"]["annotations"]
    assert (once.let_go, once.status["failedIndexes"]) == ([], "")
    twice = await reconcile(job(**per_index()), pod("a", "Failed", 0, failures=1), pod("b", index=1))
    assert (twice.made, twice.let_go, twice.status["failedIndexes"], twice.numbers) == ([], ["a"], "0", (1, 0, 1))
    assert 'job_finished_indexes_total{status="failed",backoffLimit="perIndex"} 1' in twice.samples("job_fin")
    both = await reconcile(job({"failedIndexes": "0"}, **per_index()), pod("b", "Succeeded", 1))
    assert both.conditions == [("FailureTarget", "FailedIndexes"), ("Failed", "FailedIndexes")]
    many = await reconcile(job({"failedIndexes": "0"}, **per_index(maxFailedIndexes=0)), pod("b", index=1))
    assert (many.conditions, many.gone) == ([("FailureTarget", "MaxFailedIndexesExceeded")], ["b"])
    fine = await reconcile(job({"failedIndexes": "0"}, **per_index(maxFailedIndexes=1)), pod("b", index=1))
    assert fine.conditions == []


async def test_a_failure_that_a_policy_ignores_counts_for_the_wait_alone() -> None:
    rules = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
             {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [8]}}]  # fmt: skip
    spec = per_index(podFailurePolicy={"rules": rules})
    client = await reconcile(job(**spec), pod("a", "Failed", 0, failures=1, ignored=1, code=7), pod("b", index=1))
    [made] = client.bodies("create", "Pod")
    assert (made["metadata"]["annotations"][FAILURES], made["metadata"]["annotations"][IGNORED]) == ("1", "2")
    failed = await reconcile(job(**spec), pod("a", "Failed", 0, code=8), pod("b", index=1))
    assert (failed.made, failed.status["failedIndexes"]) == ([], "0")
    assert failed.samples("pod_failures") == ['pod_failures_handled_by_failure_policy_total{action="FailIndex"} 1']
    late = pod("a", "Failed", 0, ignored=1, code=7, at="2025-12-31T23:59:45Z")
    waits = await reconcile(job(**spec), late, pod("b", index=1))
    assert (waits.made, waits.requeue_after) == ([], timedelta(seconds=5))


async def test_of_pods_of_an_index_the_last_that_failed_stays() -> None:
    first, last = (
        pod("a", "Failed", 0, at="2025-12-31T23:00:00Z"),
        pod("b", "Failed", 0, failures=1, at="2025-12-31T23:10:00Z"),
    )
    for order in ((first, last), (last, first)):
        client = await reconcile(job(**per_index(backoffLimitPerIndex=5)), *order, pod("c", index=1))
        assert (client.let_go, client.bodies("create", "Pod")[0]["metadata"]["annotations"][FAILURES]) == (["a"], "2")


# --- pods of others, and Jobs of others


async def test_pods_that_no_job_counts_are_let_go() -> None:
    async def let_go(of: Json | None, known: Json) -> list[str]:
        client = build(of or {**job(), "metadata": {**job()["metadata"], "uid": "other"}}, known)
        queue: list[str] = []
        client.component._orphans.controller.queue.add = queue.append
        client.component._orphans.check(known)
        await client.component._orphans.reconcile("ns/" + known["metadata"]["name"])
        assert queue == [f"ns/{name}" for name in client.let_go]
        return client.let_go

    over = job({"conditions": [{"type": "Complete", "status": "True"}]})
    running = job({"conditions": [{"type": "Complete", "status": "False"}]})
    alone, other = pod("a"), pod("a")
    alone["metadata"]["ownerReferences"] = []
    other["metadata"]["ownerReferences"][0]["kind"] = "Cat"
    ours = {**over, "spec": {**over["spec"], "managedBy": "kubernetes.io/job-controller"}}
    for of, known in ((over, pod("a")), (None, pod("a")), (ours, pod("a")), (job(), alone)):
        assert await let_go(of, known) == ["a"]
    theirs = {**over, "spec": {**over["spec"], "managedBy": "me"}}
    for of, known in (
        (job(), pod("a")),
        (over, pod("a", held=False)),
        (running, pod("a")),
        (theirs, pod("a")),
        (None, other),
    ):
        assert await let_go(of, known) == []


async def test_some_jobs_are_left_alone() -> None:
    for of in (job(managedBy="me"), job({"conditions": [{"type": "Failed", "status": "True"}]})):
        assert (await reconcile(of)).writes == []
    unknown = await reconcile(job(completionMode="Odd"))
    assert (unknown.writes, unknown.reasons) == ([], ["UnknownCompletionMode"])
    assert build(job(managedBy="me")).samples("jobs_by_external") == [
        'jobs_by_external_controller_total{controller_name="me"} 1'
    ]
    going = job()
    going["metadata"]["deletionTimestamp"] = NOW
    client = await reconcile(going, pod("a", "Failed"))
    assert (client.made, client.let_go, client.numbers) == ([], ["a"], (0, 0, 1))


async def test_a_pod_of_an_index_has_its_index_in_name_labels_and_environment() -> None:
    of = job(completionMode="Indexed", completions=1)
    of["metadata"]["name"] = "j" * 63
    containers = [{"name": "c"}, {"name": "d", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]}]
    of["spec"]["template"] = {**of["spec"]["template"], "spec": {"containers": containers}}
    client = build(job())
    client.component.owners.set_object("ns/j", of)
    [made] = (await client.reconcile("ns/j")).bodies("create", "Pod")
    assert made["metadata"]["generateName"] == f"{'j' * 55}-0-"
    assert (made["metadata"]["labels"], made["spec"]["hostname"]) == ({"j": "j", ANNOTATION: "0"}, f"{'j' * 63}-0")
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{ANNOTATION}']"}}
    assert [each["env"] for each in made["spec"]["containers"]] == [
        [{"name": "JOB_COMPLETION_INDEX", "valueFrom": field}], [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "restarts", "ends"), [(0, 0, False), (0, 1, True), (2, 1, False), (2, 2, True), (1, 1, True)]
)
async def test_containers_that_start_again_in_their_pod_count_as_failures(
    limit: int, restarts: int, ends: bool
) -> None:
    of = job(backoffLimit=limit)
    for policy in ("OnFailure", "Never"):
        of["spec"]["template"]["spec"]["restartPolicy"] = policy
        running = pod("a")
        running["status"]["containerStatuses"][0]["restartCount"] = restarts
        expected = [("FailureTarget", "BackoffLimitExceeded")] if ends and policy == "OnFailure" else []
        assert (await reconcile(of, running)).conditions == expected


async def test_a_pod_that_is_going_counts_as_failed_unless_only_failed_ones_are_replaced() -> None:
    going = pod("a", going=True, at="2025-12-31T23:00:00Z")
    assert (await reconcile(job(backoffLimit=9), going)).numbers[2] == 1
    assert (await reconcile(job(backoffLimit=9, podReplacementPolicy="Failed"), going)).numbers[2] == 0
    assert (await reconcile(job(backoffLimit=9), pod("a", "Succeeded", going=True))).numbers[1:] == (1, 0)
    index = await reconcile(
        job(**per_index(podReplacementPolicy="Failed", parallelism=2)), pod("a", index=0, going=True)
    )
    assert index.made == [1]


async def test_very_many_pods_are_counted_in_more_than_one_pass() -> None:
    ended = [pod(f"p{number}", "Succeeded") for number in range(501)]
    client = await reconcile(job(completions=501), *ended)
    assert (len(client.let_go), client.numbers[1]) == (500, 500)
    assert ("Complete", "CompletionsReached") not in client.conditions


async def test_pods_without_an_owner_are_adopted_and_counted_from_then_on() -> None:
    alone, of = pod("a", held=False), job()
    alone["metadata"]["ownerReferences"] = []
    client = build(of, alone)
    client.there["Job", "j"] = of
    [(name, body)] = (await client.reconcile("ns/j")).bodies("patch", "Pod")
    assert (name, body["metadata"]["finalizers"], client.numbers) == ("a", [FINALIZER], (1, 0, 0))


async def test_pods_that_end_with_our_finalizer_are_counted_as_they_come_and_go() -> None:
    client = build(job())
    running, failed = pod("a"), pod("a", "Failed")
    for changed in (running, failed, pod("a", "Failed", held=False), failed, None):
        client.informers.of(PODS).set_object("ns/a", changed)
    held = "terminated_pods_tracking_finalizer_total"
    assert client.samples(held) == [f'{held}{{event="add"}} 2', f'{held}{{event="delete"}} 2']


async def test_pods_that_go_are_counted_where_their_replacement_may_wait() -> None:
    without_replacement: Json = {"emulated_version": (1, 33), "gates": {"JobPodReplacementPolicy": False}}
    found = job(parallelism=1, status={"active": 1, "ready": 0, "terminating": 1})
    assert (await reconcile(found, pod("a"), pod("b", going=True))).status["terminating"] == 1
    client = await reconcile(found, pod("a"), pod("b", going=True), **without_replacement)
    assert "terminating" not in client.status
