"""Types whose values expressions make by naming their fields: `Object{metadata: Object.metadata{labels: {"a": "b"}}}`.

A `Messages` gives the type of a name. Which there are is the language's to say; a value is a map that knows its type.
Facts: apiserver, pkg/cel/mutation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.api.cel.types import DYN, STRING, Type, struct
from apiserver.api.cel.values import CelError

__all__ = ["JSON_PATCH", "OBJECT", "Message", "Messages", "Record", "patch_messages"]


class Record(dict[str, Any]):
    """A value of a message type: the fields that were given."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.type_name = type_name


class Message:
    """A type: what its fields hold, and what is made of them."""

    def __init__(self, type_: Type) -> None:
        self.type = type_

    @property
    def name(self) -> str:
        return self.type.name

    def field(self, name: str) -> Type | None:
        """The type of a field; None where there is no such field."""
        raise NotImplementedError

    def make(self, fields: dict[str, Any]) -> Any:
        """A value. Raises CelError."""
        return Record(self.name, fields)


Messages = Callable[[str], "Message | None"]

OBJECT: Final = struct("Object")
JSON_PATCH: Final = struct("JSONPatch")
#: The type of fields that there are not, to which nothing but a value of any type can be assigned.
_NOTHING: Final = struct("")
_PATCH_TEXTS: Final = ("op", "path", "from")


class _Object(Message):
    """A part of an object, named by where it is: Object.spec.template. Any field may be given; types are compared with
    the schema when the value is applied.
    """

    def field(self, name: str) -> Type | None:
        return DYN


class _JsonPatch(Message):
    """One operation of a JSON patch."""

    def field(self, name: str) -> Type | None:
        return STRING if name in _PATCH_TEXTS else DYN if name == "value" else _NOTHING

    def make(self, fields: dict[str, Any]) -> Any:
        for name, value in fields.items():
            if name in _PATCH_TEXTS and not isinstance(value, str):
                raise CelError(f"unexpected type {type(value).__name__} for JSONPatchType '{name}' field")
            if name not in _PATCH_TEXTS and name != "value":
                raise CelError(f"unexpected JSONPatchType field: {name}")
        return super().make(fields)


def patch_messages(name: str) -> Message | None:
    """The types that mutations are made of."""
    if name == JSON_PATCH.name:
        return _JsonPatch(JSON_PATCH)
    if name == OBJECT.name or name.startswith(f"{OBJECT.name}."):
        return _Object(struct(name))
    return None
