"""The revisions of a DaemonSet, named by the hash of its template."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.api.objects import Json
from controllers.runtime.client import is_reason
from controllers.runtime.controller import NotYetError
from controllers.runtime.kinds import CONTROLLER_REVISIONS, DAEMON_SETS, PODS
from controllers.workloads.common.component import Workload
from controllers.workloads.common.history import History, is_same_data, sort_revisions
from controllers.workloads.common.owned import OwnedObjects, selector_of
from controllers.workloads.common.references import Claimer
from controllers.workloads.common.templates import template_hash
from controllers.workloads.daemonset.nodes import HASH_LABEL


class Revisions:
    """The revisions of one component's DaemonSets."""

    def __init__(self, component: Workload, history: History, owned: OwnedObjects) -> None:
        self._component, self._history, self._owned = component, history, owned
        self._client = component.client

    async def of(self, owner: Json, pods: Iterable[Json]) -> tuple[Json, list[Json]]:
        """Return the current revision, created if missing, and the others in order. Raise StatusError."""
        claimer = Claimer(self._client, owner, DAEMON_SETS, selector_of(owner), CONTROLLER_REVISIONS)
        known = [await self._ensure_label(owner, each) for each in await claimer.claim(self._owned.of(owner))]
        desired = self._history.new(owner, 0, 0)
        same = sort_revisions(each for each in known if is_same_data(each, desired))
        old = sort_revisions(each for each in known if not is_same_data(each, desired))
        number = max((each["revision"] for each in old), default=0) + 1
        if not same:
            return await self._create(owner, desired, number), old
        current = same[-1]
        if len(same) > 1:
            await self._merge(current, same[:-1], pods)
        if current["revision"] < number:
            current = self._record_write(owner, await self._history.renumber(current, number))
        return current, old

    def _record_write(self, owner: Json, revision: Json) -> Json:
        return self._component.record_write(owner, CONTROLLER_REVISIONS, revision)

    async def _ensure_label(self, owner: Json, revision: Json) -> Json:
        """Add the missing hash label to revisions of old controllers."""
        metadata = revision["metadata"]
        labels = metadata.get("labels") or {}
        if HASH_LABEL in labels:
            return revision
        metadata = {**metadata, "labels": {**labels, HASH_LABEL: metadata["name"]}}
        changed = await self._client.update(CONTROLLER_REVISIONS, {**revision, "metadata": metadata})
        return self._record_write(owner, changed)

    async def _create(self, owner: Json, desired: Json, number: int) -> Json:
        collisions = (owner.get("status") or {}).get("collisionCount")
        code = template_hash(owner["spec"]["template"], collisions)
        labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
        name = f"{owner['metadata']['name']}-{code}"
        metadata = {**desired["metadata"], "name": name, "labels": {**labels, HASH_LABEL: code}}
        if owner["metadata"].get("annotations"):
            metadata["annotations"] = owner["metadata"]["annotations"]
        desired = {**desired, "metadata": metadata, "revision": number}
        try:
            return self._record_write(owner, await self._client.create(CONTROLLER_REVISIONS, desired))
        except Exception as error:
            if not is_reason(error, "AlreadyExists"):
                raise
        taken = await self._client.get(CONTROLLER_REVISIONS, name, owner["metadata"]["namespace"])
        if is_same_data(taken, desired):
            return taken
        status = {**(owner.get("status") or {}), "collisionCount": (collisions or 0) + 1}
        self._component.record_write(await self._client.update_status(DAEMON_SETS, {**owner, "status": status}))
        raise NotYetError(f"revision name {name} is already in use")

    async def _merge(self, kept: Json, others: list[Json], pods: Iterable[Json]) -> None:
        """Delete all but the latest of several revisions with the same template, and relabel the pods."""
        code = kept["metadata"]["labels"][HASH_LABEL]
        for pod in pods:
            metadata = pod["metadata"]
            if (metadata.get("labels") or {}).get(HASH_LABEL) != code:
                change = {"metadata": {"labels": {HASH_LABEL: code}}}
                await self._client.patch(PODS, metadata["name"], change, metadata["namespace"], type="merge")
        for each in others:
            await self._delete(each)

    async def clean_up(self, old: list[Json], pods: Iterable[Json], limit: int) -> None:
        """Delete the oldest unused revisions beyond the limit."""
        live = {(pod["metadata"].get("labels") or {}).get(HASH_LABEL) for pod in pods}
        surplus = len(old) - limit
        unused = [each for each in old if each["metadata"]["labels"].get(HASH_LABEL) not in live]
        for each in unused[: max(0, surplus)]:
            await self._delete(each)

    async def _delete(self, revision: Json) -> None:
        metadata = revision["metadata"]
        try:
            await self._client.delete(CONTROLLER_REVISIONS, metadata["name"], metadata["namespace"])
        except Exception as error:
            if not is_reason(error, "NotFound"):
                raise
