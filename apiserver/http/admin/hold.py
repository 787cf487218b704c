"""Hold back other writes while many objects are stored that belong together.

A controller that sees a ReplicaSet before its pods would create them again. Its writes are refused until it has seen
all objects; it then tries again with all of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from apiserver.http.admin.idle import IdleStatus
from apiserver.http.handlers.faults import Faults, Match, Rule

__all__ = ["hold_writes"]

_VERBS: Final = ("create", "update", "patch", "delete", "deletecollection")
_MESSAGE: Final = "the server is storing a copy of a cluster"
#: Polls until the components must have read the objects.
_POLLS: Final = 200


@asynccontextmanager
async def hold_writes(faults: Faults, poll: Callable[[], Awaitable[IdleStatus]]) -> AsyncIterator[None]:
    """Refuse the writes of all clients (503) during the block and until the components are idle."""
    rules = [
        Rule(id=f"{faults.new_id()}-hold", match=Match(verb=verb), status=503, message=_MESSAGE) for verb in _VERBS
    ]
    for rule in rules:
        faults.add(rule)
    try:
        yield
        for _ in range(_POLLS):
            if not (await poll()).busy:
                return
    finally:
        for rule in rules:
            faults.remove(rule.id)
