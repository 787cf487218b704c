"""Publish FlowSchemas and PriorityLevelConfigurations, and set each schema's condition Dangling.

Facts: apiserver/pkg/util/flowcontrol (apf_controller.go).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.api.values.times import timestamp
from apiserver.authentication.authenticator import ADMIN
from apiserver.registry.store.changes import set_on_change
from apiserver.registry.verbs.server_writes import apply_own

if TYPE_CHECKING:
    from apiserver.registry.store.store import Registry

__all__ = ["FlowSchemaStatus"]


#: Called with the schemas and the levels.
OnChange = Callable[[Iterable[Json], Iterable[Json]], object]

_SCHEMAS: Final = ("flowcontrol.apiserver.k8s.io", "flowschemas")
_LEVELS: Final = ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations")
_MANAGER: Final = "api-priority-and-fairness-config-consumer-v1"
_TYPE: Final = "Dangling"
#: Maximal writes of one schema's condition per minute.
_WRITES: Final = 6
_MINUTE: Final = 60.0


def _verdict(level: str, *, there: bool) -> Json:
    names = f"This FlowSchema references the PriorityLevelConfiguration object named {go_quote(level)}"
    if there:
        return {"status": "False", "reason": "Found", "message": f"{names} and it exists"}
    return {"status": "True", "reason": "NotFound", "message": f"{names} but there is no such object"}


class FlowSchemaStatus:
    """Maintains the condition Dangling of all FlowSchemas.

    `on_change` is called with the schemas and levels after each change.
    """

    def __init__(self, registry: Registry, on_change: OnChange = lambda schemas, levels: None) -> None:
        self._registry, self._on_change, self._changed = registry, on_change, asyncio.Event()
        #: Times of the latest writes of each schema's condition, on the loop's clock.
        self._written: dict[str, deque[float]] = {}

    def publish(self) -> None:
        """Publish the present schemas and levels."""
        self._on_change(self._registry.all_of(*_SCHEMAS), self._registry.all_of(*_LEVELS))

    async def follow(self) -> None:
        """Publish changes and update conditions, until cancelled."""
        stores = self._registry.stores
        wakes = [
            asyncio.create_task(set_on_change(stores[each].cache, self._changed))
            for each in (_SCHEMAS, _LEVELS)
            if each in stores
        ]
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                self.publish()  # before a condition reports it
                try:
                    await self.ensure()
                except StatusError:  # database unavailable: retried at the next change or start
                    continue
        finally:
            for wake in wakes:
                wake.cancel()

    async def ensure(self) -> None:
        """Write the conditions that differ."""
        levels = {item["metadata"]["name"] for item in self._registry.all_of(*_LEVELS)}
        schemas = self._registry.all_of(*_SCHEMAS)
        names = {item["metadata"]["name"] for item in schemas}
        self._written = {name: times for name, times in self._written.items() if name in names}
        await asyncio.gather(*(self._judge(item, levels) for item in schemas))

    async def _judge(self, schema: Any, levels: set[str]) -> None:
        name, level = schema["metadata"]["name"], schema["spec"]["priorityLevelConfiguration"]["name"]
        wanted = _verdict(level, there=level in levels)
        conditions = (schema.get("status") or {}).get("conditions") or ()
        before: Json = next((each for each in conditions if each.get("type") == _TYPE), {})
        if all(before.get(key) == value for key, value in wanted.items()):
            return
        loop = asyncio.get_running_loop()
        times = self._written.setdefault(name, deque(maxlen=_WRITES))
        if len(times) == _WRITES and loop.time() < times[0] + _MINUTE:
            # Another server writes the opposite: both would write forever.
            loop.call_at(times[0] + _MINUTE, self._changed.set)
            return
        times.append(loop.time())
        made = {"type": _TYPE, "lastTransitionTime": timestamp(self._registry.clock()), **wanted}
        status = {"metadata": {"name": name}, "status": {"conditions": [made]}}
        try:
            await apply_own(self._registry, ADMIN, *_SCHEMAS, status, manager=_MANAGER, subresource="status")
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
