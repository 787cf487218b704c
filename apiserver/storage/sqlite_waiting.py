"""What waits to be written, and how those who wait are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from apiserver.storage.types import StorageFull, StorageUnavailable, Write, WriteRefused


class Reset:
    """A reset's place among the waiting writes."""

    __slots__ = ("keep",)

    def __init__(self, keep: tuple[str, ...]) -> None:
        self.keep = keep


def frees(operation: Write | Reset) -> bool:
    """Whether a write is for having less afterwards."""
    return isinstance(operation, Reset) or operation.deleted or operation.frees


def answer_all(answers: Iterable[tuple[asyncio.Future[Any], Any]]) -> None:
    """Gives those who wait for writes their records, or the reasons for which they were refused."""
    for future, answer in answers:
        if future.done():
            continue  # the asker went away; what was committed stays committed
        if isinstance(answer, WriteRefused):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def fail(futures: Iterable[asyncio.Future[Any]], error: Exception) -> None:
    """The error as StorageUnavailable, one for each: an exception gathers a traceback where it is raised."""
    made = StorageFull if isinstance(error, StorageFull) else StorageUnavailable
    for future in futures:
        if not future.done():
            future.set_exception(made(str(error)))
