"""How an object is deleted: at once, after a grace period, or when its finalizers are gone. Pure rules.

    refuse      preconditions that do not hold
    begin       what a DELETE makes of the stored object: `Step` says what to write and what follows

Rules are those of upstream's generic registry (rest.BeforeDelete, the store's deletion of objects with finalizers).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from apiserver.api.status import StatusError, conflict
from apiserver.registry.body.options import DeleteOptions, Preconditions
from apiserver.registry.context import Context
from apiserver.registry.metadata import FOREGROUND, ORPHAN, timestamp
from apiserver.registry.resource import Resource

__all__ = ["Step", "begin", "check_preconditions", "removable", "success"]

Json = dict[str, Any]

_COLLECTED: Final = (ORPHAN, FOREGROUND)


class Step(NamedTuple):
    """`then`: "keep" leaves the object to finalizers or its grace period, "remove" takes it away after `obj` was
    written, "pending" means that an earlier DELETE already asks for as much. `obj` None: nothing to write first."""

    then: Literal["keep", "remove", "pending"]
    obj: Json | None


def check_preconditions(resource: Resource, metadata: Json, preconditions: Preconditions | None) -> None:
    if preconditions is None:
        return
    uid, version = preconditions.uid, preconditions.resource_version
    name = metadata["name"]
    if uid is not None and uid != metadata["uid"]:
        raise _refused(
            resource, name, "UID", uid, metadata["uid"], "The object might have been deleted and then recreated"
        )
    if version is not None and version != metadata["resourceVersion"]:
        raise _refused(
            resource,
            name,
            "ResourceVersion",
            version,
            metadata["resourceVersion"],
            "The object might have been modified",
        )


def _refused(resource: Resource, name: str, what: str, wanted: str, found: str, hint: str) -> StatusError:
    if resource.strategy.storage_preconditions:
        cause = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        return conflict(resource.plural, resource.group, name, cause)
    cause = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). {hint}"
    return conflict(resource.kind, resource.hub_group, name, cause)


def begin(ctx: Context, obj: Json, options: DeleteOptions) -> Step:
    """What a DELETE does with an object (a private copy, changed in place)."""
    strategy, metadata = ctx.resource.strategy, obj["metadata"]
    grace = strategy.deletion_grace(ctx, obj, _requested(options))
    graceful = False
    if grace is not None:
        if "deletionTimestamp" in metadata:
            shortened = _shorten(metadata, _requested(options), ctx.now)
            if shortened is None:
                return Step("pending", None)
            graceful = shortened
        else:
            _mark(metadata, ctx.now + timedelta(seconds=grace), grace)
            graceful = True
    changed = _set_finalizers(metadata, _finalizers(strategy.garbage_collection, metadata, options))
    held = bool(metadata.get("finalizers"))
    if graceful:
        return Step("keep" if held or metadata["deletionGracePeriodSeconds"] > 0 else "remove", obj)
    if held:
        _mark_now(metadata, ctx.now)
        return Step("keep", obj)
    return Step("remove", obj if changed and options.dry_run else None)


def _requested(options: DeleteOptions) -> int | None:
    """A negative period is one second."""
    return 1 if options.grace_period is not None and options.grace_period < 0 else options.grace_period


def _shorten(metadata: Json, requested: int | None, now: datetime) -> bool | None:
    """A later DELETE of a terminating object can only shorten its period. None: it changes nothing."""
    period = metadata.get("deletionGracePeriodSeconds", 0)
    if period < 0:
        period = metadata["deletionGracePeriodSeconds"] = 1
    if not period:
        return False
    if requested is None or requested >= period:
        return None
    began = datetime.strptime(metadata["deletionTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    ends = began + timedelta(seconds=requested - period)
    if ends < now:
        ends, requested = now, min(requested, 1)
    metadata["deletionTimestamp"] = timestamp(ends)
    metadata["deletionGracePeriodSeconds"] = requested
    return True


def _mark(metadata: Json, at: datetime, grace: int) -> None:
    metadata["deletionTimestamp"] = timestamp(at)
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation", 0) > 0:
        metadata["generation"] += 1


def _mark_now(metadata: Json, now: datetime) -> None:
    """Only finalizers hold the object: it is being deleted from now on."""
    given = metadata.get("deletionTimestamp")
    if given is None:
        _mark(metadata, now, 0)
    elif given > timestamp(now):
        metadata["deletionTimestamp"] = timestamp(now)
    metadata["deletionGracePeriodSeconds"] = 0


def _finalizers(policy: str, metadata: Json, options: DeleteOptions) -> list[str]:
    """The object's finalizers with those that the propagation policy asks for."""
    given = metadata.get("finalizers") or []
    if policy == "unsupported":
        return given
    wanted = _collection_finalizer(policy, given, options)
    others = [finalizer for finalizer in given if finalizer not in _COLLECTED]
    chosen = [*others, wanted] if wanted else others
    return given if set(chosen) == set(given) else chosen


def _collection_finalizer(policy: str, given: list[str], options: DeleteOptions) -> str:
    if options.orphan is not None:
        return ORPHAN if options.orphan else ""
    if options.propagation:
        return {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.propagation, "")
    for finalizer in given:
        if finalizer in _COLLECTED:
            return finalizer
    return ORPHAN if policy == "orphan" else ""


def _set_finalizers(metadata: Json, finalizers: list[str]) -> bool:
    if finalizers == (metadata.get("finalizers") or []):
        return False
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    return True


def removable(resource: Resource, new: Json, old: Json) -> bool:
    """Whether an update took the last finalizer of an object whose deletion waits for nothing else."""
    before = old["metadata"]
    if (
        new["metadata"].get("finalizers")
        or "deletionTimestamp" not in before
        or before.get("deletionGracePeriodSeconds")
    ):
        return False
    return resource.strategy.may_remove(new)


def success(resource: Resource, metadata: Json) -> Json:
    """The Status that answers the deletion of kinds that do not answer with the object."""
    details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural, "uid": metadata["uid"]}
    if not resource.group:
        del details["group"]
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
