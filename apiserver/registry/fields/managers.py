"""metadata.managedFields: the managers of fields, updated by every create, update and patch.

A manager is identified by name, operation, API version (any for an apply manager) and subresource. A write gives its
manager the added and changed fields. It takes these, and the removed fields, from all other managers. Each manager's
set is in its own API version, so a write is compared once per version in use.

Rules are those of k8s.io/apimachinery (pkg/util/managedfields). Fields of the server are never tracked. An object
without managers is not tracked. More than ten update managers are folded into `ancient-changes`. Entries are sorted by
operation, time and name.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

from apiserver.api.codec.codec import copy_json
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.values.times import timestamp
from apiserver.registry.body.convert import Form, strip_empty
from apiserver.registry.definition.metadata import UNCHECKED
from apiserver.registry.definition.resource import same_form
from apiserver.registry.fields.merge import check
from apiserver.registry.fields.set import FieldSet, difference, of_paths, ordered, union, union_of, without
from apiserver.registry.fields.walk import NamelessItem, compare

__all__ = ["FieldTracker", "Manager", "Managers", "Owned", "decode", "decode_strictly", "encode", "keep_times"]


MAX_UPDATE_MANAGERS: Final = 10
OLD_UPDATES: Final = "ancient-changes"

#: Fields without owners. "metadata" itself has none; fields below it may have.
STRIPPED: Final = of_paths(
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
)


class Manager(NamedTuple):
    """The identity of a manager. `version` is empty for apply."""

    name: str
    operation: str
    version: str
    subresource: str


class Owned(NamedTuple):
    """A manager's fields in an API version, and the time of its last write."""

    fields: FieldSet
    version: str
    time: str | None


Managers = dict[Manager, Owned]
#: Fields gained and lost by a write.
FieldChange = tuple[FieldSet, FieldSet]


def decode(entries: list[Json] | None, *, trusted: bool = False) -> Managers | None:
    """Decode an object's entries; return None for an invalid one. Stored sets are `trusted`."""
    managers: Managers = {}
    for entry in entries or ():
        operation, version, fields = entry.get("operation"), entry.get("apiVersion"), entry.get("fieldsV1")
        if operation not in ("Apply", "Update") or not version or entry.get("fieldsType") != "FieldsV1":
            return None
        if fields is not None and not trusted:
            fields = _as_set(fields)
            if fields is None:
                return None
        manager = Manager(
            entry.get("manager", ""), operation, "" if operation == "Apply" else version, entry.get("subresource", "")
        )
        managers[manager] = Owned(fields or {}, version, entry.get("time"))
    return managers


def decode_strictly(entries: list[Json] | None) -> Managers:
    """Decode entries like `decode`. Raise upstream's bare 500 for an invalid one."""
    managers = decode(entries)
    if managers is None:
        raise StatusError(500, "", "failed to decode managed fields: an entry cannot be understood")
    return managers


def _as_set(node: Any) -> FieldSet | None:
    """Return a client's set, or None if it is invalid. The value at `.` is ignored."""
    if not isinstance(node, dict):
        return None
    found: FieldSet = {}
    for element, below in node.items():
        part = {} if element == "." else _as_set(below) if element[:2] in ("f:", "k:", "v:", "i:") else None
        if part is None:
            return None
        found[element] = part
    return found


def encode(managers: Managers) -> list[Json]:
    """Encode managers as entries in upstream's order."""
    entries = []
    found = [(m.operation, o.time or "", m.name, o.version, m.subresource, o.fields) for m, o in managers.items()]
    found.sort()  # The keys before the fields are unique.
    for operation, time, name, version, subresource, fields in found:
        entry: Json = {"manager": name} if name else {}
        entry["operation"] = operation
        entry["apiVersion"] = version
        if time:
            entry["time"] = time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = fields
        if subresource:
            entry["subresource"] = subresource
        entries.append(entry)
    return entries


def is_reset(entries: list[Json] | None) -> bool:
    """Return whether the entries reset all managers: an empty list, or one empty entry."""
    return entries is not None and (not entries or entries == [{}])


class FieldTracker:
    """Field management of one resource.

    `forms` finds a version by its apiVersion. `resets` returns the fields that a write to the main resource ("") or to
    a subresource cannot own. A manager of a version that is not `defined` leaves the object without managers.
    """

    __slots__ = ("_defined", "_forms", "_resets")

    def __init__(
        self,
        forms: Callable[[str], Form | None],
        resets: Callable[[str], tuple[str, ...]],
        defined: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._forms, self._defined = forms, defined

        def split_resets(subresource: str) -> tuple[frozenset[str], FieldSet]:
            paths = resets(subresource)
            sections = frozenset(path for path in paths if "." not in path)
            return sections, of_paths(*(path for path in paths if path.partition(".")[0] not in sections))

        #: By subresource: whole sections, which need no comparison, and the other fields.
        self._resets = cache(split_resets)

    def track_create(self, new: Json, writer: Manager, now: datetime) -> None:
        """Set metadata.managedFields of a new object (hub form, system fields not yet filled).

        An object with nameless items has none.
        """
        metadata = new["metadata"]
        given = metadata.pop("managedFields", None)
        managers = None if given is None or is_reset(given) else decode(given)
        with suppress(NamelessItem):
            if managers:
                self._track(None, new, managers, writer, now)
                return
            change = self._change(None, new, writer.version, writer)
            if change is None:  # Objects of the server of a kind that it does not serve.
                return
            gained = difference(change[0], STRIPPED)
            if gained:
                metadata["managedFields"] = encode({writer: Owned(gained, writer.version, timestamp(now))})

    def track_update(self, old: Json, new: Json, writer: Manager, now: datetime) -> None:
        """Set metadata.managedFields of `new` after a change from `old` (both hub form)."""
        metadata = new["metadata"]
        given = metadata.pop("managedFields", None)
        kept = old["metadata"].get("managedFields")
        claimed: Managers | None = None
        if writer.subresource or given == kept:
            managers = decode(kept, trusted=True)
        elif is_reset(given):
            return
        else:
            claimed = decode(given) if given else None
            managers = claimed or decode(kept, trusted=True)
        if managers:
            with suppress(NamelessItem):
                if claimed:  # The managers that a writer sets on an object with nameless items are dropped.
                    self._change(None, new, writer.version, writer)
                self._track(old, new, managers, writer, now)

    def _track(self, old: Json | None, new: Json, managers: Managers, writer: Manager, now: datetime) -> None:
        """Assign the changes of a write to its manager, and take them from all others. `old` None: all is new."""
        changes: dict[str, FieldChange | None] = {writer.version: self._change(old, new, writer.version, writer)}
        for key, owned in list(managers.items()):
            version = owned.version
            if version not in changes:
                changes[version] = self._change(old, new, version, writer)
            change = changes[version]
            if change is None:
                if not self._defined(version):
                    raise NamelessItem
                del managers[key]
                continue
            gained, lost = change
            if not (owned.fields.keys().isdisjoint(gained) and owned.fields.keys().isdisjoint(lost)):
                owned = owned._replace(fields=difference(difference(owned.fields, gained), lost))
                managers[key] = owned
            if not owned.fields:
                del managers[key]
        own = changes[writer.version]
        gained = own[0] if own is not None else {}
        if not gained.keys().isdisjoint(STRIPPED):
            gained = difference(gained, STRIPPED)
        if gained:
            had = managers.get(writer)
            fields = ordered(union(gained, had.fields)) if had else gained
            managers[writer] = Owned(fields, writer.version, timestamp(now))
        if len(managers) > MAX_UPDATE_MANAGERS:
            fold_old_updates(managers)
        if managers:
            new["metadata"]["managedFields"] = encode(managers)

    def _change(self, old: Json | None, new: Json, version: str, writer: Manager) -> FieldChange | None:
        """Return the gained and lost fields of a write in a version, or None if the version is unknown."""
        form = self._forms(version)
        if form is None:
            return None
        before, after = old, new
        if version != writer.version and form.only_named and check(form.schema, new):
            # The object has fields that the other version lacks, so upstream drops its managers.
            raise NamelessItem
        if form.of_hub is not same_form:
            before, after = None if old is None else form.of_hub(old), form.of_hub(new)
        if before is None:
            before = form.empty()
        if version != writer.version:
            # Conversion to another version rewrites raw extensions. The order of their keys is no change.
            before, after = copy_json([before, after])
        sections, reset = self._resets(writer.subresource)
        if sections:
            # Unchanged fields are not validated, but one misfit leaves the whole object without owners. Metadata always
            # fits, because it was decoded by its type.
            given = {
                name: part for name in sections if name != "metadata" and (part := after.get(name)) != before.get(name)
            }
            if given and check(form.schema, given, allows_duplicates=True):
                raise NamelessItem
            before = {name: part for name, part in before.items() if name not in sections}
            after = {name: part for name, part in after.items() if name not in sections}
        try:
            gained, lost = compare(form.schema, before, strip_empty(form.schema, after))
        except (AttributeError, TypeError, LookupError):
            # The type of a custom object's value may differ from its schema; validation reports it.
            if check(form.schema, after) or check(form.schema, before):
                raise NamelessItem from None
            raise
        return (without(gained, reset), without(lost, reset)) if reset else (gained, lost)


def keep_times(new: Json, old: Json) -> None:
    """Keep the times of the managers if nothing else has changed, so that the write changes nothing."""
    after, before = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not after or not before or after == before or len(after) != len(before):
        return
    if any({**a, "time": ""} != {**b, "time": ""} for a, b in zip(after, before, strict=True)):
        return
    if any(new.get(name) != old.get(name) for name in new.keys() | old.keys() if name != "metadata"):
        return
    if new["metadata"] | UNCHECKED == old["metadata"] | UNCHECKED:
        new["metadata"]["managedFields"] = before


def fold_old_updates(managers: Managers) -> None:
    """Keep at most ten update managers: the oldest of a version share one entry."""
    updaters = [key for key in managers if key.operation == "Update"]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return
    updaters.sort(key=lambda key: (managers[key].time or "", key.name, key.version, key.subresource))
    first: dict[str, Manager] = {}
    parts: dict[Manager, list[FieldSet]] = {}
    for key in updaters:
        if excess <= 0:
            break
        owned = managers[key]
        if owned.version not in first:
            first[owned.version] = key
            continue
        bucket = Manager(OLD_UPDATES, "Update", owned.version, "")
        if bucket not in managers:
            managers[bucket] = managers.pop(first[owned.version])
        parts.setdefault(bucket, [managers[bucket].fields]).append(owned.fields)
        del managers[key]
        managers[bucket] = owned
        excess -= 1
    for bucket, fields in parts.items():
        managers[bucket] = managers[bucket]._replace(fields=ordered(union_of(fields)))
