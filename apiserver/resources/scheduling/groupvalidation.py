"""What PodGroups, and templates of them, may hold. All of it are upstream's generated rules, with their words and order
(pkg/apis/scheduling/validation). What each field may be is said in its type; here is what crosses fields.

A changed object is only looked at where it changed.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid
from apiserver.api.types.scheduling import (
    PodGroupResourceClaim,
    PodGroupResourceClaimStatus,
    PodGroupSchedulingPolicy,
    PodGroupStatus,
    PodGroupTemplateReference,
)
from apiserver.api.validation.compile import At, Rule, Rules

__all__ = ["RULES", "claim_statuses"]

Json = dict[str, Any]

#: Checks of Workloads and PodGroups.
RULES: Final = Rules()


def _one_of(*members: str) -> Rule:
    """Exactly one of the members is there."""
    known = ", ".join(f"`{name}`" for name in members)

    def rule(at: At) -> list[FieldError]:
        given = [name for name in members if at.value.get(name) is not None]
        if not given:
            return [invalid(at.path, "", f"must specify one of: {known}")]
        shown = f"{{{', '.join(given)}}}"
        return [invalid(at.path, shown, f"must specify exactly one of: {known}")] if len(given) > 1 else []

    return rule


def _changed_claim(at: At) -> list[FieldError]:
    """The claim that was made, where it is another one than before."""
    same = at.value.get("resourceClaimName") == (at.old or {}).get("resourceClaimName")
    return [] if same else at.field("resourceClaimName")


def claim_statuses(status: Json, old: Json) -> list[FieldError]:
    """A group's `resourceClaimStatuses`, where they changed."""
    if (status.get("resourceClaimStatuses") or []) == (old.get("resourceClaimStatuses") or []):
        return []
    return RULES.of(PodGroupStatus).errors(Path("status"), status, None, old)


_CLAIMS: Final = ("resourceClaimName", "resourceClaimTemplateName")
RULES.set(PodGroupSchedulingPolicy, _one_of("basic", "gang"), "gang")
RULES.set(PodGroupResourceClaim, _one_of(*_CLAIMS), "name", *_CLAIMS)
RULES.set(PodGroupTemplateReference, _one_of("workload"), "workload")
RULES.set(PodGroupResourceClaimStatus, _changed_claim, by_rules=("resourceClaimName",))
RULES.set(PodGroupStatus, "resourceClaimStatuses", by_rules=("conditions",))
