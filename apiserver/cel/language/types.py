"""Static types of CEL expressions, and substitutions that resolve type parameters.

Types are interned: two equal types are the same object, so they are compared with `is`. `format()` is a type's name in
checker messages, `str()` its name elsewhere; they differ for `any` and `null`.

Source of facts: the CEL language definition (types, gradual typing) and recorded checker messages.
"""

from __future__ import annotations

from typing import ClassVar, Final


class Type:
    """One interned static type; create it with the functions below, never directly."""

    __slots__ = ("_hash", "generic", "kind", "name", "params")
    _interned: ClassVar[dict[tuple[str, str, tuple[Type, ...]], Type]] = {}

    kind: str
    name: str
    params: tuple[Type, ...]
    generic: bool
    _hash: int

    def __new__(cls, kind: str, name: str, params: tuple[Type, ...] = ()) -> Type:  # noqa: PYI034 - interned, and there are no subclasses
        key = (kind, name, params)
        found = cls._interned.get(key)
        if found is None:
            found = object.__new__(cls)
            found.kind, found.name, found.params = kind, name, params
            found.generic = kind == "param" or any(param.generic for param in params)
            found._hash = hash(key)
            if not found.generic or kind == "param":
                cls._interned[key] = found
        return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Type) or not self.generic or self._hash != other._hash:
            return False
        return self.kind == other.kind and self.name == other.name and self.params == other.params

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name

    def __repr__(self) -> str:
        return f"<{self}>"

    def format(self) -> str:
        """Return the name of the type in checker messages."""
        shown = _SHOWN.get(self.kind, self.name)
        return f"{shown}({', '.join(param.format() for param in self.params)})" if self.params else shown


_SHOWN: Final = {
    "any": "any", "duration": "duration", "timestamp": "timestamp", "error": "!error!", "null": "null",
}  # fmt: skip

ERROR: Final = Type("error", "*error*")
DYN: Final = Type("dyn", "dyn")
ANY: Final = Type("any", "google.protobuf.Any")
BOOL: Final = Type("bool", "bool")
BYTES: Final = Type("bytes", "bytes")
DOUBLE: Final = Type("double", "double")
INT: Final = Type("int", "int")
NULL: Final = Type("null", "null_type")
STRING: Final = Type("string", "string")
UINT: Final = Type("uint", "uint")
DURATION: Final = Type("duration", "google.protobuf.Duration")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")
TYPE: Final = Type("type", "type")

_GRADUAL: Final = frozenset({"dyn", "any", "error"})
_SIMPLE: Final = frozenset(
    {"bool", "bytes", "double", "int", "string", "uint", "any", "duration", "timestamp", "struct"}
)
_NULLABLE: Final = frozenset({"opaque", "struct", "any", "duration", "timestamp"})


def list_of(element: Type) -> Type:
    """Return list(element)."""
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return map(key, value)."""
    return Type("map", "map", (key, value))


def type_of(param: Type) -> Type:
    """Return the type of a type value."""
    return Type("type", "type", (param,))


def param(name: str) -> Type:
    """Return a type parameter."""
    return Type("param", name)


def opaque(name: str, *params: Type) -> Type:
    """Return a library type that only its own functions understand."""
    return Type("opaque", name, params)


def struct(name: str) -> Type:
    """Return a type with fields (which the environment declares) or a named library type."""
    return Type("struct", name)


def optional_of(value: Type) -> Type:
    """Return optional_type(value)."""
    return Type("opaque", "optional_type", (value,))


def is_dynamic(type_: Type) -> bool:
    """Return whether a type is known only at run time: dyn or any."""
    return type_.kind == "dyn" or type_.kind == "any"


def unwrap_optional(type_: Type) -> tuple[Type, bool]:
    """Return the value type of an optional type, and whether the type was optional."""
    if type_.kind == "opaque" and type_.name == "optional_type":
        return type_.params[0], True
    return type_, False


class Substitutions:
    """Bindings of type parameters. Failed attempts leave them unchanged."""

    __slots__ = ("bound",)

    def __init__(self) -> None:
        self.bound: dict[str, Type] = {}

    def assignable(self, target: Type, source: Type) -> bool:
        """Return whether `target` accepts `source`; bind parameters if so."""
        if not target.generic and not source.generic:
            return self._fits(target, source)
        before = self.bound.copy()
        if self._fits(target, source):
            return True
        self.bound = before
        return False

    def all_assignable(self, targets: list[Type], sources: list[Type]) -> bool:
        """Return whether the lists agree pairwise; bind parameters only if all do."""
        if len(targets) != len(sources):
            return False
        before = None
        for target, source in zip(targets, sources, strict=True):
            if before is None and (target.generic or source.generic):
                before = self.bound.copy()
            if not self._fits(target, source):
                if before is not None:
                    self.bound = before
                return False
        return True

    def resolve(self, type_: Type, *, open_as_dyn: bool = False) -> Type:
        """Replace a type's bound parameters, and optionally its open ones by dyn."""
        if not type_.generic:
            return type_
        if type_.kind == "param":
            bound = self.bound.get(type_.name)
            if bound is not None:
                return self.resolve(bound, open_as_dyn=open_as_dyn)
            return DYN if open_as_dyn else type_
        params = tuple(self.resolve(inner, open_as_dyn=open_as_dyn) for inner in type_.params)
        return Type(type_.kind, type_.name, params)

    def _fits(self, target: Type, source: Type) -> bool:
        if target is source and not target.generic:
            return True
        if source.kind == "param":
            valid, bound = self._bind(target, source)
            if valid or bound:
                return valid
        if target.kind == "param":
            return self._bind(source, target)[0]
        if target.kind in _GRADUAL or source.kind in _GRADUAL:
            return True
        if target.kind == "null":
            return source.kind == "null" or source.kind in _NULLABLE
        if source.kind == "null":
            return target.kind in _NULLABLE
        if target.kind in _SIMPLE:
            return target is source
        if target.kind == "type":
            return source.kind == "type"
        return (
            target.kind == source.kind
            and target.name == source.name
            and len(target.params) == len(source.params)
            and all(map(self._fits, target.params, source.params))
        )

    def _bind(self, other: Type, parameter: Type) -> tuple[bool, bool]:
        """Return whether `parameter` may be bound to `other`, and whether it was bound before."""
        if other == parameter:
            return True, True
        bound = self.bound.get(parameter.name)
        if bound is not None:
            if other == bound:
                return True, True
            if not self._fits(other, bound):
                return False, True
            wider = most_general(other, bound)
            if self._absent(parameter, wider):
                self.bound[parameter.name] = wider
            return True, True
        if self._absent(parameter, other):
            self.bound[parameter.name] = other
            return True, False
        return False, False

    def _absent(self, parameter: Type, within: Type) -> bool:
        """Return whether a type does not contain the parameter (the occurs check)."""
        if not within.generic:
            return True
        if within.kind == "param":
            if within == parameter:
                return False
            bound = self.bound.get(within.name)
            return bound is None or self._absent(parameter, bound)
        return all(self._absent(parameter, inner) for inner in within.params)


def most_general(first: Type, second: Type) -> Type:
    """Return the wider of two types that agree."""
    return first if _less_specific(first, second) else second


def _less_specific(first: Type, second: Type) -> bool:
    if is_dynamic(first) or first.kind == "param":
        return True
    if is_dynamic(second) or second.kind == "param" or first.kind != second.kind:
        return False
    if first.kind == "type":
        return True
    if first.kind in ("opaque", "list", "map"):
        return (
            first.name == second.name
            and len(first.params) == len(second.params)
            and all(map(_less_specific, first.params, second.params))
        )
    return first == second
