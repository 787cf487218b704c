"""The items of a recording: the state at its beginning, then every change with its time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, cast

from kubedra.archive.archive import ArchiveError, read_archive
from kubedra.runtime.objects import Json

__all__ = ["KIND", "Change", "ChangeType", "Recording", "format_time", "parse_time", "read_recording"]

KIND: Final = "recording"
ChangeType = Literal["STATE", "ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Change:
    """One change of an object. STATE is an object that was present at the beginning."""

    time: datetime
    type: ChangeType
    object: Json

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind with group, namespace and name."""
        group = self.object["apiVersion"].rpartition("/")[0]
        metadata = self.object["metadata"]
        kind = f"{self.object['kind']}.{group}" if group else self.object["kind"]
        return kind, metadata.get("namespace", ""), metadata["name"]

    def encode(self) -> bytes:
        fields = {"time": format_time(self.time), "type": self.type, "object": self.object}
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(slots=True)
class Recording:
    """A whole recording. `finished` is False if its writer was killed."""

    begin: datetime
    end: datetime
    changes: list[Change] = field(default_factory=list)
    finished: bool = True

    @property
    def state(self) -> list[Json]:
        """The objects at the beginning."""
        return [change.object for change in self.changes if change.type == "STATE"]


def read_recording(place: str | os.PathLike[str]) -> Recording:
    """Read a recording up to its last complete frame. Raise ArchiveError."""
    with read_archive(place, KIND, allow_unfinished=True) as archive:
        try:
            begin = parse_time(archive.header["created"])
            changes = list(_parse_all(archive))
        except (KeyError, TypeError, ValueError) as error:
            raise ArchiveError(f"{place} is altered: item {archive.items} is no change of an object") from error
        end = max((change.time for change in changes), default=begin)
        return Recording(begin, end, changes, archive.finished)


def _parse_all(lines: Iterable[bytes]) -> Iterator[Change]:
    for line in lines:
        found = json.loads(line)
        if not isinstance(found["object"]["metadata"]["name"], str):
            raise ValueError(line[:40])
        yield Change(parse_time(found["time"]), cast(ChangeType, found["type"]), found["object"])


def format_time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 time. Raise ValueError."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return found
