"""Admission: what plugins see of a write, and which plugins see it. `apiserver.registry.verbs.pipeline` calls them.

    admit     may change `obj` in place (before the kind's own preparation)
    validate  may only refuse (after validation, before the write)

A plugin refuses by raising a StatusError, usually `forbidden(attributes, cause)`. It returns None, or an awaitable when
it has to wait for something.
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
    """One write. `obj` is None for DELETE, `old` for CREATE; both are in hub form, `old` read-only."""

    __slots__ = ("ctx", "name", "namespace", "obj", "old", "operation", "reinvocation", "resource", "subresource")

    def __init__(
        self, operation: Operation, ctx: Context, name: str, obj: Json | None, old: Json | None = None
    ) -> None:
        self.operation, self.ctx, self.name, self.obj, self.old = operation, ctx, name, obj, old
        #: set by a plugin that may want everybody to be asked again.
        self.reinvocation: Reinvocation | None = None
        self.resource, self.namespace, self.subresource = ctx.resource, ctx.namespace, ctx.subresource


class Reinvocation:
    """The second round: `asked` for where a change was made that plugins before may have something to say about, and
    `again` while it goes on. There is no third. `kept` is what plugins remember from the first, by their name."""

    __slots__ = ("again", "asked", "kept")

    def __init__(self) -> None:
        self.asked = self.again = False
        self.kept: dict[str, Any] = {}


class Plugin:
    """An admission plugin. `operations` it wants to see; `handles` narrows them to resources, once per resource."""

    name: str = ""
    operations: frozenset[str] = frozenset()
    #: Group and plural of the objects that say what it does: it is asked only while there are any. None: always.
    configured_by: tuple[str, str] | None = None
    #: What else it goes by, so that a change of it may change what it says (`concerns`).
    goes_by: tuple[tuple[str, str], ...] = ()

    def handles(self, resource: Resource) -> bool:
        """Whether requests for this resource (and its subresources) are of interest."""
        return True

    def families(self) -> Sequence[Family]:
        """Return the metric families; may be empty."""
        return ()

    def wants(self, resource: Resource, operation: Operation) -> bool:
        """Whether an operation on a resource is of interest."""
        return operation in self.operations and self.handles(resource)

    def concerns(self, attributes: Attributes) -> bool:
        """Whether it may have anything to say of such requests: of this kind, version and operation, in a namespace or
        not. The answer holds until something changes that it is configured by, or goes by.
        """
        return True

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        return None

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        return None


class Handlers(NamedTuple):
    """The plugins that requests of one kind are shown to, in order. `any` tells whether there are any."""

    admitting: tuple[Plugin, ...]
    validating: tuple[Plugin, ...]

    @property
    def configured(self) -> bool:
        """Whether one of them goes by objects, as webhooks and policies do, which may look at all of an object."""
        return any(plugin.configured_by or plugin.goes_by for plugin in (*self.admitting, *self.validating))


class Chain:
    """The enabled plugins, in upstream's order whatever order they were enabled in."""

    __slots__ = ("_judged_by", "_lacking", "plugins")

    def __init__(self, plugins: Iterable[Plugin] = ()) -> None:
        self.plugins = tuple(plugins)
        #: What configures plugins and of which there is nothing.
        self._lacking = {plugin.configured_by for plugin in self.plugins if plugin.configured_by is not None}
        #: What plugins go by that tell which requests concern them.
        telling = [plugin for plugin in self.plugins if type(plugin).concerns is not Plugin.concerns]
        self._judged_by = {kind for plugin in telling for kind in (plugin.configured_by, *plugin.goes_by)}

    def follows(self, group: str, plural: str) -> bool:
        """Whether objects of a kind say what plugins do."""
        return any((group, plural) in (plugin.configured_by, *plugin.goes_by) for plugin in self.plugins)

    def note(self, group: str, plural: str, *, any: bool) -> bool:
        """Objects of a kind that plugins follow have changed: there are `any` now, or none any more. Gives whether `of`
        may answer otherwise than before.
        """
        kind = (group, plural)
        if (kind in self._lacking) is any and kind in {plugin.configured_by for plugin in self.plugins}:
            (self._lacking.discard if any else self._lacking.add)(kind)
            return True
        return kind in self._judged_by

    def families(self) -> list[Family]:
        """Return the metric families of all plugins."""
        return [family for plugin in self.plugins for family in plugin.families()]

    def of(self, operation: Operation, ctx: Context) -> Handlers:
        """Who handles requests as this one now. A plugin that does not define a step is not asked in it, nor one that
        nothing configures, or whose configuration does not concern such requests.
        """
        attributes = Attributes(operation, ctx, "", None)
        asked = [
            plugin
            for plugin in self.plugins
            if plugin.configured_by not in self._lacking
            and plugin.wants(ctx.resource, operation)
            and plugin.concerns(attributes)
        ]
        return Handlers(
            tuple(plugin for plugin in asked if type(plugin).admit is not Plugin.admit),
            tuple(plugin for plugin in asked if type(plugin).validate is not Plugin.validate),
        )


def forbidden(attributes: Attributes, cause: str) -> StatusError:
    """403 in admission's words. An object without a name yet is named by its generateName."""
    name = attributes.name
    if not name:
        metadata = attributes.obj.get("metadata", {}) if attributes.obj is not None else {}
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return status.forbidden(attributes.resource.plural, attributes.resource.group, name, cause)
