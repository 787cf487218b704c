"""Imports that a start leaves out, in the background before the first request needs them."""

from __future__ import annotations

import contextlib
import importlib
import threading
import time

#: A process below this processor time (seconds) between two checks (seconds apart) is idle.
_IDLE, _INTERVAL = 0.005, 0.1


def import_when_idle(*modules: str) -> None:
    """Import modules while the process is idle.

    An import at work would delay the first requests, which seldom need them. A module that cannot be read now (out of
    file descriptors) is imported by the request that needs it.
    """
    threading.Thread(target=_wait_and_import, args=(modules,), daemon=True).start()


def _wait_and_import(modules: tuple[str, ...]) -> None:
    idle, worked = False, time.process_time()
    while not idle:
        time.sleep(_INTERVAL)
        before, worked = worked, time.process_time()
        idle = worked - before < _IDLE
    with contextlib.suppress(OSError):
        for module in modules:
            importlib.import_module(module)
