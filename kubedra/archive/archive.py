"""The portable file: a header, items and an end, compressed and checksummed.

The file begins with `kubedra-archive 1`. Zstandard frames with checksums follow; their content is lines. The first line
is the header, a JSON object with `kind` (snapshot, recording), `format`, `kubedra`, `release` and `created`. Each item
is one line. The last line is `{"end": {"items": N, "sha256": …}}` with the hash of all bytes before it. Neither the
writer nor the reader needs the whole file in memory.

Item of a snapshot: key, revision, create revision and the stored bytes of the object, separated by tabs. Item of a
recording: a JSON object whose first field is not `end`.

    with write_archive("two-nodes.kubedra", header("snapshot", release="1.36", created=now)) as archive:
        archive.write(line)
    with read_archive("two-nodes.kubedra", "snapshot") as archive:
        print(archive.header)
        for line in archive:
            …
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, Final

from kubedra.archive.places import NewFile, open_for_reading
from kubedra.runtime.failures import describe_failure
from kubedra.version import __version__

__all__ = ["FORMAT", "ArchiveError", "ArchiveReader", "ArchiveWriter", "header", "read_archive", "write_archive"]

#: The newest format that this kubedra reads, and the one that it writes.
FORMAT: Final = 1
_MAGIC: Final = b"kubedra-archive "
_READ_BYTES: Final = 1 << 20
#: Bytes collected before they are compressed.
_WRITE_BYTES: Final = 1 << 18
#: Longest line. An object has at most 3 MiB; a change in a recording has two of them.
_LONGEST_LINE: Final = 64 << 20


class ArchiveError(Exception):
    """A file that cannot be read or written, in one line."""


def header(kind: str, *, release: str, created: str, **more: Any) -> dict[str, Any]:
    """Return the header of an archive.

    Args:
        kind: `snapshot` or `recording`.
        release: the emulated release of Kubernetes, such as 1.36.
        created: RFC 3339 time.
        more: further fields of this kind of archive.
    """
    return {"kind": kind, "format": FORMAT, "kubedra": __version__, "release": release, "created": created, **more}


class ArchiveWriter:
    """Writes an archive to a binary file. `finish` writes its end. Errors name the file as `name`."""

    def __init__(self, file: BinaryIO, name: str, fields: dict[str, Any]) -> None:
        zstd = _zstd()
        self._file, self._name = file, name
        self._compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
        self._end_of_frame = zstd.ZstdCompressor.FLUSH_FRAME
        self._hash = hashlib.sha256()
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        #: Items written so far.
        self.items = 0
        self._put(_MAGIC + str(FORMAT).encode() + b"\n")
        self._add(_encode(fields))

    def write(self, line: bytes) -> None:
        """Write one item, a line without its newline."""
        self.items += 1
        self._add(line)

    def write_all(self, lines: Iterable[bytes]) -> None:
        """Write many items."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """End a frame and pass it to the operating system. A reader finds all items so far, even if the writer dies."""
        self._compress()
        self._put(self._compressor.flush(self._end_of_frame), flush=True)

    def finish(self) -> None:
        """Write the end of the archive. The file stays open."""
        self._compress()
        end = _encode({"end": {"items": self.items, "sha256": self._hash.hexdigest()}})
        self._put(self._compressor.compress(end + b"\n") + self._compressor.flush(self._end_of_frame), flush=True)

    def _add(self, line: bytes) -> None:
        self._pending.append(line)
        self._pending_bytes += len(line)
        if self._pending_bytes >= _WRITE_BYTES:
            self._compress()

    def _compress(self) -> None:
        if not self._pending:
            return
        self._pending.append(b"")
        chunk = b"\n".join(self._pending)
        self._pending, self._pending_bytes = [], 0
        self._hash.update(chunk)
        self._put(self._compressor.compress(chunk))

    def _put(self, data: bytes, *, flush: bool = False) -> None:
        with _named_errors("write", self._name):
            self._file.write(data)
            if flush:
                self._file.flush()


class ArchiveReader:
    """Reads an archive. Iteration yields its items and raises ArchiveError if the file is damaged.

    An error may come after many items: a caller that must not use part of a file reads all items first.

    Args:
        file: a binary file at its beginning.
        name: how errors call it.
        kind: the expected kind of archive; any if empty.
        allow_unfinished: if the file has no end because its writer was killed, stop after the last complete frame.
    """

    def __init__(self, file: BinaryIO, name: str, kind: str = "", *, allow_unfinished: bool = False) -> None:
        self._file, self._name, self._allow_unfinished = file, name, allow_unfinished
        self._hash = hashlib.sha256()
        #: Whether the end was read. False after an iteration: the archive is unfinished.
        self.finished = False
        #: Items read so far.
        self.items = 0
        self._check_magic()
        self._batches = self._read_lines()
        first = next(self._batches, None)
        if not first:
            raise ArchiveError(f"{name} is truncated: it has no header")
        self._first = first[1:]
        self.header = self._parse_header(first[0], kind)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the items, lines without their newlines."""
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[bytes]]:
        """Yield the items as lists, in less time than one by one."""
        if self._first:
            yield self._count(self._first)
        for batch in self._batches:
            yield self._count(batch)
        if not self.finished and not self._allow_unfinished:
            raise ArchiveError(f"{self._name} is truncated: its end is missing")

    def _count(self, batch: list[bytes]) -> list[bytes]:
        self.items += len(batch)
        return batch

    def _check_magic(self) -> None:
        with _named_errors("read", self._name):
            line = self._file.readline(len(_MAGIC) + 8)
        version = line[len(_MAGIC) :].strip()
        if not line.startswith(_MAGIC) or not version.isdigit():
            raise ArchiveError(f"{self._name} is not an archive of kubedra")
        if int(version) > FORMAT:
            raise ArchiveError(f"{self._name} has format {int(version)}; {_UPGRADE}")

    def _parse_header(self, line: bytes, kind: str) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
            raise ArchiveError(f"{self._name} is altered: its header cannot be read")
        if not isinstance(found.get("format"), int) or found["format"] > FORMAT:
            raise ArchiveError(f"{self._name} has format {found.get('format')}; {_UPGRADE}")
        if kind and found["kind"] != kind:
            raise ArchiveError(f"{self._name} is a {found['kind']}, not a {kind}")
        return found

    def _read_lines(self) -> Iterator[list[bytes]]:
        """Yield complete lines in batches, without the end."""
        rest = b""
        chunks = self._decompress()
        for chunk in chunks:
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            end = lines.pop() if lines and lines[-1].startswith(b'{"end":') else b""
            if lines:
                self._hash.update(b"\n".join([*lines, b""]))
            if end:
                self._check_end(end, rest + b"".join(chunks))
                self.finished = True
            elif len(rest) > _LONGEST_LINE:
                raise ArchiveError(f"{self._name} is altered: a line has more than {_LONGEST_LINE} bytes")
            if lines:
                yield lines

    def _check_end(self, line: bytes, rest: bytes) -> None:
        """Check the last line against the hash of all before it; nothing follows it."""
        try:
            matches = json.loads(line)["end"]["sha256"] == self._hash.hexdigest()
        except (KeyError, TypeError, ValueError):
            matches = False
        if not matches or rest:
            raise ArchiveError(f"{self._name} is altered: its checksum does not match")

    def _decompress(self) -> Iterator[bytes]:
        """Yield decompressed bytes; of an unfinished archive only those of complete frames."""
        zstd = _zstd()
        decompressor, frame, compressed = None, list[bytes](), b""
        while True:
            if not compressed and (not decompressor or decompressor.needs_input):
                compressed = self._read()
                if not compressed:
                    break
            decompressor = decompressor or zstd.ZstdDecompressor()
            try:
                frame.append(decompressor.decompress(compressed, _READ_BYTES))
            except zstd.ZstdError as error:
                raise ArchiveError(f"{self._name} is altered: {describe_failure(error)}") from error
            if decompressor.eof or not self._allow_unfinished:
                yield b"".join(frame)
                frame.clear()
            compressed = b""
            if decompressor.eof:
                compressed, decompressor = decompressor.unused_data, None
        if decompressor and not self._allow_unfinished:
            raise ArchiveError(f"{self._name} is truncated: its end is missing")

    def _read(self) -> bytes:
        with _named_errors("read", self._name):
            return self._file.read(_READ_BYTES)


_UPGRADE: Final = f"kubedra {__version__} reads formats up to {FORMAT}: upgrade kubedra"


@contextmanager
def write_archive(
    place: str | os.PathLike[str], fields: dict[str, Any], *, growing: bool = False
) -> Iterator[ArchiveWriter]:
    """Write an archive beside its place and move it there at the end. After an error nothing is left.

    Args:
        place: a path, or a URL of fsspec.
        fields: the `header`.
        growing: write at the place itself. After an error and after the death of the process the flushed items stay.

    Raises:
        ArchiveError: the file cannot be written.
    """
    name = os.fspath(place)
    with _named_errors("write", name):
        target = NewFile(place, growing=growing)
    try:
        writer = ArchiveWriter(target.file, name, fields)
        yield writer
        writer.finish()
        with _named_errors("write", name):
            target.complete()
    except BaseException:
        target.discard()
        raise


@contextmanager
def read_archive(
    place: str | os.PathLike[str], kind: str = "", *, allow_unfinished: bool = False
) -> Iterator[ArchiveReader]:
    """Open an archive at a path or a URL of fsspec. See `ArchiveReader`."""
    name = os.fspath(place)
    with ExitStack() as stack:
        with _named_errors("read", name):
            file = stack.enter_context(open_for_reading(place))
        yield ArchiveReader(file, name, kind, allow_unfinished=allow_unfinished)


@contextmanager
def _named_errors(verb: str, name: str) -> Iterator[None]:
    """Raise OSErrors of a block as ArchiveErrors that name the file."""
    try:
        yield
    except OSError as error:
        raise ArchiveError(f"cannot {verb} {name}: {describe_failure(error)}") from error


def _encode(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _zstd() -> Any:
    """Import Zstandard: the standard library's since Python 3.14, its backport before."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        import backports.zstd as zstd
    return zstd
