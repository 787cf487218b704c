"""What a CronJob's controller does at one look: which Jobs are made, replaced, forgotten and deleted, and what it says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.runtime.metrics import Histogram
from controllers.runtime.times import go_time
from controllers.workloads.cronjob.cronjob import ReconcilePass, final_condition, job_for
from controllers.workloads.cronjob.times import DueTime, find_due, format_time, is_too_late, next_delay, schedule_of
from tests.support.recording import FakeRecorder, RecordingClient
from tests.support.virtual import run

pytestmark = pytest.mark.integration

#: Where virtual time begins.
START = datetime(2026, 1, 1, tzinfo=UTC)
AT = "2025-12-31T23:59:00Z"


def cron(made: str = "2025-12-31T23:50:30Z", status: Json | None = None, **spec: Any) -> Json:
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"template": {}}}
    metadata = {"name": "c", "namespace": "ns", "uid": "u", "creationTimestamp": made}
    spec = {"schedule": "* * * * *", "jobTemplate": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec, "status": status or {}}


def job(name: str, condition: str = "", start: str = AT, ours: bool = True, **status: Any) -> Json:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u" if ours else "v", "controller": True}
    conditions = [{"type": condition, "status": "True"}] if condition else []
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"u-{name}",
        "creationTimestamp": AT,
        "ownerReferences": [owner],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {},
            "status": {"conditions": conditions, "startTime": start, **status}}  # fmt: skip


def active(*names: str, **more: Any) -> Json:
    refs = [
        {"kind": "Job", "namespace": "ns", "name": name, "uid": f"u-{name}", "apiVersion": "batch/v1"} for name in names
    ]
    return {"active": refs, **more}


class Look:
    """One look at a CronJob with these Jobs."""

    def __init__(self, of: Json, *jobs: Json, known: tuple[Json, ...] = (), **refuses: tuple[int, str]) -> None:
        self.client, self.told = RecordingClient(), FakeRecorder()
        self.client.refuses = refuses
        for each in (*jobs, *known):
            self.client.there[each["kind"], each["metadata"]["name"]] = each
        self.client._answers["Job"] = lambda made: made if isinstance(made, tuple) else _created(made)
        self.run = ReconcilePass(self.client, self.told, Histogram("h", "", (), (1.0,)), of)  # type: ignore[arg-type]
        self.of, self.jobs = of, list(jobs)
        self.again: timedelta | None = None
        self.error: StatusError | None = None

    def __call__(self) -> Look:
        async def scenario() -> None:
            await self.run.clean_up(self.jobs)
            try:
                self.again = await self.run.sync(self.jobs)
            except StatusError as error:
                self.error = error
            await self.run.write()

        run(scenario)
        return self

    @property
    def made(self) -> list[str]:
        return [
            what["metadata"]["name"] for verb, kind, what in self.client.writes if (verb, kind) == ("create", "Job")
        ]

    @property
    def gone(self) -> list[str]:
        return [what[0] for verb, _, what in self.client.writes if verb == "delete"]

    @property
    def status(self) -> Json | None:
        """What is written; None where nothing is."""
        written = [what["status"] for verb, _, what in self.client.writes if verb == "update/status"]
        return written[-1] if written else None

    @property
    def active(self) -> list[str]:
        return [each["name"] for each in (self.status or self.of["status"]).get("active", ())]


def _created(made: Json) -> Json:
    metadata = {**made["metadata"], "uid": f"u-{made['metadata']['name']}", "creationTimestamp": "2026-01-01T00:00:02Z"}
    return {**made, "metadata": metadata}


NOW_NAME = f"c-{int(START.timestamp()) // 60}"


def test_the_job_of_the_last_time_that_was_missed_is_made_and_noted() -> None:
    look = Look(cron())()
    assert look.made == [NOW_NAME]
    assert look.told.events == [("Normal", "SuccessfulCreate", f"Created job {NOW_NAME}")]
    assert look.active == [NOW_NAME]
    assert look.status is not None
    assert look.status["lastScheduleTime"] == go_time(START)
    assert look.again == timedelta(seconds=60, milliseconds=100)


def test_a_job_is_made_once_for_a_time() -> None:
    done = Look(cron(status={"lastScheduleTime": go_time(START)}))()
    assert (done.made, done.status, done.told.events) == ([], None, [])
    assert done.again == timedelta(seconds=60, milliseconds=100)
    known = Look(cron(status=active(NOW_NAME)), job(NOW_NAME))()
    assert (known.made, known.told.events) == ([], [])
    before = Look(cron(status={"lastScheduleTime": go_time(START - timedelta(minutes=1))}))()
    assert before.made == [NOW_NAME]


@pytest.mark.parametrize(
    ("policy", "made", "gone", "left", "reasons"),
    [
        ("Allow", [NOW_NAME], [], ["old", NOW_NAME], ["SuccessfulCreate"]),
        ("Forbid", [], [], ["old"], ["JobAlreadyActive"]),
        ("Replace", [NOW_NAME], ["ns/old"], [NOW_NAME], ["SuccessfulDelete", "SuccessfulCreate"]),
    ],
)
def test_beside_a_job_that_runs_the_policy_decides(
    policy: str, made: list[str], gone: list[str], left: list[str], reasons: list[str]
) -> None:
    look = Look(cron(status=active("old"), concurrencyPolicy=policy), job("old"))()
    assert (look.made, look.gone, look.active, look.told.reasons) == (made, gone, left, reasons)
    alone = Look(cron(concurrencyPolicy=policy))()
    assert alone.made == [NOW_NAME]


def test_what_cannot_be_replaced_is_told_and_tried_again() -> None:
    replaced = cron(status=active("old"), concurrencyPolicy="Replace")
    missing = Look(replaced, job("old"), get=(500, "InternalError"))()
    assert (missing.error is not None, missing.made, missing.told.reasons) == (True, [], ["FailedGet"])
    stuck = Look(replaced, job("old"), delete=(500, "InternalError"))()
    assert str(stuck.error) == "could not replace job ns/old"
    assert (stuck.made, stuck.told.reasons, stuck.active) == ([], ["FailedDelete"], ["old"])


def test_a_job_of_that_name_that_is_there_is_taken_if_it_is_ours_and_not_known() -> None:
    exists = (409, "AlreadyExists")
    ours = Look(cron(), known=(job(NOW_NAME),), create=exists)()
    assert (ours.active, ours.told.events) == ([NOW_NAME], [])
    assert (ours.status or {})["lastScheduleTime"] == go_time(START)
    theirs = Look(cron(), known=(job(NOW_NAME, ours=False),), create=exists)()
    assert (theirs.status, theirs.error) == (None, None)
    failed = Look(cron(), create=(500, "InternalError"))()
    assert failed.error is not None
    assert failed.told.events == [("Warning", "FailedCreate", "Error creating job: refused")]


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
def test_what_keeps_a_job_from_being_made_is_told(spec: Json, reason: str | None) -> None:
    look = Look(cron(**spec))()
    assert (look.made, look.status) == ([], None)
    assert look.told.reasons == ([reason] if reason else [])
    assert (look.again is None) is (reason != "")


def test_a_time_zone_in_the_schedule_is_followed_and_told() -> None:
    look = Look(cron(schedule="TZ=Asia/Tokyo * * * * *"))()
    assert (look.made, look.told.reasons) == ([NOW_NAME], ["UnsupportedSchedule", "SuccessfulCreate"])


def test_a_cron_job_that_is_being_deleted_makes_nothing() -> None:
    going = cron()
    going["metadata"]["deletionTimestamp"] = AT
    look = Look(going)()
    assert (look.made, look.again) == ([], None)


def test_very_many_missed_times_are_told() -> None:
    assert Look(cron("2025-12-31T22:19:30Z"))().told.reasons == ["TooManyMissedTimes", "SuccessfulCreate"]
    assert Look(cron("2025-12-31T22:20:30Z"))().told.reasons == ["SuccessfulCreate"]


def test_jobs_that_ended_are_forgotten_and_the_last_success_is_noted() -> None:
    ended = [job("a", "Complete", completionTime="2025-12-31T23:58:00Z"), job("b", "Failed"),
             job("c", "Complete", completionTime="2025-12-31T23:57:00Z"), job("d", "Complete")]  # fmt: skip
    look = Look(cron(status=active("a", "b", "c"), suspend=True), *ended)()
    assert look.status == {"lastSuccessfulTime": "2025-12-31T23:58:00Z"}
    assert look.told.events == [
        ("Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {how}")
        for name, how in (("a", "Complete"), ("b", "Failed"), ("c", "Complete"))
    ]
    same = Look(cron(status={"lastSuccessfulTime": "2025-12-31T23:58:00Z"}, suspend=True), ended[0])()
    assert same.status is None


def test_a_job_that_is_missing_is_asked_for_before_it_is_forgotten() -> None:
    gone = Look(cron(status=active("a"), suspend=True))()
    assert (gone.status, gone.told.events) == ({}, [("Normal", "MissingJob", "Active job went missing: a")])
    there = Look(cron(status=active("a"), suspend=True), known=(job("a"),))()
    assert (there.status, there.told.events) == (None, [])
    unknown = Look(cron(status=active("a"), suspend=True), get=(500, "InternalError"))()
    assert unknown.error is not None
    assert unknown.status is None


def test_a_job_that_nobody_knows_of_is_told_unless_the_status_was_old() -> None:
    fresh = cron(status={}, suspend=True)
    look = Look(cron(suspend=True), job("x"), known=(fresh,))()
    assert look.told.events == [
        ("Warning", "UnexpectedJob", "Saw a job that the controller did not create or forgot: x")
    ]
    newer = cron(status=active("x"), suspend=True)
    look = Look(cron(suspend=True), job("x"), known=(newer,))()
    assert look.told.events == []


def test_of_jobs_that_ended_the_youngest_stay() -> None:
    ended = [job(name, "Complete", f"2025-12-31T23:5{n}:00Z") for n, name in ((3, "c"), (1, "a"), (2, "b"))]
    failed = [job("f", "Failed"), job("g", "Failed", start="")]
    limits = {"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1, "suspend": True}
    look = Look(
        cron(status=active("a"), **limits), *ended, *failed, job("running"), known=(cron(status=active("running")),)
    )()
    assert look.gone == ["ns/a", "ns/b", "ns/f"]
    assert look.told.reasons[:3] == ["SuccessfulDelete"] * 3
    none = Look(cron(**{**limits, "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 9}), *ended, *failed)()
    assert none.gone == ["ns/a", "ns/b", "ns/c"]
    unlimited = Look(cron(suspend=True), *ended)()
    assert unlimited.gone == []
    refused = Look(cron(**limits), *ended, delete=(500, "InternalError"))()
    assert refused.told.reasons == ["FailedDelete", "FailedDelete"]


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


def test_the_next_look_is_at_the_next_time() -> None:
    hourly, never = cron(schedule="30 * * * *"), cron(schedule="0 0 30 2 *")
    assert next_delay(hourly, schedule_of(hourly), START) == timedelta(minutes=30, milliseconds=100)
    assert next_delay(never, schedule_of(never), START) is None
    zoned = cron(schedule="0 9 * * *", timeZone="Asia/Tokyo")
    assert next_delay(zoned, schedule_of(zoned), START) == timedelta(days=1, milliseconds=100)
