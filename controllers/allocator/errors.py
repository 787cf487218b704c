"""Errors of an allocation. A lack of devices is a result, not an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Scope = Literal["fatal", "node"]

INVALID_POOLS: Final = "invalid resource pools were encountered"


class AllocationError(Exception):
    """The claims cannot be allocated; `text` is shown to users.

    Scope `fatal` ends the scheduling attempt of the pod (a bad claim, class or expression); `node` rejects one node.
    """

    def __init__(self, text: str, scope: Scope = "fatal") -> None:
        super().__init__(text)
        self.text = text
        self.scope: Scope = scope


class AllocationInterrupted(AllocationError):
    """The caller stopped the search; `cause` is its reason (`context deadline exceeded`, …)."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"filter operation aborted: {cause}")
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod is rejected on all nodes.

    If `unresolvable`, the pod waits for a change. Otherwise the attempt failed with an error and is retried.
    """

    text: str
    unresolvable: bool = True
