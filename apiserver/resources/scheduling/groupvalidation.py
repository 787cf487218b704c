"""Validate rules across fields of PodGroups and their templates.

These are upstream's generated rules, with their texts and order (pkg/apis/scheduling/validation). The types define the
rules of single fields. An update validates only changed parts.
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
    """Validate the generated claim's name if it changed."""
    same = at.value.get("resourceClaimName") == (at.old or {}).get("resourceClaimName")
    return [] if same else at.field("resourceClaimName")


def claim_statuses(status: Json, old: Json) -> list[FieldError]:
    """Validate a group's `resourceClaimStatuses` if they changed."""
    if (status.get("resourceClaimStatuses") or []) == (old.get("resourceClaimStatuses") or []):
        return []
    return RULES.of(PodGroupStatus).errors(Path("status"), status, None, old)


RULES.set(PodGroupResourceClaimStatus, _changed_claim, by_rules=("resourceClaimName",))
RULES.set(PodGroupStatus, "resourceClaimStatuses", by_rules=("conditions",))
