"""`--request-log` and `--audit-log-path`: one line of JSON per record or event."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any, BinaryIO

import orjson

from apiserver.request.records import RequestRecord

log = logging.getLogger(__name__)


class RequestLogError(ValueError):
    """A log that cannot be written; the message is one line."""


class JsonLines:
    """A sink that writes to a file. The lines of one iteration of the event loop are written together.

    A write error (a full disk) is logged and ends the writing; requests go on. `flag` is the flag that named the file.
    """

    def __init__(self, flag: str, name: str, file: BinaryIO) -> None:
        self._flag, self._name, self._file = flag, name, file
        self._lines: list[bytes] = []
        self._failed = False

    @classmethod
    def open(cls, flag: str, name: str, *, standard: BinaryIO) -> JsonLines:
        """Append to the file of this name, readable only by its owner; `-` is `standard`. Raise RequestLogError."""
        if name == "-":
            return cls(flag, name, standard)
        try:
            return cls(flag, name, os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab"))
        except OSError as error:
            raise RequestLogError(f"{flag} {name}: {error.strerror}") from error

    def add(self, record: RequestRecord) -> None:
        """Add a record."""
        self.write(record.to_dict())

    def write(self, obj: dict[str, Any]) -> None:
        """Add a JSON object."""
        if self._failed:
            return
        if not self._lines:
            asyncio.get_running_loop().call_soon(self.flush)
        self._lines.append(orjson.dumps(obj, option=orjson.OPT_APPEND_NEWLINE))

    def flush(self) -> None:
        """Write the pending lines."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        try:
            self._file.write(b"".join(lines))
            self._file.flush()
        except OSError as error:
            self._failed = True
            log.error("%s %s: %s; no further lines are written", self._flag, self._name, error.strerror)

    def close(self) -> None:
        """Write the pending lines and close the file; the standard streams stay open."""
        self.flush()
        if self._name != "-":
            self._file.close()
