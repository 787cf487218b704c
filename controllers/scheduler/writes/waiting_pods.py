"""Pods that have a node and wait before they are bound to it, until their volumes are bound or their devices ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from controllers.scheduler.framework.framework import PluginError


class Waits:
    """Of one scheduler. Who waits can be called back, so that preemption need not end a pod that never ran."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._called_back: set[str] = set()

    @contextmanager
    def of(self, uid: str, what: str = "") -> Iterator[None]:
        """While a pod waits; `what` begins the text. Raises PluginError when it is called back."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks[uid] = task
        try:
            yield
        except asyncio.CancelledError:
            if uid not in self._called_back or task.uncancel():
                raise
            raise PluginError(f"{what}context canceled") from None
        finally:
            del self._tasks[uid]
            self._called_back.discard(uid)

    def call_back(self, uid: str) -> bool:
        """Whether the pod waits, and now does not any more: it looks for a node again."""
        task = self._tasks.get(uid)
        if task is None:
            return False
        if uid not in self._called_back:
            self._called_back.add(uid)
            task.cancel()
        return True
