"""The content of a snapshot: the rows of a log, and what else a restored server needs, as an archive."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apiserver.storage.log.types import Record
from apiserver.storage.watchcache.entry import OPENING
from kubedra.archive.archive import ArchiveError, ArchiveReader, ArchiveWriter, header, read_archive

__all__ = ["SHARED_KEYS", "Contents", "build_header", "parse", "read_contents", "render", "render_item"]

#: The store's metadata in a snapshot: the keys that sign service account tokens, so that stored tokens stay valid.
SHARED_KEYS: Final = ("service-account-key-pair", "service-account-key")
KIND: Final = "snapshot"


@dataclass(frozen=True, slots=True)
class Contents:
    """A snapshot: its header and its rows."""

    header: Mapping[str, Any]
    records: list[Record]

    @property
    def revision(self) -> int:
        """The revision of the whole store."""
        found: int = self.header["revision"]
        return found

    @property
    def meta(self) -> dict[str, bytes]:
        """The metadata of the store."""
        return {name: base64.b64decode(value) for name, value in self.header["meta"].items()}


def build_header(
    *, release: str, time: str, revision: int, virtual: bool, seed: int | None, meta: Mapping[str, bytes]
) -> dict[str, Any]:
    """Return the header of a snapshot. `time` is the server's, RFC 3339."""
    shared = {name: base64.b64encode(value).decode() for name, value in meta.items()}
    return header(
        KIND, release=release, created=time, revision=revision, clock="virtual" if virtual else "real", seed=seed,
        meta=shared,
    )  # fmt: skip


def render(fields: Mapping[str, Any], records: Iterable[Record]) -> bytes:
    """Return the archive of a snapshot."""
    file = io.BytesIO()
    writer = ArchiveWriter(file, "the snapshot", dict(fields))
    writer.write_all(map(render_item, records))
    writer.finish()
    return file.getvalue()


def render_item(record: Record) -> bytes:
    """Return the line of an object."""
    return b"%b\t%d\t%d\t%b" % (record.key.encode(), record.revision, record.create_revision, record.value)


def read_contents(place: str) -> Contents:
    """Read a whole file. Raise ArchiveError."""
    with read_archive(place, KIND) as reader:
        return parse(reader, place)


def parse(reader: ArchiveReader, name: str) -> Contents:
    """Read a whole archive; errors call it by this name. Raise ArchiveError."""
    try:
        found = Contents(reader.header, list(map(_parse_item, reader)))
        revision, _ = found.revision, found.meta
    except (AttributeError, KeyError, TypeError, ValueError, binascii.Error) as error:
        raise ArchiveError(f"{name} is altered: item {reader.items} is not an object of a cluster") from error
    keys = {record.key for record in found.records}
    if len(keys) != len(found.records) or any(not 0 < record.revision <= revision for record in found.records):
        raise ArchiveError(f"{name} is altered: its revisions contradict each other")
    return found


def _parse_item(line: bytes) -> Record:
    key, revision, created, value = line.split(b"\t", 3)
    if not value.startswith(OPENING):
        raise ValueError(value[:40])
    return Record(int(revision), key.decode(), int(created), 0, False, value)
