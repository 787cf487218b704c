"""Protection of objects in use: a deleted object stays until it is no longer used.

Admission in the API server adds the finalizer to new objects; these controllers remove it.
"""

from __future__ import annotations

import asyncio

from apiserver.api.objects import Json
from controllers.runtime.client import Client
from controllers.runtime.controller import Controller, ControllerComponent
from controllers.runtime.informer import Informers
from controllers.runtime.kinds import Kind


class Protection(ControllerComponent):
    """The base of protection controllers; idle if not enabled.

    Keys are those of the protected objects. Subclasses enqueue the key of an object that is no longer used.
    """

    def __init__(
        self,
        name: str,
        kind: Kind,
        finalizer: str,
        client: Client,
        informers: Informers,
        *,
        queue: str,
        enabled: bool = True,
        adds: bool = False,
    ) -> None:
        """Create the controller. `adds` also adds the finalizer to existing objects without it."""
        self.name, self._enabled, self._adds = name, enabled, adds
        self._client, self._kind, self._finalizer = client.for_controller(name), kind, finalizer
        self._controller = Controller(name, self.reconcile, queue=queue)
        if enabled:
            self._objects = informers.of(kind)
            self._controller.follow(self._objects)

    async def run(self) -> None:
        if self._enabled:
            await super().run()
        else:
            await asyncio.Event().wait()

    async def is_in_use(self, key: str, obj: Json) -> bool:
        """Return whether the object must stay."""
        raise NotImplementedError

    async def reconcile(self, key: str) -> None:
        obj = self._objects.get(key)
        metadata = obj["metadata"] if obj is not None else {}
        finalizers = metadata.get("finalizers") or ()
        has, deleted = self._finalizer in finalizers, bool(metadata.get("deletionTimestamp"))
        if obj is None:
            return
        if self._adds and not has and not deleted:
            wanted = [*finalizers, self._finalizer]
        elif deleted and has and not await self.is_in_use(key, obj):
            wanted = [name for name in finalizers if name != self._finalizer]
        else:
            return
        await self._client.update(self._kind, {**obj, "metadata": {**metadata, "finalizers": wanted}})
