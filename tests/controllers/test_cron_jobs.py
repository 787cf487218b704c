"""CronJobs make Jobs when their schedule says so, on a running control plane in virtual time.

Their Jobs are suspended, so that each ends when a test says so.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apiserver.api.objects import Json
from controllers.runtime.kinds import CRON_JOBS
from kubedra.pytest_plugin import Kube
from tests.support.objects import make_manifest

pytestmark = [pytest.mark.integration, pytest.mark.kube(clock="virtual")]


def cron(name: str, schedule: str = "* * * * *", **spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {"metadata": {"labels": {"cron": name}}, "spec": {"suspend": True, "template": template}}
    return make_manifest(CRON_JOBS, name, {"schedule": schedule, "jobTemplate": job, **spec})


def jobs(kube: Any) -> list[Json]:
    return sorted(kube.list("jobs"), key=lambda job: job["metadata"]["name"])


def scheduled(kube: Any) -> list[str]:
    return [job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] for job in jobs(kube)]


def finish(kube: Any, job: Json, condition: str = "Complete") -> None:
    at = kube.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    before = "SuccessCriteriaMet" if condition == "Complete" else "FailureTarget"
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": at} for kind in (before, condition)]
    status: Json = {"startTime": at, "conditions": conditions}
    if condition == "Complete":
        status["completionTime"] = at
    kube.client().patch(f"job/{job['metadata']['name']}", {"status": status}, subresource="status")


def told(kube: Any, name: str) -> list[str]:
    return [event["reason"] for event in kube.events(f"cronjob/{name}")]


def minute(kube: Any) -> datetime:
    """On to the first second of a minute."""
    now = kube.clock.now()
    kube.advance(now.replace(second=0, microsecond=0) + timedelta(seconds=61) - now)
    return kube.clock.now().replace(second=0, microsecond=0)  # type: ignore[no-any-return]


def utc(moment: datetime, *minutes: int) -> list[str]:
    return [f"{moment + timedelta(minutes=each):%Y-%m-%dT%H:%M:00Z}" for each in minutes]


def test_a_job_is_made_at_each_time_of_the_schedule_in_its_time_zone(kube: Kube) -> None:
    begun = minute(kube)
    at = (begun + timedelta(minutes=2)).astimezone(ZoneInfo("Asia/Kathmandu"))
    kube.apply([cron("a", f"{at:%M %H} * * *", timeZone="Asia/Kathmandu")])
    kube.advance(seconds=90)
    assert jobs(kube) == []
    kube.advance(seconds=30)
    (job,) = jobs(kube)
    assert scheduled(kube) == [f"{at:%Y-%m-%dT%H:%M:00}+05:45"]
    name = f"a-{int(at.timestamp()) // 60}"
    assert (job["metadata"]["name"], job["metadata"]["labels"]) == (name, {"cron": "a"})
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("CronJob", True)
    status = kube.get("cronjob/a")["status"]
    assert [each["name"] for each in status["active"]] == [name]
    assert [status["lastScheduleTime"]] == utc(begun, 2)


def test_whether_jobs_may_run_beside_each_other_is_the_policys(kube: Kube) -> None:
    begun = minute(kube)
    for policy in ("Allow", "Forbid", "Replace"):
        kube.apply([cron(policy.lower(), concurrencyPolicy=policy)])
    kube.advance(minutes=2)
    names = [job["metadata"]["labels"]["cron"] for job in jobs(kube)]
    assert names == ["allow", "allow", "forbid", "replace"]
    assert scheduled(kube)[2:] == utc(begun, 1, 2)
    assert "JobAlreadyActive" in told(kube, "forbid")
    finish(kube, jobs(kube)[2])
    kube.advance(seconds=1)
    assert scheduled(kube)[2:4] == utc(begun, 1, 2)


def test_of_the_jobs_that_ended_the_limits_keep_the_youngest(kube: Kube) -> None:
    begun = minute(kube)
    kube.apply([cron("a", successfulJobsHistoryLimit=1, failedJobsHistoryLimit=2)])
    for number in range(6):
        kube.advance(begun + timedelta(minutes=number + 1, seconds=1) - kube.clock.now())
        finish(kube, jobs(kube)[-1], "Complete" if number % 2 else "Failed")
        kube.advance(seconds=2)
    assert scheduled(kube) == utc(begun, 3, 5, 6)
    status = kube.get("cronjob/a")["status"]
    assert status.get("active") is None
    assert [status["lastSuccessfulTime"]] == [utc(begun, 6)[0].replace(":00Z", ":01Z")]
    assert set(told(kube, "a")) == {"SawCompletedJob", "SuccessfulCreate", "SuccessfulDelete"}


def test_of_the_times_that_were_missed_the_last_counts_unless_it_is_too_late(kube: Kube) -> None:
    begun = minute(kube)
    kube.apply([cron("late", suspend=True, startingDeadlineSeconds=10), cron("soon", suspend=True)])
    kube.advance(minutes=3, seconds=30)
    for name in ("late", "soon"):
        kube.client().patch(f"cronjob/{name}", {"spec": {"suspend": False}})
    kube.advance(seconds=2)
    assert [job["metadata"]["labels"]["cron"] for job in jobs(kube)] == ["soon"]
    assert scheduled(kube) == utc(begun, 3)
    kube.advance(seconds=30)
    assert scheduled(kube) == utc(begun, 4, 3, 4)


def test_a_deleted_job_and_an_unknown_one_are_reported(kube: Kube) -> None:
    kube.apply([cron("a")])
    minute(kube)
    job = kube.get(f"job/{jobs(kube)[0]['metadata']['name']}")
    kube.delete(f"job/{job['metadata']['name']}")
    kube.advance(seconds=2)
    assert "active" not in kube.get("cronjob/a")["status"]
    metadata = {"name": "by-hand", "ownerReferences": job["metadata"]["ownerReferences"]}
    kube.create({**job, "metadata": metadata, "spec": cron("a")["spec"]["jobTemplate"]["spec"]})
    kube.advance(seconds=2)
    assert {"MissingJob", "UnexpectedJob"} <= set(told(kube, "a"))


def test_a_schedule_that_never_comes_is_reported(kube: Kube) -> None:
    kube.apply([cron("a", "0 0 31 2 *")])
    kube.advance(seconds=2)
    assert told(kube, "a") == ["InvalidSchedule"]
