"""The chain of enabled plugins, in upstream's order whatever order they were enabled in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from apiserver.admission.interface import Attributes, Plugin

if TYPE_CHECKING:
    from apiserver.registry.resource import Resource

__all__ = ["Chain"]


class Chain:
    """Asks each plugin that handles a request. Which ones do is found once per resource and operation."""

    __slots__ = ("_handlers", "plugins")

    def __init__(self, plugins: Iterable[Plugin] = ()) -> None:
        self.plugins = tuple(plugins)
        self._handlers: dict[tuple[str, str, str], tuple[Plugin, ...]] = {}

    def of(self, resource: Resource, operation: str) -> tuple[Plugin, ...]:
        key = (operation, resource.plural, resource.group)
        found = self._handlers.get(key)
        if found is None:
            found = tuple(
                plugin for plugin in self.plugins if operation in plugin.operations and plugin.handles(resource)
            )
            self._handlers[key] = found
        return found

    async def admit(self, attributes: Attributes) -> None:
        for plugin in self.of(attributes.resource, attributes.operation):
            waiting = plugin.admit(attributes)
            if waiting is not None:
                await waiting

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self.of(attributes.resource, attributes.operation):
            waiting = plugin.validate(attributes)
            if waiting is not None:
                await waiting
