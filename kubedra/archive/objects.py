"""The objects in a snapshot."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cached_property

from kubedra.archive.archive import ArchiveError, ArchiveReader, read_archive
from kubedra.runtime.objects import Json

__all__ = ["StoredObject", "StoredObjects", "read_bytes", "read_header", "read_objects"]

_PREFIX = "/registry/"
_KIND = "snapshot"


@dataclass(frozen=True)
class StoredObject:
    """An object as the server stores it, without kind and apiVersion."""

    key: str
    revision: int
    value: bytes

    @property
    def kind(self) -> str:
        """The resource as in the key, such as pods or resourceclaims.resource.k8s.io."""
        return self._parts[0]

    @property
    def name(self) -> str:
        """The object as users write it: pods/default/web."""
        return "/".join(self._parts)

    @cached_property
    def _parts(self) -> tuple[str, ...]:
        parts = self.key.removeprefix(_PREFIX).split("/")
        if "." in parts[0] and len(parts) > 1:
            return f"{parts[1]}.{parts[0]}", *parts[2:]
        return tuple(parts)

    def decode(self) -> Json:
        """Return the object, with its resourceVersion."""
        obj: Json = json.loads(self.value)
        obj["metadata"]["resourceVersion"] = str(self.revision)
        return obj


@dataclass(frozen=True)
class StoredObjects:
    """A snapshot: its header, and its objects by key."""

    header: Json
    objects: dict[str, StoredObject]


def read_objects(place: str) -> StoredObjects:
    """Read a snapshot. Raise ArchiveError."""
    with read_archive(place, _KIND) as reader:
        return _parse(reader, place)


def read_bytes(content: bytes, name: str) -> StoredObjects:
    """Read a snapshot from memory. Raise ArchiveError."""
    return _parse(ArchiveReader(io.BytesIO(content), name, _KIND), name)


def read_header(place: str) -> tuple[Json, int]:
    """Return the header of a snapshot and its number of objects. Raise ArchiveError."""
    with read_archive(place, _KIND) as reader:
        for _ in reader.batches():
            pass
        return reader.header, reader.items


def _parse(reader: ArchiveReader, name: str) -> StoredObjects:
    found: dict[str, StoredObject] = {}
    for line in reader:
        try:
            key, revision, _, value = line.split(b"\t", 3)
            stored = StoredObject(key.decode(), int(revision), value)
        except ValueError as error:
            raise ArchiveError(f"{name} is altered: item {reader.items} is not an object of a cluster") from error
        found[stored.key] = stored
    return StoredObjects(reader.header, found)
