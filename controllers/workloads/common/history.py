"""ControllerRevisions: the former templates of an owner, each as a patch.

Facts: upstream's pkg/controller/history; the patch is that of StatefulSets and DaemonSets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector
from controllers.runtime.client import Client, is_reason
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import CONTROLLER_REVISIONS, Kind
from controllers.runtime.times import parse_time
from controllers.workloads.common.references import by_controller, controller_index, controller_reference
from controllers.workloads.common.templates import go_json, revision_hash, revision_name

_HASH_LABEL = "controller.kubernetes.io/hash"


def template_patch(owner: Json) -> Json:
    """Return a revision's data: a patch that replaces the template, with sorted keys for hashing."""
    patch: Json = json.loads(go_json({"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}))
    return patch


def template_of(revision: Json) -> Json:
    """Return the template of a revision."""
    template = revision.get("data", {}).get("spec", {}).get("template") or {}
    return {name: value for name, value in template.items() if name != "$patch"}


def with_template(owner: Json, revision: Json) -> Json:
    """Return the owner with a revision's template."""
    return {**owner, "spec": {**owner["spec"], "template": template_of(revision)}}


def is_same_data(one: Json, other: Json) -> bool:
    """Return whether two revisions have the same template; null counts as absent."""
    return bool(_without_null(one.get("data")) == _without_null(other.get("data")))


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    return value


def sort_revisions(revisions: Iterable[Json]) -> list[Json]:
    """Sort revisions, oldest first."""

    def order(revision: Json) -> tuple[object, ...]:
        metadata = revision["metadata"]
        return revision["revision"], parse_time(metadata["creationTimestamp"]), metadata["name"]

    return sorted(revisions, key=order)


def next_number(revisions: Sequence[Json]) -> int:
    """Return the next revision number. `revisions` are in order."""
    return int(revisions[-1]["revision"]) + 1 if revisions else 1


class History:
    """The revisions of the owners of one kind."""

    def __init__(self, client: Client, revisions: Informer, kind: Kind) -> None:
        self._client, self._kind = client, kind
        self._index = controller_index(revisions)

    def of(self, owner: Json, selector: LabelSelector) -> list[Json]:
        """Return the revisions that the owner controls or may adopt, in order."""
        found = by_controller(self._index, owner)
        return sort_revisions(each for each in found if selector.matches(each["metadata"].get("labels")))

    def new(self, owner: Json, number: int, collisions: int, annotations: Json | None = None) -> Json:
        """Build a revision of the owner's template."""
        data, metadata = template_patch(owner), owner["metadata"]
        code = revision_hash(data, collisions)
        labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
        return {
            "apiVersion": CONTROLLER_REVISIONS.api_version,
            "kind": CONTROLLER_REVISIONS.kind,
            "metadata": {
                "name": revision_name(metadata["name"], code),
                "namespace": metadata["namespace"],
                "labels": {**labels, _HASH_LABEL: code},
                "ownerReferences": [controller_reference(owner, self._kind)],
                **({"annotations": annotations} if annotations else {}),
            },
            "data": data,
            "revision": number,
        }

    async def create(self, owner: Json, revision: Json, collisions: int) -> tuple[Json, int]:
        """Create the revision under the next free name.

        Return it with the total number of name collisions. Raise StatusError.
        """
        namespace = owner["metadata"]["namespace"]
        while True:
            name = revision_name(owner["metadata"]["name"], revision_hash(revision["data"], collisions))
            wanted = {**revision, "metadata": {**revision["metadata"], "name": name}}
            try:
                return await self._client.create(CONTROLLER_REVISIONS, wanted), collisions
            except Exception as error:
                if not is_reason(error, "AlreadyExists"):
                    raise
            taken = await self._client.get(CONTROLLER_REVISIONS, name, namespace)
            if is_same_data(taken, wanted):
                return taken, collisions
            collisions += 1

    async def renumber(self, revision: Json, number: int) -> Json:
        """Make an old revision the latest one. Raise StatusError."""
        if revision["revision"] == number:
            return revision
        return await self._client.update(CONTROLLER_REVISIONS, {**revision, "revision": number})

    async def truncate(self, revisions: Sequence[Json], live: Iterable[str], limit: int) -> None:
        """Delete the oldest unused revisions beyond the limit. `live` has the names in use."""
        used = set(live)
        unused = [each["metadata"] for each in revisions if each["metadata"]["name"] not in used]
        for metadata in unused[: max(0, len(unused) - limit)]:
            try:
                await self._client.delete(CONTROLLER_REVISIONS, metadata["name"], metadata["namespace"])
            except Exception as error:
                if not is_reason(error, "NotFound"):
                    raise
