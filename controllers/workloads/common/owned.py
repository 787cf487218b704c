"""The objects, mostly pods, of the owners of one kind: candidates of an owner, and owners affected by a change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector, from_labels, from_object
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import key_of
from controllers.workloads.common.expectations import Expectations
from controllers.workloads.common.pod_states import is_deleted
from controllers.workloads.common.references import by_controller, controller_index, controller_of


def selector_of(owner: Json) -> LabelSelector:
    """Return an owner's `spec.selector`. A missing one matches nothing.

    ReplicationControllers have the old form, plain labels.
    """
    selector: Any = owner["spec"].get("selector")
    if owner["kind"] == "ReplicationController":
        return from_labels(selector) if selector else from_object(None)
    return from_object(selector)


class OwnedObjects:
    """The watched objects of one kind's owners; a change enqueues their owners.

    An orphan enqueues every owner in its namespace that could adopt it. `changed` is called with an owner's key.
    `expectations` records arrivals and deletions.
    """

    def __init__(
        self,
        owners: Informer,
        owned: Informer,
        changed: Callable[[str], None],
        expectations: Expectations | None = None,
    ) -> None:
        self._owners, self._changed = owners, changed
        self._expectations = expectations or Expectations()
        self._by_controller = controller_index(owned)
        self._in_namespace = owners.index("namespace", lambda owner: (owner["metadata"]["namespace"],))
        owned.on(self._object_added, self._object_updated, self._object_deleted)

    def of(self, owner: Json, *, orphans: bool = True) -> list[Json]:
        """Return the objects controlled by an owner, and with `orphans` those without controller in its namespace."""
        return by_controller(self._by_controller, owner, orphans=orphans)

    def number(self, owner: Json) -> int:
        """Return the number of objects controlled by an owner."""
        return self._by_controller.count(owner["metadata"]["uid"])

    def owner_of(self, obj: Json) -> Json | None:
        """Return the existing owner of this kind that controls an object, or None."""
        reference = controller_of(obj)
        if reference is None or reference["kind"] != self._owners.kind.kind:
            return None
        owner = self._owners.get(f"{obj['metadata']['namespace']}/{reference['name']}")
        return owner if owner is not None and owner["metadata"]["uid"] == reference["uid"] else None

    def adopters(self, obj: Json) -> list[Json]:
        """Return the owners whose selectors match an object."""
        labels = obj["metadata"].get("labels")
        if not labels:
            return []
        owners = self._in_namespace.get(obj["metadata"]["namespace"])
        return [owner for owner in owners if _adopts(selector_of(owner), labels)]

    def _object_added(self, obj: Json) -> None:
        if is_deleted(obj):
            self._object_deleted(obj)
            return
        if controller_of(obj) is not None:
            owner = self.owner_of(obj)
            if owner is not None:
                self._expectations.observe_creation(key_of(owner))
                self._changed(key_of(owner))
            return
        self._orphan_changed(obj)

    def _object_updated(self, before: Json, obj: Json) -> None:
        if is_deleted(obj):
            self._object_deleted(obj)
            return
        reference, reference_before = controller_of(obj), controller_of(before)
        if reference_before is not None and reference != reference_before:
            self._enqueue_owner(before)
        if reference is not None:
            self._enqueue_owner(obj)
        elif reference_before is not None or obj["metadata"].get("labels") != before["metadata"].get("labels"):
            self._orphan_changed(obj)

    def _object_deleted(self, obj: Json) -> None:
        owner = self.owner_of(obj)
        if owner is not None:
            self._expectations.observe_deletion(key_of(owner), obj["metadata"]["uid"])
            self._changed(key_of(owner))

    def _enqueue_owner(self, obj: Json) -> None:
        owner = self.owner_of(obj)
        if owner is not None:
            self._changed(key_of(owner))

    def _orphan_changed(self, obj: Json) -> None:
        for owner in self.adopters(obj):
            self._changed(key_of(owner))


def _adopts(selector: LabelSelector, labels: Json) -> bool:
    """Return whether a selector may adopt an object. An empty selector adopts nothing."""
    return not selector.empty and selector.matches(labels)
