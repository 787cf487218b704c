"""What can go wrong in an allocation, apart from there being no devices (which is an answer, not an error)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Scope = Literal["fatal", "node"]

INVALID_POOLS: Final = "invalid resource pools were encountered"


class AllocationError(Exception):
    """The claims cannot be allocated; the text is what users and tests see.

    Scope `fatal` ends the scheduling attempt of the pod (a bad claim, class or expression); `node` rules out one node.
    """

    def __init__(self, text: str, scope: Scope = "fatal") -> None:
        super().__init__(text)
        self.text = text
        self.scope: Scope = scope


class AllocationInterrupted(AllocationError):
    """The caller asked to stop; `cause` is what it gave as its reason (`context deadline exceeded`, …)."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"filter operation aborted: {cause}")
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod cannot be looked at on any node.

    `unresolvable` is the ordinary case: the pod waits until something changes. Otherwise it is an error of the
    attempt, which is retried.
    """

    text: str
    unresolvable: bool = True
