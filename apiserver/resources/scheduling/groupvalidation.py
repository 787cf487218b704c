"""What PodGroups, and templates of them, may hold. All of it are upstream's generated rules, with their words and order
(pkg/apis/scheduling/validation). What each field may be is said in its type; here is what crosses fields.

A changed object is only looked at where it changed.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path
from apiserver.api.objects import Json
from apiserver.api.types.scheduling import (
    PodGroupResourceClaimStatus,
    PodGroupStatus,
)
from apiserver.api.validation.compile import At, Rules

__all__ = ["RULES", "claim_statuses"]


#: Checks of Workloads and PodGroups.
RULES: Final = Rules()


def _changed_claim(at: At) -> list[FieldError]:
    """The claim that was made, where it is another one than before."""
    same = at.value.get("resourceClaimName") == (at.old or {}).get("resourceClaimName")
    return [] if same else at.field("resourceClaimName")


def claim_statuses(status: Json, old: Json) -> list[FieldError]:
    """A group's `resourceClaimStatuses`, where they changed."""
    if (status.get("resourceClaimStatuses") or []) == (old.get("resourceClaimStatuses") or []):
        return []
    return RULES.of(PodGroupStatus).errors(Path("status"), status, None, old)


RULES.set(PodGroupResourceClaimStatus, _changed_claim, by_rules=("resourceClaimName",))
RULES.set(PodGroupStatus, "resourceClaimStatuses", by_rules=("conditions",))
