"""Source text of an expression, and the rendering of its problems.

Positions are offsets in code points; only here they become lines and columns. A message is
`ERROR: <input>:LINE:COLUMN: text`, the line, and dots up to a caret; wide characters get wide dots.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

MAX_ISSUES: Final = 100
NOWHERE: Final = -1
#: Maximum nesting depth of grammar rules.
MAX_DEPTH: Final = 250
TOO_DEEP: Final = f"expression recursion limit exceeded: {MAX_DEPTH}"


class IssueReported(Exception):
    """Ends an attempt whose problem is already in the list of issues."""


@dataclass(slots=True)
class Issues:
    """The problems found in one source, in order of discovery."""

    source: str
    problems: list[tuple[int, str]] = field(default_factory=list)
    #: The parts of the source that are no tokens.
    skipped: list[tuple[int, int]] = field(default_factory=list)
    _lines: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.problems)

    def report(self, pos: int, message: str) -> None:
        """Add a problem at an offset."""
        self.problems.append((pos, message))

    def read_text(self, start: int, end: int) -> str:
        """Return the source between two offsets without the parts that are no tokens."""
        parts = []
        for first, last in self.skipped:
            if start <= first < end:
                parts.append(self.source[start:first])
                start = last
        return "".join(parts) + self.source[start:end]

    def text(self) -> str:
        """Render all problems, sorted by position."""
        kept = self.problems[:MAX_ISSUES]
        shown = [self._show(*issue) for issue in sorted(kept, key=lambda issue: issue[0])]
        if len(self.problems) > MAX_ISSUES:
            shown.append(f"{len(self.problems) - MAX_ISSUES} more errors were truncated")
        return "\n".join(shown)

    def _show(self, pos: int, message: str) -> str:
        if pos == NOWHERE:
            return f"ERROR: <input>:-1:0: {message}"
        if not self.source:
            return f"ERROR: <input>:1:0: {message}"
        if not self._lines:
            self._lines = [0, *(index + 1 for index, char in enumerate(self.source) if char == "\n")]
        line = bisect_right(self._lines, pos) - 1
        column = pos - self._lines[line]
        snippet = self.source.split("\n")[line].replace("\t", " ")
        header = f"ERROR: <input>:{line + 1}:{column + 1}: {message}"
        dots = "".join("．" if ord(char) > 127 else "." for char in snippet[:column])
        caret = "＾" if column < len(snippet) and ord(snippet[column]) > 127 else "^"
        return f"{header}\n | {snippet}\n | {dots}{caret}"
