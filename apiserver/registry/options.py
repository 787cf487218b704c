"""Request options as data. Their parsing, with upstream's texts, is in `apiserver.registry.queries`.

Absent is kept apart from zero where upstream keeps it apart (pointers in metav1's option types).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apiserver.api.selectors import FieldSelector, LabelSelector

__all__ = ["DeleteOptions", "GetOptions", "ListOptions", "Preconditions", "WriteOptions"]


@dataclass(frozen=True, slots=True)
class GetOptions:
    """`resource_version` as given; "" is the most recent state."""

    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of list, watch and deletecollection. A selector is None when nothing is selected."""

    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    watch: bool = False
    allow_bookmarks: bool = False
    resource_version: str = ""
    resource_version_match: str = ""
    timeout: int | None = None
    limit: int = 0
    continue_token: str = ""
    send_initial_events: bool | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of create, update and patch. `field_validation` is "", Ignore, Warn or Strict; `force` is for apply."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    force: bool | None = None


@dataclass(frozen=True, slots=True)
class Preconditions:
    uid: str | None = None
    resource_version: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """`propagation` is "", Orphan, Background or Foreground; `orphan` is the old orphanDependents."""

    grace_period: int | None = None
    preconditions: Preconditions | None = None
    propagation: str = ""
    orphan: bool | None = None
    dry_run: bool = False
    ignore_store_read_error: bool = False
