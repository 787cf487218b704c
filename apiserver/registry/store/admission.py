"""Admission: the plugins, and their view of a write. `apiserver.registry.verbs.pipeline` calls them.

    admit     may change `obj` in place (before the kind's own preparation)
    validate  may only refuse (after validation, before the write)

A plugin refuses a request by raising a StatusError, usually `forbidden(attributes, cause)`. It returns None, or an
awaitable if it must wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from apiserver.api.errors import status
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.resource import Resource
    from apiserver.runtime.metrics import Family

__all__ = [
    "Attributes", "Chain", "Handlers", "Operation", "Plugin", "Reinvocation", "forbidden",
]  # fmt: skip

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class Attributes:
    """One write. `obj` is None for DELETE, `old` for CREATE. Both are in hub form, `old` is read-only."""

    __slots__ = ("ctx", "name", "namespace", "obj", "old", "operation", "reinvocation", "resource", "subresource")

    def __init__(
        self, operation: Operation, ctx: Context, name: str, obj: Json | None, old: Json | None = None
    ) -> None:
        self.operation, self.ctx, self.name, self.obj, self.old = operation, ctx, name, obj, old
        #: Set by a plugin that supports reinvocation.
        self.reinvocation: Reinvocation | None = None
        self.resource, self.namespace, self.subresource = ctx.resource, ctx.namespace, ctx.subresource


class Reinvocation:
    """The second round of mutating admission.

    A plugin sets `requested` after a change that earlier plugins have not seen. `second_round` is set during the second
    round. There is no third. `state` holds the plugins' state from the first round, by plugin name.
    """

    __slots__ = ("requested", "second_round", "state")

    def __init__(self) -> None:
        self.requested = self.second_round = False
        self.state: dict[str, Any] = {}


class Plugin:
    """An admission plugin for some `operations`; `handles` narrows it to resources, once per resource."""

    name: str = ""
    operations: frozenset[str] = frozenset()
    #: Group and plural of the plugin's configuration objects; without any, it is not called. None: always called.
    configured_by: tuple[str, str] | None = None
    #: Other objects whose changes may change the result of `can_handle`.
    depends_on: tuple[tuple[str, str], ...] = ()

    def handles(self, resource: Resource) -> bool:
        """Return whether the plugin handles requests for this resource and its subresources."""
        return True

    def families(self) -> Sequence[Family]:
        """Return the metric families; may be empty."""
        return ()

    def handles_operation(self, resource: Resource, operation: Operation) -> bool:
        """Return whether the plugin handles an operation on a resource."""
        return operation in self.operations and self.handles(resource)

    def can_handle(self, attributes: Attributes) -> bool:
        """Return whether the plugin may handle requests of this kind, version, operation and scope.

        The result is cached until one of its configuration objects (`configured_by`, `depends_on`) changes.
        """
        return True

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        return None

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        return None


class Handlers(NamedTuple):
    """The plugins that handle one kind of requests, in order."""

    admitting: tuple[Plugin, ...]
    validating: tuple[Plugin, ...]

    @property
    def configured(self) -> bool:
        """Whether a plugin has configuration objects, like webhooks and policies, which may read the whole object."""
        return any(plugin.configured_by or plugin.depends_on for plugin in (*self.admitting, *self.validating))


class Chain:
    """The enabled plugins in upstream's order."""

    __slots__ = ("_dependencies", "_unconfigured", "plugins")

    def __init__(self, plugins: Iterable[Plugin] = ()) -> None:
        self.plugins = tuple(plugins)
        #: Kinds of configuration objects without any object.
        self._unconfigured = {plugin.configured_by for plugin in self.plugins if plugin.configured_by is not None}
        #: Kinds of objects that `can_handle` of the plugins depends on.
        dependent = [plugin for plugin in self.plugins if type(plugin).can_handle is not Plugin.can_handle]
        self._dependencies = {kind for plugin in dependent for kind in (plugin.configured_by, *plugin.depends_on)}

    def is_configured_by(self, group: str, plural: str) -> bool:
        """Return whether objects of a kind configure plugins."""
        return any((group, plural) in (plugin.configured_by, *plugin.depends_on) for plugin in self.plugins)

    def record_change(self, group: str, plural: str, *, any: bool) -> bool:
        """Record a change of configuration objects: `any` tells whether some exist.

        Returns whether `select_plugins` may return other plugins than before.
        """
        kind = (group, plural)
        if (kind in self._unconfigured) is any and kind in {plugin.configured_by for plugin in self.plugins}:
            (self._unconfigured.discard if any else self._unconfigured.add)(kind)
            return True
        return kind in self._dependencies

    def families(self) -> list[Family]:
        """Return the metric families of all plugins."""
        return [family for plugin in self.plugins for family in plugin.families()]

    def select_plugins(self, operation: Operation, ctx: Context) -> Handlers:
        """Return the plugins that handle a request now.

        It skips a plugin's undefined steps, plugins without configuration objects, and plugins that do not concern such
        requests.
        """
        attributes = Attributes(operation, ctx, "", None)
        plugins = [
            plugin
            for plugin in self.plugins
            if plugin.configured_by not in self._unconfigured
            and plugin.handles_operation(ctx.resource, operation)
            and plugin.can_handle(attributes)
        ]
        return Handlers(
            tuple(plugin for plugin in plugins if type(plugin).admit is not Plugin.admit),
            tuple(plugin for plugin in plugins if type(plugin).validate is not Plugin.validate),
        )


def forbidden(attributes: Attributes, cause: str) -> StatusError:
    """Return a 403 in admission's words. An object without a name is identified by its generateName."""
    name = attributes.name
    if not name:
        metadata = attributes.obj.get("metadata", {}) if attributes.obj is not None else {}
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return status.forbidden(attributes.resource.plural, attributes.resource.group, name, cause)
