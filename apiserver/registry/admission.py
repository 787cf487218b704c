"""One write as admission sees it, and what the store asks of an admission chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from apiserver.registry.context import Context
    from apiserver.registry.resource import Resource

__all__ = ["Admission", "Attributes", "Operation"]

Json = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Attributes:
    """`obj` is None for DELETE, `old` for CREATE; both are in hub form, `old` read-only."""

    operation: Operation
    ctx: Context
    name: str
    obj: Json | None
    old: Json | None = None

    @property
    def resource(self) -> Resource:
        return self.ctx.resource

    @property
    def namespace(self) -> str:
        return self.ctx.namespace

    @property
    def subresource(self) -> str:
        return self.ctx.subresource


class Admission(Protocol):
    """A chain of plugins. `of` names those that handle an operation on a resource: none, and nothing need be asked."""

    def of(self, resource: Resource, operation: str) -> Sequence[Any]: ...

    async def admit(self, attributes: Attributes) -> None: ...

    async def validate(self, attributes: Attributes) -> None: ...
