"""What an admission plugin is asked, and how it answers.

    admit     may change `obj` in place (before the kind's own preparation)
    validate  may only refuse (after validation, before the write)

A plugin refuses by raising a StatusError, usually `forbidden(attributes, cause)`. It answers at once (None) or, when it
has to wait for something, with an awaitable.
"""

from __future__ import annotations

from collections.abc import Awaitable

from apiserver.api import status
from apiserver.api.status import StatusError
from apiserver.registry.admission import Attributes, Operation
from apiserver.registry.resource import Resource

__all__ = ["Attributes", "Operation", "Plugin", "forbidden"]


class Plugin:
    """An admission plugin. `operations` it wants to see; `handles` narrows them to resources, once per resource."""

    name: str = ""
    operations: frozenset[str] = frozenset()

    def handles(self, resource: Resource) -> bool:
        """Whether requests for this resource (and its subresources) are of interest."""
        return True

    def admit(self, attributes: Attributes) -> Awaitable[None] | None:
        return None

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        return None


def forbidden(attributes: Attributes, cause: str) -> StatusError:
    """403 in admission's words. An object without a name yet is named by its generateName."""
    name = attributes.name
    if not name:
        metadata = attributes.obj.get("metadata", {}) if attributes.obj is not None else {}
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return status.forbidden(attributes.resource.plural, attributes.resource.group, name, cause)
