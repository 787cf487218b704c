"""`/-/history`, `/-/timeline` and `/-/revision`: the changes of objects, as far as the log reaches."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import Field

from apiserver.http.admin.models import Model
from apiserver.http.admin.operations import Operations


class ObjectQuery(Model):
    """An object of any served kind."""

    group: str = Field("", description="API group, such as `resource.k8s.io`; empty for the core group")
    resource: str = Field(description="plural, such as `pods`")
    namespace: str = Field("", description="empty for a cluster-scoped object")
    name: str


class HistoryQuery(ObjectQuery):
    """An object, and how much of its history to return."""

    limit: int = Field(100, ge=1, le=10_000, description="maximum number of changes, the latest")
    objects: bool = Field(False, description="whether to return the object after each change")


class ChangedField(Model):
    """A changed field. A missing value is null."""

    path: str = Field(description="such as `status.conditions[Ready].status`")
    old: Any = None
    new: Any = None


class ObjectChange(Model):
    """One change of an object, by one request."""

    revision: str = Field(description="resourceVersion after the change")
    time: datetime = Field(description="time of the write; of a write by an older release, the time in the object")
    verb: str = Field(
        description="create, update, patch, apply or delete; `expire` for Events whose time is over; `create` with the"
        " subresource `binding` or `eviction` for these"
    )
    subresource: str
    user: str = Field(description="user name; empty if it is not known")
    user_agent: str
    manager: str = Field(description="field manager")
    uid: str
    created: bool
    deleted: bool
    fields: list[ChangedField] | None = Field(
        description="changed fields; null for a creation, a deletion, and the first known state of an older object"
    )
    object: dict[str, Any] | None = Field(None, description="the stored object after the change")


class ObjectHistory(Model):
    """The changes of the objects of a name, oldest first."""

    changes: list[ObjectChange]
    report: str = Field(description="the changes as text")


class TimelineEntry(Model):
    """One line of a timeline."""

    time: datetime
    revision: str | None = Field(description="resourceVersion of the write; null for what is only in memory")
    name: str = Field(
        description="created, gated, queued, attempt N, nominated, allocated, reserved, bound, prepared, running,"
        " ready, ended, terminating, deleted; event, driver, claims, claim, released, changed, known"
    )
    detail: str
    stage: bool = Field(description="whether the object is in this stage until the next one")
    seconds: float | None = Field(description="time spent in the stage; null for an end and for what is no stage")


class Timeline(Model):
    """The timeline of an object."""

    kind: str
    namespace: str
    name: str
    uid: str
    entries: list[TimelineEntry]
    report: str = Field(description="the timeline as text")


class RevisionQuery(Model):
    """A moment."""

    at: str = Field(description="revision, RFC 3339 time, or duration before the server's time such as `-5m`")


class RevisionAt(Model):
    """The revision at a moment."""

    revision: str
    time: datetime | None = Field(description="time of the write that made the revision; null if it is not known")


def create(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["history"])
    history = operations.history

    @router.get("/-/history", summary="The changes of an object: when, by whom, and which fields")
    async def changes(query: Annotated[HistoryQuery, Query()]) -> ObjectHistory:
        """Return the latest changes, as far as the log and the last reset reach; `--history` keeps more of the log."""
        from apiserver.history.report import history_text

        found = await _found(history().changes(query.group, query.resource, query.namespace, query.name, query.limit))
        return ObjectHistory(
            changes=[_change(change, objects=query.objects) for change in found], report=history_text(found)
        )

    @router.get("/-/timeline", summary="The stages of an object and the time spent in each")
    async def timeline(query: Annotated[ObjectQuery, Query()]) -> Timeline:
        """Return the stages of a pod from its creation to its end, or the changes of any other object, with Events."""
        found = await _found(history().timeline(query.group, query.resource, query.namespace, query.name))
        return Timeline.model_validate(found)

    @router.get("/-/revision", summary="The revision at a time")
    async def revision(query: Annotated[RevisionQuery, Query()]) -> RevisionAt:
        """Return the newest revision written at or before a time. Lists take it with `resourceVersionMatch=Exact`."""
        from apiserver.history.moments import InvalidMomentError, TooOldError

        try:
            moment = await history().moment(query.at)
        except InvalidMomentError as error:
            raise HTTPException(400, str(error)) from error
        except TooOldError as error:
            raise HTTPException(410, str(error)) from error
        return RevisionAt(revision=str(moment.revision), time=moment.time)

    return router


async def _found(reading: Any) -> Any:
    try:
        return await reading
    except LookupError as error:
        raise HTTPException(404, error.args[0]) from error


def _change(change: Any, *, objects: bool) -> ObjectChange:
    from apiserver.history.changes import time_of

    author = change.author
    return ObjectChange(
        revision=str(change.revision),
        time=time_of(change),
        verb=author.verb,
        subresource=author.subresource,
        user=author.user,
        user_agent=author.agent,
        manager=author.manager,
        uid=change.obj["metadata"].get("uid", ""),
        created=change.created,
        deleted=change.deleted,
        fields=None if change.fields is None else [ChangedField(**field._asdict()) for field in change.fields],
        object=change.obj if objects else None,
    )
