"""PodLogOptions: select the requested lines of a container's log by time, number and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from apiserver.api.values.durations import go_seconds
from apiserver.api.values.numbers import int64

#: The time of a line, and its text without the line end.
Line = tuple[datetime, str]


@dataclass(slots=True)
class LogOptions:
    """The parameters of a log request. `limit` (bytes) shrinks as lines are written."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: datetime | None = None
    limit: int | None = None

    @classmethod
    def parse(cls, params: Mapping[str, Sequence[str]], now: datetime) -> LogOptions:
        """Parse validated query parameters. Ignore values that are not numbers."""

        def text(name: str) -> str:
            return (params.get(name) or ("",))[0]

        def number(name: str) -> int | None:
            return int64(text(name))

        seconds, since = number("sinceSeconds"), None
        if seconds is not None:
            since = now - go_seconds(seconds)
        elif text("sinceTime"):
            try:
                since = datetime.fromisoformat(text("sinceTime")).astimezone(UTC)
            except ValueError:
                since = None
        true = ("true", "1", "True", "TRUE", "t", "T")
        return cls(
            text("follow") in true,
            text("previous") in true,
            text("timestamps") in true,
            number("tailLines"),
            since,
            number("limitBytes"),
        )

    @property
    def full(self) -> bool:
        """Whether the byte limit is reached."""
        return self.limit is not None and self.limit <= 0

    def select(self, lines: Iterable[Line]) -> bytes:
        """Return the requested lines of an existing log, as they are sent."""
        found = [line for line in lines if self.since is None or line[0] >= self.since]
        if self.tail is not None:
            found = found[len(found) - self.tail :] if self.tail < len(found) else found
        return self.format(found)

    def format(self, lines: Iterable[Line]) -> bytes:
        """Return lines as they are sent."""
        text = "".join(f"{_stamp(at)} {said}\n" if self.timestamps else f"{said}\n" for at, said in lines).encode()
        if self.limit is None:
            return text
        text = text[: max(self.limit, 0)]
        self.limit -= len(text)
        return text


def _stamp(at: datetime) -> str:
    """Format a time as RFC 3339 with nanoseconds, as kubelets write it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"
