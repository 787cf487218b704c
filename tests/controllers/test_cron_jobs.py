"""CronJobs create Jobs by their schedule, on a running control plane in virtual time.

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


def scheduled_times(kube: Any) -> list[str]:
    return [job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] for job in jobs(kube)]


def finish(kube: Any, job: Json, condition: str = "Complete") -> None:
    at = kube.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    before = "SuccessCriteriaMet" if condition == "Complete" else "FailureTarget"
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": at} for kind in (before, condition)]
    status: Json = {"startTime": at, "conditions": conditions}
    if condition == "Complete":
        status["completionTime"] = at
    kube.client().patch(f"job/{job['metadata']['name']}", {"status": status}, subresource="status")


def reasons(kube: Any, name: str) -> list[str]:
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
    assert scheduled_times(kube) == [f"{at:%Y-%m-%dT%H:%M:00}+05:45"]
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
    assert scheduled_times(kube)[2:] == utc(begun, 1, 2)
    assert "JobAlreadyActive" in reasons(kube, "forbid")
    finish(kube, jobs(kube)[2])
    kube.advance(seconds=1)
    assert scheduled_times(kube)[2:4] == utc(begun, 1, 2)
