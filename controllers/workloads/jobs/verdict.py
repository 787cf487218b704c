"""Decides whether and how a Job ends. Pure.

The order is: existing interim conditions, the pod failure policy, the limits, the indexes, the success policy. `ended`
comes last, because it needs the pods left after creations and deletions.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from apiserver.api.values.durations import go_seconds
from controllers.runtime.kinds import Json
from controllers.runtime.times import go_time, parse_time
from controllers.workloads.common.conditions import condition_of
from controllers.workloads.common.pod_states import phase
from controllers.workloads.jobs.policies import fail_message, met
from controllers.workloads.jobs.reconcile import Look

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


def interim(look: Look, type: str) -> Json | None:
    """Return the true condition of a type, or None."""
    found = condition_of(look.status, type)
    return found if found is not None and found["status"] == "True" else None


def judge(look: Look) -> Json | None:
    """Return the condition with which the Job will end, or None."""
    if (known := interim(look, "SuccessCriteriaMet")) is not None:
        return known
    if (target := interim(look, "FailureTarget")) is not None:
        return as_final(target, "Failed", look.now)
    if text := fail_message(look.failure_policy, look.failed_pods()):
        return condition("FailureTarget", "True", "PodFailurePolicy", text, look.now)
    if look.failed > look.spec.get("backoffLimit", 6) or _restarted_too_often(look):
        return _failure(look, _LIMIT)
    left = deadline_in(look)
    if left is not None and left <= timedelta():
        return _failure(look, _DEADLINE)
    return _judge_indexes(look) if look.indexed else None


def _judge_indexes(look: Look) -> Json | None:
    completions = look.completions or 0
    if look.failed_indexes is not None:
        number, most = len(look.failed_indexes), look.spec.get("maxFailedIndexes")
        if most is not None and number > most:
            return _failure(look, _MAX_FAILED)
        if number and number + len(look.succeeded_indexes) >= completions:
            return _failure(look, _FAILED)
    if text := met(look.spec.get("successPolicy"), completions, look.succeeded_indexes):
        return condition("SuccessCriteriaMet", "True", "SuccessPolicy", text, look.now)
    return None


def ended(look: Look) -> Json | None:
    """Return the condition of a successful Job; None while pods are missing or active."""
    if look.active or (look.succeeded < look.completions if look.completions is not None else not look.succeeded):
        return None
    return condition("SuccessCriteriaMet" if look.gates.delays_the_end else "Complete", "True", *_COMPLETED, look.now)


def as_final(interim: Json, type: str, now: datetime) -> Json:
    """Build the final condition from an interim one."""
    return condition(type, "True", interim.get("reason", ""), interim.get("message", ""), now)


def _failure(look: Look, why: tuple[str, str]) -> Json:
    return condition("FailureTarget" if look.gates.delays_the_end else "Failed", "True", *why, look.now)


def deadline_in(look: Look) -> timedelta | None:
    """Return the time until `activeDeadlineSeconds` expire, or None."""
    seconds, start = look.spec.get("activeDeadlineSeconds"), look.status.get("startTime")
    if seconds is None or start is None or look.suspended:
        return None
    return parse_time(start) + go_seconds(seconds) - look.now


def _restarted_too_often(look: Look) -> bool:
    """Return whether container restarts exceed the back-off limit (restart policy OnFailure)."""
    if look.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    limit = look.spec.get("backoffLimit", 6)
    number = sum(map(_restarts, (pod for pod in look.pods if phase(pod) in ("Running", "Pending"))))
    return number > 0 if limit == 0 else number >= limit


def _restarts(pod: Json) -> int:
    status = pod["status"]
    return _sum(status.get("initContainerStatuses") or ()) + _sum(status.get("containerStatuses") or ())


def _sum(statuses: Iterable[Json]) -> int:
    return sum(status.get("restartCount", 0) for status in statuses)


def with_status(conditions: list[Json], wanted: Json) -> list[Json] | None:
    """Return the conditions with `wanted` set; None if nothing changes or a false condition is new."""
    for number, known in enumerate(conditions):
        if known["type"] == wanted["type"]:
            same = all(known.get(name, "") == wanted.get(name, "") for name in ("status", "reason", "message"))
            return None if same else [*conditions[:number], wanted, *conditions[number + 1 :]]
    return None if wanted["status"] == "False" else [*conditions, wanted]
