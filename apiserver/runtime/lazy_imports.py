"""Imports that a start leaves out, in the background before the first request needs them."""

from __future__ import annotations

import contextlib
import importlib
import threading
import time

#: A process below this processor time (seconds) between two checks (seconds apart) is idle.
_AT_REST, _LOOK = 0.005, 0.1


def warm(*modules: str) -> None:
    """Import modules while the process is idle.

    An import at work would delay the first requests, which seldom need them. A module that cannot be read now (out of
    file descriptors) is imported by the request that needs it.
    """
    threading.Thread(target=_when_at_rest, args=(modules,), daemon=True).start()


def _when_at_rest(modules: tuple[str, ...]) -> None:
    at_rest, worked = False, time.process_time()
    while not at_rest:
        time.sleep(_LOOK)
        before, worked = worked, time.process_time()
        at_rest = worked - before < _AT_REST
    with contextlib.suppress(OSError):
        for module in modules:
            importlib.import_module(module)
