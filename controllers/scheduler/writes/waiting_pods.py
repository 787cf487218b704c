"""Pods that wait before the binding until their volumes are bound or their devices are ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from controllers.scheduler.framework.framework import PluginError


class Waits:
    """The waiting pods of one scheduler. Preemption can cancel a wait instead of deleting a pod that never ran."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._cancelled: set[str] = set()

    @contextmanager
    def of(self, uid: str, prefix: str = "") -> Iterator[None]:
        """Mark the pod as waiting during the block. Raise PluginError after `cancel`, with `prefix` before its text."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks[uid] = task
        try:
            yield
        except asyncio.CancelledError:
            if uid not in self._cancelled or task.uncancel():
                raise
            raise PluginError(f"{prefix}context canceled") from None
        finally:
            del self._tasks[uid]
            self._cancelled.discard(uid)

    def cancel(self, uid: str) -> bool:
        """Cancel the pod's wait, so that it returns to the queue; return whether it waited."""
        task = self._tasks.get(uid)
        if task is None:
            return False
        if uid not in self._cancelled:
            self._cancelled.add(uid)
            task.cancel()
        return True
