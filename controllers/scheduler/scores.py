"""From raw scores to 0 to 100."""

from __future__ import annotations

MAX_SCORE = 100


def normalized_up(raw: list[int]) -> list[int]:
    """Scaled so that the highest is 100."""
    highest = max(raw, default=0)
    return [MAX_SCORE * value // highest for value in raw] if highest else raw


def normalized_reverse(raw: list[int]) -> list[int]:
    """Scaled so that the highest is 0, and nothing is 100."""
    highest = max(raw, default=0)
    return [MAX_SCORE - MAX_SCORE * value // highest if highest else MAX_SCORE for value in raw]
