"""Times as objects have them on the wire."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["go_time", "micro_time", "parse_time"]


def go_time(moment: datetime) -> str:
    """metav1.Time on the wire: whole seconds, UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(moment: datetime) -> str:
    """metav1.MicroTime on the wire."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """A time from the wire (RFC 3339)."""
    return datetime.fromisoformat(text).astimezone(UTC)
