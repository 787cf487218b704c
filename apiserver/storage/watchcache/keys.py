"""A sorted set of keys for range queries, split into pieces so that a change costs at most one piece.

The order is that of code points. It equals the byte order of UTF-8 and so the order of both databases.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

PIECE = 512


def end_of(prefix: str) -> str | None:
    """Return the least string above all strings with the prefix; None if there is no bound."""
    prefix = prefix.rstrip("\U0010ffff")
    if not prefix:
        return None
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(0xE000 if following == 0xD800 else following)  # surrogates are no characters


class SortedKeys:
    """Pieces of at most 2 * PIECE sorted keys. `_last[i]` is the greatest key of piece i. No piece is empty."""

    __slots__ = ("_last", "_pieces")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(keys)
        self._pieces = [ordered[i : i + PIECE] for i in range(0, len(ordered), PIECE)]
        self._last = [piece[-1] for piece in self._pieces]

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def add(self, key: str) -> None:
        """Add a key that is not in the set."""
        if not self._pieces:
            self._pieces.append([key])
            self._last.append(key)
            return
        i = min(bisect_left(self._last, key), len(self._pieces) - 1)
        piece = self._pieces[i]
        insort(piece, key)
        self._last[i] = piece[-1]
        if len(piece) > 2 * PIECE:
            self._pieces[i : i + 1] = piece[:PIECE], piece[PIECE:]
            self._last[i : i + 1] = piece[PIECE - 1], piece[-1]

    def remove(self, key: str) -> None:
        """Remove a key that is in the set."""
        i = bisect_left(self._last, key)
        piece = self._pieces[i]
        del piece[bisect_left(piece, key)]
        if piece:
            self._last[i] = piece[-1]
        else:
            del self._pieces[i], self._last[i]

    def range(self, start: str, end: str | None, limit: int | None = None) -> list[str]:
        """Return the keys with start <= key < end, in order, at most `limit`."""
        found: list[str] = []
        i = bisect_left(self._last, start)
        low = bisect_left(self._pieces[i], start) if i < len(self._pieces) else 0
        for piece, last in zip(self._pieces[i:], self._last[i:], strict=True):
            if end is not None and last >= end:
                found += piece[low : bisect_left(piece, end)]
                break
            found += piece[low:] if low else piece
            low = 0
            if limit is not None and len(found) >= limit:
                break
        return found if limit is None else found[:limit]

    def rank(self, key: str | None) -> int:
        """Count the keys below this one (None: all)."""
        if key is None:
            return len(self)
        i = bisect_left(self._last, key)
        below = sum(map(len, self._pieces[:i]))
        return below + bisect_left(self._pieces[i], key) if i < len(self._pieces) else below
