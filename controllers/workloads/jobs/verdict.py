"""Decides whether and how a Job ends. Pure.

The order is: existing interim conditions, the pod failure policy, the limits, the indexes, the success policy.
`find_success` comes last, because it needs the pods left after creations and deletions.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.durations import go_seconds
from controllers.runtime.times import go_time, parse_time
from controllers.workloads.common.conditions import condition_of
from controllers.workloads.common.pod_states import phase
from controllers.workloads.jobs.policies import fail_message, match_success
from controllers.workloads.jobs.reconcile import ReconcilePass

_LIMIT: Final = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE: Final = ("DeadlineExceeded", "Job was active longer than specified deadline")
_MAX_FAILED: Final = (
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
_FAILED: Final = ("FailedIndexes", "Job has failed indexes")
_COMPLETED: Final = ("CompletionsReached", "Reached expected number of succeeded pods")


def condition(type: str, status: str, reason: str, message: str, now: datetime) -> Json:
    """Build a condition of a Job."""
    at = go_time(now)
    made = {"type": type, "status": status, "lastProbeTime": at, "lastTransitionTime": at}
    return made | {name: text for name, text in (("reason", reason), ("message", message)) if text}


def is_over(job: Json) -> bool:
    """Return whether the Job is finished."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


def interim(this: ReconcilePass, type: str) -> Json | None:
    """Return the true condition of a type, or None."""
    found = condition_of(this.status, type)
    return found if found is not None and found["status"] == "True" else None


def judge(this: ReconcilePass) -> Json | None:
    """Return the condition with which the Job will end, or None."""
    if (known := interim(this, "SuccessCriteriaMet")) is not None:
        return known
    if (target := interim(this, "FailureTarget")) is not None:
        return as_final(target, "Failed", this.now)
    if text := fail_message(this.failure_policy, this.failed_pods()):
        return condition("FailureTarget", "True", "PodFailurePolicy", text, this.now)
    if this.failed > this.spec.get("backoffLimit", 6) or _exceeds_restarts(this):
        return _failure(this, _LIMIT)
    left = deadline_in(this)
    if left is not None and left <= timedelta():
        return _failure(this, _DEADLINE)
    return _judge_indexes(this) if this.is_indexed else None


def _judge_indexes(this: ReconcilePass) -> Json | None:
    completions = this.completions or 0
    if this.failed_indexes is not None:
        number, most = len(this.failed_indexes), this.spec.get("maxFailedIndexes")
        if most is not None and number > most:
            return _failure(this, _MAX_FAILED)
        if number and number + len(this.succeeded_indexes) >= completions:
            return _failure(this, _FAILED)
    if text := match_success(this.spec.get("successPolicy"), completions, this.succeeded_indexes):
        return condition("SuccessCriteriaMet", "True", "SuccessPolicy", text, this.now)
    return None


def find_success(this: ReconcilePass) -> Json | None:
    """Return the condition of a successful Job; None while pods are missing or active."""
    if this.active or (this.succeeded < this.completions if this.completions is not None else not this.succeeded):
        return None
    return condition("SuccessCriteriaMet" if this.gates.delays_the_end else "Complete", "True", *_COMPLETED, this.now)


def as_final(interim: Json, type: str, now: datetime) -> Json:
    """Build the final condition from an interim one."""
    return condition(type, "True", interim.get("reason", ""), interim.get("message", ""), now)


def _failure(this: ReconcilePass, reason: tuple[str, str]) -> Json:
    return condition("FailureTarget" if this.gates.delays_the_end else "Failed", "True", *reason, this.now)


def deadline_in(this: ReconcilePass) -> timedelta | None:
    """Return the time until `activeDeadlineSeconds` expire, or None."""
    seconds, start = this.spec.get("activeDeadlineSeconds"), this.status.get("startTime")
    if seconds is None or start is None or this.is_suspended:
        return None
    return parse_time(start) + go_seconds(seconds) - this.now


def _exceeds_restarts(this: ReconcilePass) -> bool:
    """Return whether container restarts exceed the back-off limit (restart policy OnFailure)."""
    if this.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    limit = this.spec.get("backoffLimit", 6)
    number = sum(map(_restarts, (pod for pod in this.pods if phase(pod) in ("Running", "Pending"))))
    return number > 0 if limit == 0 else number >= limit


def _restarts(pod: Json) -> int:
    status = pod["status"]
    return _sum(status.get("initContainerStatuses") or ()) + _sum(status.get("containerStatuses") or ())


def _sum(statuses: Iterable[Json]) -> int:
    return sum(status.get("restartCount", 0) for status in statuses)


def with_status(conditions: list[Json], new: Json) -> list[Json] | None:
    """Return the conditions with `new` set; None if nothing changes or a false condition is new."""
    for number, known in enumerate(conditions):
        if known["type"] == new["type"]:
            same = all(known.get(name, "") == new.get(name, "") for name in ("status", "reason", "message"))
            return None if same else [*conditions[:number], new, *conditions[number + 1 :]]
    return None if new["status"] == "False" else [*conditions, new]
