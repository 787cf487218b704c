"""The controller of CronJobs in one pass: which Jobs it makes, replaces and deletes, and which events it emits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.objects import Json
from controllers.runtime.times import go_time
from controllers.workloads.cronjob.cronjob import CronJobs, final_condition, job_for
from controllers.workloads.cronjob.times import DueTime, find_due, format_time, is_too_late, next_delay, schedule_of
from tests.support.objects import make_metadata, make_owner
from tests.support.recording import RecordingClient, build

pytestmark = pytest.mark.integration

#: The start of virtual time.
START = datetime(2026, 1, 1, tzinfo=UTC)
AT = "2025-12-31T23:59:00Z"


def cron(made: str = "2025-12-31T23:50:30Z", status: Json | None = None, **spec: Any) -> Json:
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"template": {}}}
    metadata = {"name": "c", "namespace": "ns", "uid": "u", "creationTimestamp": made}
    spec = {"schedule": "* * * * *", "jobTemplate": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec, "status": status or {}}


def job(name: str, condition: str = "", start: str = AT, owner: str = "u", **status: Any) -> Json:
    """Build a Job of the CronJob."""
    reference = make_owner({**cron(), "metadata": {"name": "c", "uid": owner}})
    conditions = [{"type": condition, "status": "True"}] if condition else []
    metadata = make_metadata(name, "ns", f"u-{name}", creationTimestamp=AT, ownerReferences=[reference])
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {},
            "status": {"conditions": conditions, "startTime": start, **status}}  # fmt: skip


def active(*names: str, **more: Any) -> Json:
    refs = [
        {"kind": "Job", "namespace": "ns", "name": name, "uid": f"u-{name}", "apiVersion": "batch/v1"} for name in names
    ]
    return {"active": refs, **more}


class CronJobClient(RecordingClient):
    """Records the writes for the CronJob `ns/c`."""

    @property
    def made(self) -> list[str]:
        return [body["metadata"]["name"] for body in self.bodies("create", "Job")]

    @property
    def gone(self) -> list[str]:
        return [name for name, _ in self.bodies("delete")]

    @property
    def active(self) -> list[str]:
        return [each["name"] for each in self.status.get("active", ())]


async def reconcile(of: Json, *jobs: Json, **more: Any) -> CronJobClient:
    """Reconcile a CronJob with its Jobs once."""
    return await build(CronJobs, CronJobClient(), of, *jobs, **more).reconcile("ns/c")


NOW_NAME = f"c-{int(START.timestamp()) // 60}"


async def test_the_job_of_the_last_time_that_was_missed_is_made_and_noted() -> None:
    client = await reconcile(cron())
    assert client.made == [NOW_NAME]
    assert client.events == [("Normal", "SuccessfulCreate", f"Created job {NOW_NAME}")]
    assert client.active == [NOW_NAME]
    assert client.status["lastScheduleTime"] == go_time(START)
    assert client.requeue_after == timedelta(seconds=60, milliseconds=100)


async def test_a_job_is_made_once_for_a_time() -> None:
    done = await reconcile(cron(status={"lastScheduleTime": go_time(START)}))
    assert (done.made, done.statuses, done.events) == ([], [], [])
    assert done.requeue_after == timedelta(seconds=60, milliseconds=100)
    known = await reconcile(cron(status=active(NOW_NAME)), job(NOW_NAME))
    assert (known.made, known.events) == ([], [])
    before = await reconcile(cron(status={"lastScheduleTime": go_time(START - timedelta(minutes=1))}))
    assert before.made == [NOW_NAME]


@pytest.mark.parametrize(
    ("policy", "made", "gone", "left", "reasons"),
    [
        ("Allow", [NOW_NAME], [], ["old", NOW_NAME], ["SuccessfulCreate"]),
        ("Forbid", [], [], ["old"], ["JobAlreadyActive"]),
        ("Replace", [NOW_NAME], ["ns/old"], [NOW_NAME], ["SuccessfulDelete", "SuccessfulCreate"]),
    ],
)
async def test_beside_a_job_that_runs_the_policy_decides(
    policy: str, made: list[str], gone: list[str], left: list[str], reasons: list[str]
) -> None:
    client = await reconcile(cron(status=active("old"), concurrencyPolicy=policy), job("old"))
    assert (client.made, client.gone, client.active, client.reasons) == (made, gone, left, reasons)
    alone = await reconcile(cron(concurrencyPolicy=policy))
    assert alone.made == [NOW_NAME]


async def test_a_job_that_cannot_be_replaced_is_reported_and_tried_again() -> None:
    replaced = cron(status=active("old"), concurrencyPolicy="Replace")
    missing = await reconcile(replaced, job("old"), refuses={"get": (500, "InternalError")})
    assert (missing.error is not None, missing.made, missing.reasons) == (True, [], ["FailedGet"])
    stuck = await reconcile(replaced, job("old"), refuses={"delete": (500, "InternalError")})
    assert str(stuck.error) == "could not replace job ns/old"
    assert (stuck.made, stuck.reasons, stuck.active) == ([], ["FailedDelete"], ["old"])


async def test_a_job_of_that_name_that_is_there_is_taken_if_it_is_ours_and_not_known() -> None:
    exists = (409, "AlreadyExists")
    ours = await reconcile(cron(), live=(job(NOW_NAME),), refuses={"create": exists})
    assert (ours.active, ours.events) == ([NOW_NAME], [])
    assert ours.status["lastScheduleTime"] == go_time(START)
    theirs = await reconcile(cron(), live=(job(NOW_NAME, owner="v"),), refuses={"create": exists})
    assert (theirs.statuses, theirs.error) == ([], None)
    known = await reconcile(cron(status=active(NOW_NAME)), live=[job(NOW_NAME)], refuses={"create": exists})
    assert (known.statuses, known.error) == ([], None)
    failed = await reconcile(cron(), refuses={"create": (500, "InternalError")})
    assert failed.error is not None
    assert failed.events == [("Warning", "FailedCreate", "Error creating job: refused")]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"suspend": True}, None),
        ({"timeZone": "Nowhere/Else"}, "UnknownTimeZone"),
        ({"schedule": "every now and then"}, "UnparseableSchedule"),
        ({"schedule": "0 0 30 2 *"}, "InvalidSchedule"),
        ({"startingDeadlineSeconds": 10, "schedule": "59 * * * *"}, ""),
    ],
)
async def test_a_job_that_is_not_created_is_reported_with_the_reason(spec: Json, reason: str | None) -> None:
    client = await reconcile(cron(**spec))
    assert (client.made, client.statuses) == ([], [])
    assert client.reasons == ([reason] if reason else [])
    assert (client.requeue_after is None) is (reason != "")


async def test_a_time_zone_in_the_schedule_is_used_and_reported() -> None:
    client = await reconcile(cron(schedule="TZ=Asia/Tokyo * * * * *"))
    assert (client.made, client.reasons) == ([NOW_NAME], ["UnsupportedSchedule", "SuccessfulCreate"])


async def test_a_cron_job_that_is_being_deleted_makes_nothing() -> None:
    going = cron()
    going["metadata"]["deletionTimestamp"] = AT
    client = await reconcile(going)
    assert (client.made, client.requeue_after) == ([], None)


async def test_too_many_missed_times_are_reported() -> None:
    assert (await reconcile(cron("2025-12-31T22:19:30Z"))).reasons == ["TooManyMissedTimes", "SuccessfulCreate"]
    assert (await reconcile(cron("2025-12-31T22:20:30Z"))).reasons == ["SuccessfulCreate"]


async def test_jobs_that_ended_are_forgotten_and_the_last_success_is_noted() -> None:
    ended = [job("a", "Complete", completionTime="2025-12-31T23:58:00Z"), job("b", "Failed"),
             job("c", "Complete", completionTime="2025-12-31T23:57:00Z"), job("d", "Complete")]  # fmt: skip
    client = await reconcile(cron(status=active("a", "b", "c"), suspend=True), *ended)
    assert client.status == {"lastSuccessfulTime": "2025-12-31T23:58:00Z"}
    assert client.events == [
        ("Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {how}")
        for name, how in (("a", "Complete"), ("b", "Failed"), ("c", "Complete"))
    ]
    same = await reconcile(cron(status={"lastSuccessfulTime": "2025-12-31T23:58:00Z"}, suspend=True), ended[0])
    assert same.statuses == []


async def test_a_job_that_is_missing_is_asked_for_before_it_is_forgotten() -> None:
    gone = await reconcile(cron(status=active("a"), suspend=True))
    assert (gone.status, gone.events) == ({}, [("Normal", "MissingJob", "Active job went missing: a")])
    there = await reconcile(cron(status=active("a"), suspend=True), live=(job("a"),))
    assert (there.statuses, there.events) == ([], [])
    unknown = await reconcile(cron(status=active("a"), suspend=True), refuses={"get": (500, "InternalError")})
    assert unknown.error is not None
    assert unknown.statuses == []


async def test_an_unexpected_job_is_reported_unless_the_status_was_stale() -> None:
    fresh = cron(status={}, suspend=True)
    client = await reconcile(cron(suspend=True), job("x"), live=(fresh,))
    assert client.events == [("Warning", "UnexpectedJob", "Saw a job that the controller did not create or forgot: x")]
    newer = cron(status=active("x"), suspend=True)
    client = await reconcile(cron(suspend=True), job("x"), live=(newer,))
    assert client.events == []


async def test_of_jobs_that_ended_the_youngest_stay() -> None:
    ended = [job(name, "Complete", f"2025-12-31T23:5{n}:00Z") for n, name in ((3, "c"), (1, "a"), (2, "b"))]
    failed = [job("f", "Failed"), job("g", "Failed", start="")]
    limits: Json = {"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1, "suspend": True}
    client = await reconcile(
        cron(status=active("a"), **limits), *ended, *failed, job("running"), live=(cron(status=active("running")),)
    )
    assert client.gone == ["ns/a", "ns/b", "ns/f"]
    assert client.reasons[:3] == ["SuccessfulDelete"] * 3
    none = await reconcile(
        cron(**{**limits, "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 9}), *ended, *failed
    )
    assert none.gone == ["ns/a", "ns/b", "ns/c"]
    unlimited = await reconcile(cron(suspend=True), *ended)
    assert unlimited.gone == []
    refused = await reconcile(cron(**limits), *ended, refuses={"delete": (500, "InternalError")})
    assert refused.reasons == ["FailedDelete", "FailedDelete"]


def test_a_job_is_of_its_time_and_its_template() -> None:
    made = job_for(cron(timeZone="Asia/Tokyo"), START)
    assert made["metadata"]["name"] == NOW_NAME
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["annotations"] == {
        "c": "d", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T09:00:00+09:00",
    }  # fmt: skip
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    plain = cron()
    plain["spec"]["jobTemplate"] = {"spec": {}}
    assert "labels" not in job_for(plain, START)["metadata"]
    assert format_time(cron(), START + timedelta(microseconds=5)) == "2026-01-01T00:00:00Z"
    assert [final_condition(job("a", kind)) for kind in ("", "Complete", "Failed", "Suspended")] == [
        "",
        "Complete",
        "Failed",
        "",
    ]
    assert final_condition({"status": {"conditions": [{"type": "Complete", "status": "False"}]}}) == ""


@pytest.mark.parametrize(
    ("schedule", "made", "spec", "expected"),
    [
        ("0 * * * *", "2025-12-31T23:30:00Z", {}, DueTime(START, False)),
        ("0 * * * *", "2026-01-01T00:00:00Z", {}, None),
        ("30 * * * *", "2025-12-31T23:45:00Z", {}, None),
        ("0 * * * *", "2025-12-31T12:30:00Z", {}, DueTime(START, False)),
        ("* * * * *", "2025-12-31T22:20:00Z", {}, DueTime(START, False)),
        ("* * * * *", "2025-12-31T22:18:00Z", {}, DueTime(START, True)),
        ("* * * * *", "2025-12-31T22:00:00Z", {"startingDeadlineSeconds": 120}, DueTime(START, False)),
        ("0 0 1 1 *", "2025-06-01T00:00:00Z", {}, DueTime(START, False)),
        ("0 0 * * 1", "2025-12-20T00:00:00Z", {}, DueTime(datetime(2025, 12, 29, tzinfo=UTC), False)),
        ("0 0 1,15 * *", "2025-11-01T00:00:00Z", {}, DueTime(START, False)),
    ],
)
def test_of_the_missed_times_the_last_counts(schedule: str, made: str, spec: Json, expected: DueTime | None) -> None:
    found = cron(made, schedule=schedule, **spec)
    assert find_due(found, schedule_of(found), START) == expected


def test_a_start_is_too_late_after_its_deadline() -> None:
    for seconds, late in ((None, False), (60, False), (59, True), (0, True)):
        found = cron() if seconds is None else cron(startingDeadlineSeconds=seconds)
        assert is_too_late(found, START - timedelta(seconds=60), START) is late
    assert not is_too_late(cron(startingDeadlineSeconds=0), START, START)


def test_the_next_pass_is_at_the_next_time() -> None:
    hourly, never = cron(schedule="30 * * * *"), cron(schedule="0 0 30 2 *")
    assert next_delay(hourly, schedule_of(hourly), START) == timedelta(minutes=30, milliseconds=100)
    assert next_delay(never, schedule_of(never), START) is None
    zoned = cron(schedule="0 9 * * *", timeZone="Asia/Tokyo")
    assert next_delay(zoned, schedule_of(zoned), START) == timedelta(days=1, milliseconds=100)
