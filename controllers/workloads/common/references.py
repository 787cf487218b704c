"""Controller references, and the claiming of objects by selector.

An owner adopts matching objects without controller, and releases its objects that no longer match. Both are patches
with the object's uid, so that a newer object of the same name is unaffected. Facts: upstream's
pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from apiserver.api.objects import Json
from apiserver.api.selectors.selectors import LabelSelector
from controllers.resourceclaims.pods import controller_of
from controllers.runtime.client import Client, StatusError, is_reason
from controllers.runtime.controller import NotYetError
from controllers.runtime.index import Index
from controllers.runtime.informer import Informer
from controllers.runtime.kinds import Kind

__all__ = ["Claimer", "by_controller", "controller_index", "controller_of", "controller_reference", "is_controlled_by"]


def controller_reference(owner: Json, kind: Kind) -> Json:
    """Build the reference that makes `owner` an object's controller."""
    metadata = owner["metadata"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_controlled_by(obj: Json, owner: Json) -> bool:
    reference = controller_of(obj)
    return reference is not None and bool(reference["uid"] == owner["metadata"]["uid"])


def controller_index(informer: Informer) -> Index:
    """Index an informer's objects by the uid of their controller, or by namespace without one."""
    return informer.index("controller", _controller_values)


def _controller_values(obj: Json) -> Iterable[str]:
    reference = controller_of(obj)
    return (reference["uid"] if reference is not None else f"{obj['metadata'].get('namespace', '')}/",)


def by_controller(index: Index, owner: Json, *, orphans: bool = True) -> list[Json]:
    """Return the objects controlled by an owner, and with `orphans` the uncontrolled ones in its namespace."""
    metadata = owner["metadata"]
    return index.get(metadata["uid"]) + (index.get(f"{metadata['namespace']}/") if orphans else [])


class Claimer:
    """The claiming of one kind's objects for one owner.

    `kind` is the owner's kind. `finalizers` are added to adopted objects and removed from released ones.
    """

    def __init__(
        self,
        client: Client,
        owner: Json,
        kind: Kind,
        selector: LabelSelector,
        claimed: Kind,
        *,
        finalizers: Sequence[str] = (),
    ) -> None:
        self._client, self._owner, self._kind, self._selector, self._claimed = client, owner, kind, selector, claimed
        self._finalizers = list(finalizers)
        self._uid = owner["metadata"]["uid"]
        self._may_adopt: bool | None = None

    async def claim(
        self, objects: Iterable[Json], is_eligible: Callable[[Json], bool] = lambda obj: True
    ) -> list[Json]:
        """Return the owner's objects after adoption and release. `is_eligible` is a condition beside the selector.

        After trying all, raise the first error.
        """
        found: list[Json] = []
        failure: Exception | None = None
        for obj in objects:
            if self._is_claimed(obj, is_eligible):
                found.append(obj)
                continue
            try:
                if await self._claim(obj, is_eligible):
                    found.append(obj)
            except (StatusError, NotYetError) as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return found

    def _is_claimed(self, obj: Json, is_eligible: Callable[[Json], bool]) -> bool:
        """Return whether the object is and stays the owner's, as nearly all objects."""
        reference = controller_of(obj)
        return (
            reference is not None
            and bool(reference["uid"] == self._uid)
            and self._selector.matches(obj["metadata"].get("labels"))
            and is_eligible(obj)
        )

    async def _claim(self, obj: Json, is_eligible: Callable[[Json], bool]) -> bool:
        reference = controller_of(obj)
        matches = self._selector.matches(obj["metadata"].get("labels")) and is_eligible(obj)
        deleting = bool(self._owner["metadata"].get("deletionTimestamp"))
        if reference is not None:
            if reference["uid"] != self._uid:
                return False
            if not matches and not deleting:
                await self._release(obj)
            return matches
        if deleting or not matches or obj["metadata"].get("deletionTimestamp"):
            return False
        return await self._adopt(obj)

    async def _adopt(self, obj: Json) -> bool:
        await self._check_alive()
        metadata: Json = {
            "uid": obj["metadata"]["uid"],
            "ownerReferences": [controller_reference(self._owner, self._kind)],
        }
        if self._finalizers:
            metadata["finalizers"] = self._finalizers
        return await self._patch(obj, metadata, "NotFound")

    async def _release(self, obj: Json) -> None:
        metadata: Json = {
            "uid": obj["metadata"]["uid"],
            "ownerReferences": [{"$patch": "delete", "uid": self._uid}],
        }
        if self._finalizers:
            metadata["$deleteFromPrimitiveList/finalizers"] = self._finalizers
        # Invalid: the object was replaced or already released.
        await self._patch(obj, metadata, "NotFound", "Invalid")

    async def _patch(self, obj: Json, metadata: Json, *harmless: str) -> bool:
        given = obj["metadata"]
        try:
            await self._client.patch(self._claimed, given["name"], {"metadata": metadata}, given["namespace"])
        except Exception as error:
            if not is_reason(error, *harmless):
                raise
            return False
        return True

    async def _check_alive(self) -> None:
        """Check once with the server that the owner exists and is not terminating, before it adopts."""
        if self._may_adopt is None:
            metadata = self._owner["metadata"]
            fresh = (await self._client.get(self._kind, metadata["name"], metadata["namespace"]))["metadata"]
            self._may_adopt = fresh["uid"] == self._uid and not fresh.get("deletionTimestamp")
        if not self._may_adopt:
            raise NotYetError(
                f"{self._kind.kind} {self._owner['metadata']['name']} is deleted and cannot adopt objects"
            )
