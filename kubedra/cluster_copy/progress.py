"""A progress bar on a terminal; nothing where standard error is no terminal."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Final, Self, TextIO

__all__ = ["Progress"]

_WIDTH: Final = 24
#: Seconds between two drawings.
_PERIOD: Final = 0.1


class Progress:
    """Counts finished steps of a known number, and objects. A context manager that removes the bar at its end."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shows = self._stream.isatty()
        self._steps = self._done = self.objects = 0
        self._label = ""
        self._drawn = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shows:
            self._write("")

    def start(self, steps: int) -> None:
        self._steps, self._done = steps, 0

    def step(self, label: str) -> None:
        """Begin the next step."""
        self._label = label
        self._draw(now=True)
        self._done += 1

    def count(self, objects: int) -> None:
        """Add to the number of objects."""
        self.objects += objects
        self._draw()

    def _draw(self, *, now: bool = False) -> None:
        if not self._shows or (not now and time.monotonic() - self._drawn < _PERIOD):
            return
        self._drawn = time.monotonic()
        filled = _WIDTH * min(self._done, self._steps) // max(self._steps, 1)
        bar = "#" * filled + "." * (_WIDTH - filled)
        self._write(f"[{bar}] {self._done}/{self._steps} {self.objects:,} objects  {self._label}")

    def _write(self, text: str) -> None:
        columns = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{text[:columns]}")
        self._stream.flush()
