"""Times in their wire form."""

from __future__ import annotations

from datetime import UTC, datetime

from apiserver.api.values.times import timestamp

__all__ = ["go_time", "micro_time", "parse_time"]


def go_time(moment: datetime) -> str:
    """Format metav1.Time: whole seconds, UTC."""
    return timestamp(moment)


def micro_time(moment: datetime) -> str:
    """Format metav1.MicroTime."""
    return f"{timestamp(moment)[:-1]}.{moment.microsecond:06d}Z"


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 time."""
    return datetime.fromisoformat(text).astimezone(UTC)
