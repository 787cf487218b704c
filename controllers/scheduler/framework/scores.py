"""Normalization of raw scores to 0 to 100."""

from __future__ import annotations

MAX_SCORE = 100
Shape = tuple[tuple[int, int], ...]
"""Scores (0 to 100) by utilization in percent, in increasing order of utilization."""


def normalized_up(raw: list[int]) -> list[int]:
    """Scale the scores so that the highest is 100."""
    highest = max(raw, default=0)
    return [MAX_SCORE * value // highest for value in raw] if highest else raw


def normalized_reverse(raw: list[int]) -> list[int]:
    """Scale the scores so that the highest becomes 0, and 0 becomes 100."""
    highest = max(raw, default=0)
    return [MAX_SCORE - MAX_SCORE * value // highest if highest else MAX_SCORE for value in raw]


def on_line(shape: Shape, used: int) -> int:
    """Interpolate the score at a utilization linearly."""
    before = shape[0]
    for point in shape:
        if used <= point[0]:
            if point is before:
                return point[1]
            rise = (point[1] - before[1]) * (used - before[0])
            # As in Go, division rounds towards zero.
            return before[1] + int(rise / (point[0] - before[0]))
        before = point
    return shape[-1][1]
