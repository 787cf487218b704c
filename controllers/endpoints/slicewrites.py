"""Writes planned EndpointSlices."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.api.objects import Json
from apiserver.runtime.metrics import Counter
from controllers.endpoints.slices import Plan
from controllers.runtime.client import Client, StatusError, is_reason
from controllers.runtime.kinds import ENDPOINT_SLICES
from controllers.workloads.common.pod_control import in_terminating_namespace


class SliceWriter:
    """The writes of one controller's slices, counted by operation."""

    def __init__(self, client: Client, subsystem: str) -> None:
        self._client = client
        self.changes = Counter(f"{subsystem}_changes", "Written slices, by operation.", ("operation",))

    async def write(
        self, plan: Plan, owner: str, record_write: Callable[[Json], object], *, create: bool = True
    ) -> None:
        """Write a plan, calling `record_write` with each written slice. Raise StatusError naming `owner` slice."""
        for each in plan.create if create else ():
            try:
                record_write(await self._client.create(ENDPOINT_SLICES, _without_empty_lists(each)))
            except StatusError as error:
                if in_terminating_namespace(error):
                    return
                raise _wrap_error(error, f"failed to create EndpointSlice for {owner}") from error
            self.changes.inc("create")
        for each in plan.update:
            name = each["metadata"]["name"]
            try:
                record_write(await self._client.update(ENDPOINT_SLICES, _without_empty_lists(each)))
            except StatusError as error:
                raise _wrap_error(error, f"failed to update {name} EndpointSlice for {owner}") from error
            self.changes.inc("update")
        for each in plan.delete:
            await self._delete(each, owner)

    async def _delete(self, each: Json, owner: str) -> None:
        metadata = each["metadata"]
        try:
            await self._client.delete(ENDPOINT_SLICES, metadata["name"], metadata["namespace"])
        except StatusError as error:
            if is_reason(error, "NotFound"):
                return
            raise _wrap_error(error, f"failed to delete {metadata['name']} EndpointSlice for {owner}") from error
        self.changes.inc("delete")


def _without_empty_lists(each: Json) -> Json:
    """Return the slice as protobuf, upstream's encoding, carries it: managers own no list that is empty."""
    return {key: value for key, value in each.items() if value != []}


def _wrap_error(error: StatusError, message: str) -> StatusError:
    return StatusError(error.code, error.reason, f"{message}: {error}", error.details, error.headers)
