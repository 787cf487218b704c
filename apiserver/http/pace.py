"""How often the streams of a server wake."""

from __future__ import annotations

import asyncio
from typing import Final

#: Seconds for which a stream rests after a chunk, for each stream that is open, and at most.
_REST: Final = 0.0002
_LONGEST_REST: Final = 0.01


class Pace:
    """After each chunk a stream rests for a moment that grows with the number of streams: what happens meanwhile goes into one chunk, so that many
    watchers of a busy kind do not each wake for every event. An event after a quiet moment is sent at once. `streams` are open."""

    def __init__(self) -> None:
        self.streams = 0

    async def rest(self) -> None:
        await asyncio.sleep(min(self.streams * _REST, _LONGEST_REST))
