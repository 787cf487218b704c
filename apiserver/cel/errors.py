"""What callers of this package catch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LIMIT_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


@dataclass(frozen=True, slots=True)
class CompileError:
    """Why there is no program. `internal`: the API reports it as an internal error, not as an invalid value."""

    text: str
    internal: bool = False


class EvaluationError(Exception):
    """Why an evaluation has no result; `cost` is what it took until then."""

    def __init__(self, text: str, cost: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.cost = cost
