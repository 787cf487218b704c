"""Declarations of functions, and their look-up by name.

A library is a list of `Function`s. An overload contains signature and implementation. The implementation gets values of
the declared types: the planner checks them before the call if the static type is dynamic. `impl=None` marks operators
that the planner itself evaluates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from apiserver.cel.language.types import Type

Implementation = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature. `generic` names its type parameters."""

    id: str
    args: tuple[Type, ...]
    result: Type
    impl: Implementation | None = None
    member: bool = False
    generic: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A function with all its overloads, in the order in which the checker tries them.

    `trait` is one implementation of all overloads of an operator, which dispatches on the values. `terse` functions
    report a wrong argument without naming the function and the arguments' types.
    """

    name: str
    overloads: tuple[Overload, ...]
    trait: Implementation | None = None
    terse: bool = False


def _parameters(type_: Type) -> Iterable[str]:
    if type_.kind == "param":
        yield type_.name
    for inner in type_.params:
        yield from _parameters(inner)


def overload(
    id: str, args: Iterable[Type], result: Type, impl: Implementation | None = None, *, member: bool = False
) -> Overload:
    """Declare an overload; its type parameters are inferred."""
    signature = tuple(args)
    names = dict.fromkeys(name for type_ in (*signature, result) for name in _parameters(type_))
    return Overload(id, signature, result, impl, member, tuple(names))


def method(id: str, args: Iterable[Type], result: Type, impl: Implementation | None = None) -> Overload:
    """Declare an overload that is called on its first argument."""
    return overload(id, args, result, impl, member=True)


def function(name: str, *overloads: Overload, trait: Implementation | None = None, terse: bool = False) -> Function:
    """Declare a function."""
    return Function(name, overloads, trait, terse)


def merge(libraries: Iterable[Iterable[Function]]) -> dict[str, Function]:
    """Return all functions by name; overloads of the same function are joined."""
    merged: dict[str, Function] = {}
    for library in libraries:
        for new in library:
            known = merged.get(new.name)
            if known is None:
                merged[new.name] = new
            else:
                ids = {known_overload.id for known_overload in known.overloads}
                added = tuple(candidate for candidate in new.overloads if candidate.id not in ids)
                merged[new.name] = Function(new.name, known.overloads + added, known.trait or new.trait, known.terse)
    return merged
