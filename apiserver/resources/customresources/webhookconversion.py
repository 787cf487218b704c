"""Convert custom resources by a webhook: send ConversionReviews and apply their responses.

A stored object is read in its stored version (pruned and defaulted by that version's schema), converted, and pruned by
the schema of the requested version. A webhook may only change labels and annotations of metadata.
Facts: apiextensions-apiserver, pkg/apiserver/conversion/webhook_converter.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

import orjson

from apiserver.api.codec.codec import decode_exactly
from apiserver.api.errors.field_errors import FieldError, aggregate
from apiserver.api.errors.status import server_error
from apiserver.api.objects import Hub, Json
from apiserver.api.types.reviews import CONVERSION_REVIEWS
from apiserver.registry.definition.metadata import validate_metadata
from apiserver.registry.store.conversion import ConvertedEntry, read_mark, remove_mark
from apiserver.resources.customresources.coercion import Coercion
from apiserver.runtime.offload import on_loop, wait_on_loop
from apiserver.storage.watchcache.entry import Entry, Event
from apiserver.webhooks.client import Target, Webhooks
from apiserver.webhooks.failures import WebhookError
from apiserver.webhooks.reviews import Review, read_review

__all__ = ["Webhook", "WebhookConversion"]


#: The timeout of each conversion in seconds.
_TIMEOUT: Final = 30.0
_TIMED_OUT: Final = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
#: The maximum number of objects per review.
_MOST: Final = 500
_GROUP: Final = "apiextensions.k8s.io"


class Webhook(NamedTuple):
    """The webhook configuration of a definition."""

    target: Target
    versions: Sequence[str]


class WebhookConversion:
    """The converter of one definition's objects.

    `coercions` are by version. `first` is the version of rows that name none.
    """

    def __init__(
        self,
        webhooks: Webhooks,
        webhook: Webhook,
        kind: tuple[str, str],
        coercions: Mapping[str, Coercion],
        storage: str,
        first: str,
    ) -> None:
        self._webhooks, self._webhook, (self._group, self._kind) = webhooks, webhook, kind
        self._coercions, self._storage, self._first = coercions, storage, first
        wanted = next((version for version in webhook.versions if f"{_GROUP}/{version}" in CONVERSION_REVIEWS), "")
        self._reviews = f"{_GROUP}/{wanted}" if wanted else ""
        self._tasks: set[asyncio.Task[None]] = set()

    # Conversions for requests

    @on_loop
    async def convert_entries(self, entries: Sequence[Entry], version: str, *, kept: bool) -> list[Entry]:
        key = ("shown", version)
        made: dict[int, asyncio.Future[Entry]] = {}
        missing: dict[str, list[Entry]] = {}
        for at, entry in enumerate(entries):
            found = entry.encodings.get(key) if kept else None
            if found is None:
                found = asyncio.get_running_loop().create_future()
                entry.encodings[key] = found
                missing.setdefault(read_mark(entry.value) or self._first, []).append(entry)
            made[at] = found
        for source, some in missing.items():
            for start in range(0, len(some), _MOST):
                part = some[start : start + _MOST]
                work = self._show(part, [entry.encodings[key] for entry in part], source, version)
                self._tasks.add(task := asyncio.ensure_future(work))
                task.add_done_callback(self._tasks.discard)
        return [await asyncio.shield(future) for future in made.values()]

    async def _show(
        self, entries: list[Entry], futures: list[asyncio.Future[Entry]], source: str, version: str
    ) -> None:
        """Convert entries stored in one version, and resolve the futures of all waiting requests."""
        try:
            found = await self._convert([self._read(entry, source) for entry in entries], source, version)
        except Exception as error:  # noqa: BLE001 - raised again from the futures
            for entry, future in zip(entries, futures, strict=True):
                if entry.encodings.get(("shown", version)) is future:
                    del entry.encodings["shown", version]
                future.set_exception(error)
                future.exception()
            return
        for entry, future, obj in zip(entries, futures, found, strict=True):
            future.set_result(ConvertedEntry(entry, version, Hub(obj)))

    def _read(self, entry: Entry, source: str) -> Json:
        """Decode a stored object, pruned and defaulted by its own version."""
        obj = decode_exactly(remove_mark(entry.value))
        coercion = self._coercions.get(source)
        if coercion is None:
            return dict(obj)
        obj, _ = coercion.pruned(obj)
        coercion.default(obj)
        return obj

    async def convert_events(self, events: Sequence[Event], version: str) -> list[Event]:
        entries = [entry for event in events for entry in (event.old, event.new) if entry is not None]
        found = iter(await self.convert_entries(entries, version, kept=True))
        made: list[Event] = []
        for event in events:
            old = None if event.old is None else next(found)
            new = next(found)
            key = ("shown", version)
            seen = event.encodings.get(key)
            if seen is None:
                seen = event.encodings[key] = Event(old, new, event.deleted)
            made.append(seen)
        return made

    async def convert_to_stored(self, obj: Hub, version: str) -> Hub:
        if version == self._storage:
            return obj
        return Hub((await self._convert_on_loop([obj], version, self._storage))[0])

    # Field managers convert an object to each manager's version in the middle of a synchronous update, which must not
    # block the event loop. Requests of such kinds therefore run in a thread.

    def convert(self, obj: Json, source: str, version: str) -> Json:
        return obj if source == version else wait_on_loop(self._convert([obj], source, version))[0]

    # Reviews

    @on_loop
    async def _convert_on_loop(self, objects: list[Json], source: str, version: str) -> list[Json]:
        return await self._convert(objects, source, version)

    async def _convert(self, objects: list[Json], source: str, version: str) -> list[Json]:
        """Convert objects from one version to another. Raise StatusError (500)."""
        if source == version:
            return objects
        if source not in self._coercions:
            raise server_error(f"request to convert CR from an invalid group/version: {self._group}/{source}")
        failed = f"conversion webhook for {self._group}/{source}, Kind={self._kind}"
        sent = [self._sent(obj, source) for obj in objects]
        found = await self._ask(sent, version, failed)
        if len(found) != len(objects):
            raise server_error(f"{failed} returned {len(found)} objects, expected {len(objects)}")
        return [
            self._believed(before, obj, after, version, f"{failed} returned invalid")
            for obj, before, after in zip(objects, sent, found, strict=True)
        ]

    def _sent(self, obj: Json, source: str) -> Json:
        metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
        return {"apiVersion": f"{self._group}/{source}", "kind": self._kind, **obj, "metadata": metadata}

    async def _ask(self, objects: list[Json], version: str, failed: str) -> list[Any]:
        if not self._reviews:
            raise server_error("no supported conversion review versions")
        uid = str(uuid4())
        review = {
            "kind": "ConversionReview",
            "apiVersion": self._reviews,
            "request": {"uid": uid, "desiredAPIVersion": f"{self._group}/{version}", "objects": objects},
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        try:
            answer = await self._webhooks.post(
                self._webhook.target, orjson.dumps(review), seconds=_TIMEOUT, timed_out=_TIMED_OUT
            )
            return _converted(read_review(answer, CONVERSION_REVIEWS, self._reviews), self._reviews, uid)
        except WebhookError as error:
            raise server_error(f"{failed} failed: {error}") from None

    def _believed(self, sent: Json, original: Json, found: Any, version: str, wrong: str) -> Json:
        """Return the converted object with the allowed changes of the webhook. Raise StatusError."""
        if not isinstance(found, dict) or not found.get("kind"):
            raise server_error(f"Object 'Kind' is missing in '{orjson.dumps(found).decode()}'")
        wanted = f"{self._group}/{version}"
        for name, expected, given in (
            ("groupVersion", wanted, found.get("apiVersion", "")),
            ("kind", self._kind, found["kind"]),
        ):
            if expected != given:
                raise server_error(f"{wrong} object at index 0: invalid {name} (expected {expected}, received {given})")
        metadata = found.get("metadata")
        told = metadata if isinstance(metadata, dict) else {}
        for name, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
            before, after = sent["metadata"].get(name, ""), told.get(name, "")
            if before != after:
                raise server_error(f"{wrong} object: must have the same {shown}: {before} != {after}")
        kept = _metadata(original["metadata"], metadata, wrong)
        rest = {name: value for name, value in found.items() if name not in ("kind", "apiVersion", "metadata")}
        made, _ = self._coercions[version].pruned({"metadata": kept, **rest})
        return made


def _converted(review: Review, wanted: str, uid: str) -> list[Any]:
    """Return the objects of a response. Raise WebhookError."""
    response, checked = review.response, wanted.endswith("/v1")
    expected = f"{wanted}, Kind=ConversionReview"
    if checked and (review.api_version, review.kind) != (wanted, "ConversionReview"):
        raise WebhookError(f"expected webhook response of {expected}, got {review.shown}")
    if response is None:
        raise WebhookError("no response provided")
    if checked and response.get("uid", "") != uid:
        raise WebhookError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result") or {}
    status = result.get("status", "")
    if status != "Success":
        raise WebhookError(result.get("message") or f"response.result.status was '{status}', not 'Success'")
    return list(response.get("convertedObjects") or ())


def _metadata(original: Json, told: Any, wrong: str) -> Json:
    """Return the original metadata with labels and annotations of the response. Raise StatusError."""
    if not isinstance(told, dict):
        if told is None:
            raise server_error(f"{wrong} metadata: missing metadata in converted object")
        raise server_error(f"{wrong} metadata: invalid metadata of type {_go(told)} in converted object")
    made = dict(original)
    for field in ("labels", "annotations"):
        given = told.get(field)
        if given is None:
            made.pop(field, None)
            continue
        if not isinstance(given, dict):
            raise server_error(f"{wrong} metadata: invalid metadata.{field} of type {_go(given)} in converted object")
        for key, value in given.items():
            if not isinstance(value, str):
                raise server_error(
                    f"{wrong} metadata: metadata.{field}[{key}] must be a string, but is {_go(value)} in converted"
                    " object"
                )
        if given != original.get(field) and (errors := _wrong_texts(field, given)):
            raise server_error(f"{wrong} metadata: {aggregate(errors)}")
        if given:
            made[field] = given
        else:
            made.pop(field, None)
    return made


def _wrong_texts(field: str, texts: Json) -> list[FieldError]:
    return validate_metadata({"name": "a", field: texts}, False, "path-segment", kind_rules=False)


def _go(value: Any) -> str:
    names = {bool: "bool", int: "int64", float: "float64", str: "string", dict: "map[string]interface {}"}
    return names.get(type(value), "[]interface {}")
