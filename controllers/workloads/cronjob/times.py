"""The due times of CronJobs. Pure.

Of several missed times the last one counts. Their number is extrapolated from the first two. Facts: upstream's
pkg/controller/cronjob/utils.go.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from apiserver.api.objects import Json
from apiserver.api.values.cron_schedules import Schedule, ScheduleError, location, parse_schedule
from apiserver.api.values.durations import go_seconds
from controllers.runtime.times import parse_time

#: Delay that covers clock skew, to avoid a pass just before the due time.
_PADDING: Final = timedelta(milliseconds=100)
_MANY: Final = 100
_SECOND: Final = timedelta(seconds=1)


class DueTime(NamedTuple):
    """The scheduled time of a Job to create; `many` marks too many missed times."""

    time: datetime
    many: bool


class _Missed(NamedTuple):
    since: datetime
    last: datetime | None
    times: int


def schedule_of(cron: Json) -> Schedule:
    """Parse the schedule. Raise ScheduleError."""
    text, zone = cron["spec"].get("schedule", ""), cron["spec"].get("timeZone")
    return parse_schedule(text if zone is None or "TZ" in text else f"TZ={zone} {text}")


def find_due(cron: Json, schedule: Schedule, now: datetime) -> DueTime | None:
    """Return the last missed time, or None. Raise ScheduleError for a schedule without times."""
    missed = _find_missed(cron, schedule, now, _deadline(cron, now))
    if missed.last is None or missed.last > now:
        return None
    return DueTime(missed.last, missed.times > _MANY)


def next_delay(cron: Json, schedule: Schedule, now: datetime) -> timedelta | None:
    """Return the delay until the next time; None for a schedule without further times."""
    try:
        missed = _find_missed(cron, schedule, now, None)
    except ScheduleError:
        after = now
    else:
        after = missed.last or (now if missed.times else missed.since)
    following = schedule.next(after)
    return following + _PADDING - now if following is not None else None


def is_too_late(cron: Json, time: datetime, now: datetime) -> bool:
    """Return whether the starting deadline of a time has passed."""
    seconds = cron["spec"].get("startingDeadlineSeconds")
    return seconds is not None and time + go_seconds(seconds) < now


def format_time(cron: Json, time: datetime) -> str:
    """Format the time for a Job's annotation."""
    local = time.astimezone(location(cron["spec"].get("timeZone") or "")).replace(microsecond=0)
    return local.isoformat().removesuffix("+00:00") + "Z" if not local.utcoffset() else local.isoformat()


def _deadline(cron: Json, now: datetime) -> datetime | None:
    """Return the earliest time that may still start, or None."""
    seconds = cron["spec"].get("startingDeadlineSeconds")
    if seconds is None:
        return None
    return now - go_seconds(seconds)


def _find_missed(cron: Json, schedule: Schedule, now: datetime, deadline: datetime | None) -> _Missed:
    last = (cron.get("status") or {}).get("lastScheduleTime")
    since = parse_time(last or cron["metadata"]["creationTimestamp"])
    if deadline is not None and deadline > since:
        since = deadline
    first = schedule.next(since)
    if first is not None and now < first:
        return _Missed(since, None, 0)
    second = schedule.next(first) if first is not None else None
    if first is None or second is None:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    if now < second:
        return _Missed(since, first, 0)
    between = second - first
    times = (now - first) // _SECOND // max(1, round(between / _SECOND)) + 1
    # Start one step before the extrapolated last time, then step through the schedule.
    found, time = None, schedule.next(first + (times - 2) * between)
    while time is not None and time <= now:
        found, time = time, schedule.next(time)
    return _Missed(since, found, times)
