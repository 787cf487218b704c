"""metadata.managedFields: who set what, kept up to date by every create, update and patch.

A manager is known by name, operation, API version (an apply manager by any version) and subresource. A write gives its
manager the fields that it added or changed and takes them, and the fields that are gone, from all others. Each
manager's set is in the terms of its own API version, so a write is compared once per version that managers speak.

Rules are those of k8s.io/apimachinery (pkg/util/managedfields): fields that the server owns are never tracked, an
object without managers is not tracked, more than ten update managers are folded into `ancient-changes`, entries are
sorted by operation, time and name.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

import orjson

from apiserver.api.schema import Struct
from apiserver.api.status import StatusError
from apiserver.registry.body.normalize import written
from apiserver.registry.fields.set import FieldSet, difference, of_paths, ordered, union, without
from apiserver.registry.fields.walk import NamelessItem, compare
from apiserver.registry.metadata import timestamp

__all__ = ["FieldTracker", "Form", "Manager", "Owned", "decode", "decode_strictly", "encode", "manager_name"]

Json = dict[str, Any]

MAX_UPDATE_MANAGERS: Final = 10
OLD_UPDATES: Final = "ancient-changes"
UNKNOWN: Final = "unknown"
_NAME_LIMIT: Final = 128

#: Fields that nobody owns. "metadata" itself is no field of anybody; what lies below it may be.
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
    """What makes a manager one manager. `version` is empty for apply."""

    name: str
    operation: str
    version: str
    subresource: str


class Owned(NamedTuple):
    """A manager's fields in the terms of an API version, and when it last wrote."""

    fields: FieldSet
    version: str
    time: str | None


Managers = dict[Manager, Owned]


@dataclass(frozen=True, slots=True)
class Form:
    """One API version of a kind: its schema, how a stored object is turned into it (a private copy, unless it is the
    stored form itself) and back, and its object without any value."""

    schema: Struct
    of_hub: Callable[[Json], Json]
    to_hub: Callable[[Json], Json]
    empty: Callable[[], Json]


def manager_name(given: str, user_agent: str) -> str:
    """The manager of a write: the fieldManager parameter, or the user agent up to its first slash, printable and cut to
    128 bytes."""
    if given:
        return given
    head = user_agent.partition("/")[0]
    if len(head) <= _NAME_LIMIT and head.isascii() and head.isprintable():
        return head or UNKNOWN
    kept, size = [], 0
    for char in head:
        if char.isprintable():
            size += len(char.encode())
            if size > _NAME_LIMIT:
                break
            kept.append(char)
    return "".join(kept) or UNKNOWN


def decode(entries: list[Json] | None, *, trusted: bool = False) -> Managers | None:
    """Managers of an object's entries; None when an entry cannot be understood. Sets that were stored are `trusted`."""
    managers: Managers = {}
    for entry in entries or ():
        operation, version, fields = entry.get("operation"), entry.get("apiVersion"), entry.get("fieldsV1")
        if operation not in ("Apply", "Update") or not version or entry.get("fieldsType") != "FieldsV1":
            return None
        if fields is not None and not trusted and not _is_set(fields):
            return None
        manager = Manager(
            entry.get("manager", ""), operation, "" if operation == "Apply" else version, entry.get("subresource", "")
        )
        managers[manager] = Owned(fields or {}, version, entry.get("time"))
    return managers


def decode_strictly(entries: list[Json] | None) -> Managers:
    """As `decode`; entries that cannot be understood are upstream's bare 500."""
    managers = decode(entries)
    if managers is None:
        raise StatusError(500, "", "failed to decode managed fields: an entry cannot be understood")
    return managers


def _is_set(node: Any) -> bool:
    if not isinstance(node, dict):
        return False
    return all(
        element == "." or (element[:2] in ("f:", "k:", "v:", "i:") and _is_set(below))
        for element, below in node.items()
    )


def encode(managers: Managers) -> list[Json]:
    """Entries in upstream's order."""
    order = sorted(
        managers.items(),
        key=lambda item: (item[0].operation, item[1].time or "", item[0].name, item[1].version, item[0].subresource),
    )
    return [entry_of(manager, owned) for manager, owned in order]


def entry_of(manager: Manager, owned: Owned) -> Json:
    entry: Json = {"manager": manager.name, "operation": manager.operation, "apiVersion": owned.version}
    if not manager.name:
        del entry["manager"]
    if owned.time is not None:
        entry["time"] = owned.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = owned.fields
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def is_reset(entries: list[Json] | None) -> bool:
    """An empty list, or one with a single empty entry, asks to forget all managers."""
    return entries is not None and (not entries or entries == [{}])


class FieldTracker:
    """Field management of one resource. `forms` finds a version by its apiVersion, `resets` the fields that a write to
    the main resource ("") or to a subresource cannot own."""

    __slots__ = ("_forms", "_hidden", "_resets")

    def __init__(self, forms: Callable[[str], Form | None], resets: Callable[[str], tuple[str, ...]]) -> None:
        self._forms = forms
        self._resets = cache(lambda subresource: of_paths(*resets(subresource)))
        #: whole sections among them, which need not be compared.
        self._hidden = cache(lambda subresource: frozenset(path for path in resets(subresource) if "." not in path))

    def created(self, new: Json, version: str, manager: str, subresource: str, now: datetime) -> None:
        """Tracks a new object (hub form, system fields not yet filled). Sets metadata.managedFields; an object with
        nameless items has none.
        """
        with suppress(NamelessItem):
            self._created(new, version, manager, subresource, now)

    def _created(self, new: Json, version: str, manager: str, subresource: str, now: datetime) -> None:
        metadata = new["metadata"]
        given = metadata.pop("managedFields", None)
        managers = None if is_reset(given) else decode(given)
        if managers:
            self._track({"metadata": {}}, new, managers, version, manager, subresource, now, fresh=True)
            return
        form = self._forms(version)
        if form is None:  # the server's own objects, of a kind that it does not serve
            return
        gained, _ = self._between(form, form.empty(), form.of_hub(new), subresource)
        gained = difference(gained, STRIPPED)
        if gained:
            owned = Owned(gained, version, timestamp(now))
            metadata["managedFields"] = [entry_of(Manager(manager, "Update", version, subresource), owned)]

    def updated(self, old: Json, new: Json, version: str, manager: str, subresource: str, now: datetime) -> None:
        """Tracks a change from `old` to `new` (both hub form). Sets metadata.managedFields of `new`."""
        metadata = new["metadata"]
        given = metadata.pop("managedFields", None)
        kept = old["metadata"].get("managedFields")
        if subresource or given == kept:
            managers = decode(kept, trusted=True)
        elif is_reset(given):
            return
        else:
            managers = (decode(given) if given else None) or decode(kept, trusted=True)
        if managers:
            with suppress(NamelessItem):
                self._track(old, new, managers, version, manager, subresource, now)

    def _between(self, form: Form, old: Json, new: Json, subresource: str) -> tuple[FieldSet, FieldSet]:
        hidden = self._hidden(subresource)
        if hidden:
            old, new = ({name: value for name, value in obj.items() if name not in hidden} for obj in (old, new))
        gained, lost = compare(form.schema, old, written(form.schema, new))
        reset = self._resets(subresource)
        return (without(gained, reset), without(lost, reset)) if reset else (gained, lost)

    def _track(
        self,
        old: Json,
        new: Json,
        managers: Managers,
        version: str,
        manager: str,
        subresource: str,
        now: datetime,
        *,
        fresh: bool = False,
    ) -> None:
        changes: dict[str, tuple[FieldSet, FieldSet] | None] = {}

        def change_in(api_version: str) -> tuple[FieldSet, FieldSet] | None:
            if api_version not in changes:
                form = self._forms(api_version)
                if form is None:
                    changes[api_version] = None
                else:
                    before, after = form.empty() if fresh else form.of_hub(old), form.of_hub(new)
                    if api_version != version:
                        # On the way to another version raw extensions are written anew: the order of their keys is no
                        # change.
                        before, after = orjson.loads(orjson.dumps([before, after]))
                    changes[api_version] = self._between(form, before, after, subresource)
            return changes[api_version]

        gained, _ = change_in(version) or ({}, {})
        self._take_from_others(managers, change_in)
        gained = difference(gained, STRIPPED)
        if gained:
            key = Manager(manager, "Update", version, subresource)
            had = managers.get(key)
            fields = ordered(union(gained, had.fields)) if had else gained
            managers[key] = Owned(fields, version, timestamp(now))
        fold_old_updates(managers)
        if managers:
            new["metadata"]["managedFields"] = encode(managers)

    @staticmethod
    def _take_from_others(managers: Managers, change_in: Callable[[str], tuple[FieldSet, FieldSet] | None]) -> None:
        for key, owned in list(managers.items()):
            change = change_in(owned.version)
            if change is None:
                del managers[key]
                continue
            gained, lost = change
            if gained or lost:
                rest = difference(difference(owned.fields, gained), lost)
                if rest:
                    managers[key] = owned._replace(fields=rest)
                else:
                    del managers[key]
            elif not owned.fields:
                del managers[key]


def fold_old_updates(managers: Managers) -> None:
    """Keeps at most ten update managers: the oldest of a version share one entry."""
    updaters = [key for key in managers if key.operation == "Update"]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return
    updaters.sort(key=lambda key: (managers[key].time or "", key.name, key.version, key.subresource))
    first: dict[str, Manager] = {}
    for key in updaters:
        if excess <= 0:
            return
        owned = managers[key]
        if owned.version not in first:
            first[owned.version] = key
            continue
        bucket = Manager(OLD_UPDATES, "Update", owned.version, "")
        if bucket not in managers:
            managers[bucket] = managers.pop(first[owned.version])
        folded = ordered(union(owned.fields, managers[bucket].fields))
        del managers[key]
        managers[bucket] = Owned(folded, owned.version, owned.time)
        excess -= 1
