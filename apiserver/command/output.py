"""The lines that a starting server prints: one per phase, with a tick on a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from apiserver.options.settings import Settings

__all__ = ["print_line", "print_phase", "print_warning"]

_TICK: Final = "\x1b[32m✓\x1b[0m "
_WARNING: Final = "\x1b[33mwarning:\x1b[0m "
#: Columns of a phase's name.
_WIDTH: Final = 12


def print_line(settings: Settings, text: str) -> None:
    """Print a line for people: on stdout, or on stderr if a program reads stdout."""
    print(text, file=sys.stderr if settings.announce else sys.stdout, flush=True)


def print_phase(settings: Settings, name: str, text: str) -> None:
    """Print a finished phase of the start."""
    print_line(settings, f"{_TICK if _has_color(settings) else ''}{name:<{_WIDTH}}{text}")


def print_warning(settings: Settings, text: str) -> None:
    """Print a warning about the flags or the data."""
    print_line(settings, f"{_WARNING if _has_color(settings) else 'warning: '}{text}")


def _has_color(settings: Settings) -> bool:
    """Return whether lines go to a terminal with colors (https://no-color.org)."""
    stream = sys.stderr if settings.announce else sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
