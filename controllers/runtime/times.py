"""Times as objects have them on the wire."""

from __future__ import annotations

from datetime import UTC, datetime

from apiserver.api.values.times import timestamp

__all__ = ["go_time", "micro_time", "parse_time"]


def go_time(moment: datetime) -> str:
    """metav1.Time on the wire: whole seconds, UTC."""
    return timestamp(moment)


def micro_time(moment: datetime) -> str:
    """metav1.MicroTime on the wire."""
    return f"{timestamp(moment)[:-1]}.{moment.microsecond:06d}Z"


def parse_time(text: str) -> datetime:
    """A time from the wire (RFC 3339)."""
    return datetime.fromisoformat(text).astimezone(UTC)
