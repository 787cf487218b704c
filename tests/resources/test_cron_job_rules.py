"""CronJobs: schedules, time zones, and job templates."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.api.values.cron_schedules import ScheduleError, check_location, parse_schedule
from tests.resources.conftest import Judge


def cron_job(job: Json | None = None, **spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}
    return {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template, **(job or {})}}, **spec}}


@pytest.mark.parametrize(
    "schedule",
    [
        "* * * * *", "?/5 0-23/2 1,15 jan-MAR mon", "@daily", "@every 1h30m", "@every -1.5s", "0 0 1 1 0",
        "TZ=UTC 0 0 * * *", "5/10 * * * *", ", * * * *",
    ],
)  # fmt: skip
def test_a_schedule_has_five_fields_or_a_name(schedule: str) -> None:
    parse_schedule(schedule)


@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("* * * * mo", 'failed to parse int from mo: strconv.Atoi: parsing "mo": invalid syntax'),
        ("@often", "unrecognized descriptor: @often"),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        ("@every 5y", 'failed to parse duration @every 5y: time: unknown unit "y" in duration "5y"'),
        ("@every ", 'failed to parse duration @every : time: invalid duration ""'),
        ("TZ=Moon/Crater 0 0 * * *", "provided bad location Moon/Crater: unknown time zone Moon/Crater"),
        ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
    ],
)
def test_what_is_no_schedule_is_told_why(schedule: str, error: str) -> None:
    with pytest.raises(ScheduleError) as wrong:
        parse_schedule(schedule)
    assert str(wrong.value) == error


def test_time_zones_have_names() -> None:
    check_location("Europe/Berlin")
    for name, error in (
        ("/etc/passwd", "time: invalid location name"),
        ("europe/berlin", "unknown time zone europe/berlin"),
    ):
        with pytest.raises(ScheduleError, match=error):
            check_location(name)


@pytest.mark.parametrize(
    ("spec", "job", "errors"),
    [
        ({"schedule": ""}, {}, ["spec.schedule: Required value"]),
        (
            {"schedule": "CRON_TZ=UTC 0 0 * * *"}, {},
            ['spec.schedule: Invalid value: "CRON_TZ=UTC 0 0 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead'],
        ),
        ({"timeZone": ""}, {}, ['spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string']),
        ({"timeZone": "a//b"}, {}, ['spec.timeZone: Invalid value: "a//b": unknown time zone a//b']),
        (
            {"timeZone": "Local"}, {},
            ['spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones'],
        ),
        ({"concurrencyPolicy": "Any"}, {}, ['spec.concurrencyPolicy: Unsupported value: "Any": supported values: "Allow", "Forbid", "Replace"']),
        ({"failedJobsHistoryLimit": -1}, {}, ["spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"manualSelector": True}, ['spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"']),
        ({}, {"selector": {}}, ["spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated"]),
        ({}, {"parallelism": -1}, ["spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0"]),
    ],
)  # fmt: skip
def test_a_spec_that_makes_no_sense_is_refused(judge: Judge, spec: Json, job: Json, errors: list[str]) -> None:
    assert judge.create("cronjobs", cron_job(job, **spec))[1] == errors


def test_a_cron_job_says_how_jobs_go_together_but_not_how_a_job_runs(judge: Judge) -> None:
    spec = judge.create("cronjobs", cron_job())[0]["spec"]
    assert (
        spec["concurrencyPolicy"],
        spec["suspend"],
        spec["successfulJobsHistoryLimit"],
        spec["failedJobsHistoryLimit"],
    ) == ("Allow", False, 3, 1)
    assert spec["jobTemplate"]["spec"].keys() == {"template"}
    assert spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"


def test_names_leave_room_for_those_of_jobs_and_old_zones_stay(judge: Judge) -> None:
    long = {**cron_job(), "metadata": {"name": "x" * 53}}
    old, wrong = judge.create("cronjobs", long)
    assert wrong == [f'metadata.name: Invalid value: "{"x" * 53}": must be no more than 52 characters']
    old["spec"]["schedule"] = "TZ=UTC 0 0 * * *"
    assert judge.update("cronjobs", old, deepcopy(old))[1] == []
    zoned = {**deepcopy(old), "spec": {**deepcopy(old["spec"]), "timeZone": "Etc/UTC"}}
    assert judge.update("cronjobs", old, zoned)[1][0].endswith(
        "cannot use both timeZone field and TZ or CRON_TZ in schedule"
    )
    assert judge.update("cronjobs", old, zoned)[0]["metadata"]["generation"] == 2


def times(schedule: str, after: str, number: int) -> list[str]:
    parsed, moment, found = parse_schedule(schedule), datetime.fromisoformat(after), []
    for _ in range(number):
        following = parsed.next(moment)
        if following is None:
            break
        moment = following
        found.append(f"{moment:%m-%d %H:%M}")
    return found


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("5,50 23,0 * * *", "2026-02-28T22:00:00Z", ["02-28 23:05", "02-28 23:50", "03-01 00:05"]),
        # By number or by weekday where both are given, by both where one of them is any.
        ("0 0 13 * fri", "2026-03-10T00:00:00Z", ["03-13 00:00", "03-20 00:00", "03-27 00:00", "04-03 00:00"]),
        ("0 0 */1 * fri", "2026-03-10T00:00:00Z", ["03-13 00:00", "03-20 00:00"]),
        ("0 0 */2 * fri", "2026-03-10T00:00:00Z", ["03-11 00:00", "03-13 00:00", "03-15 00:00"]),
        ("0 0 29 2 *", "2026-03-01T00:00:00Z", ["02-29 00:00"]),
        ("0 0 31 2 *", "2026-03-01T00:00:00Z", []),
        # Clocks that change leave a time out, or repeat it.
        ("TZ=Europe/Berlin 30 2 * * *", "2026-03-27T12:00:00Z", ["03-28 01:30", "03-30 00:30"]),
        ("TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", ["10-25 00:30", "10-25 01:30", "10-26 01:30"]),
        ("TZ=Asia/Tokyo @weekly", "2026-03-10T00:00:00Z", ["03-14 15:00"]),
        ("@every 1h30m0.7s", "2026-03-10T00:00:00.5Z", ["03-10 01:30", "03-10 03:00"]),
    ],
)
def test_a_schedule_says_when_something_runs(schedule: str, after: str, expected: list[str]) -> None:
    assert times(schedule, after, len(expected) or 1) == expected
