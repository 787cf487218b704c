"""The latest requests, in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from apiserver.request.records import RequestRecord

#: Number of kept records.
KEPT: Final = 1000


class Ring:
    """A sink that keeps the latest records."""

    def __init__(self, kept: int = KEPT) -> None:
        self._records: deque[RequestRecord] = deque(maxlen=kept)
        #: Adds a record.
        self.add = self._records.append

    def latest(self) -> Iterator[RequestRecord]:
        """Return the records, the newest first."""
        return reversed(self._records)

    def clear(self) -> None:
        self._records.clear()
