"""Errors for callers of this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LIMIT_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


@dataclass(frozen=True, slots=True)
class CompileError:
    """The reason why an expression does not compile.

    `internal`: the API reports it as an internal error, not as an invalid value.
    """

    text: str
    internal: bool = False


class EvaluationError(Exception):
    """An evaluation without a result. `cost` is the cost until the failure."""

    def __init__(self, text: str, cost: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.cost = cost
