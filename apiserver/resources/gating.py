"""Fields that a disabled feature gate drops, as data: which gates, when a stored object keeps them, where they stand.

A rule is about a whole object: when the stored one uses the feature anywhere, the new one may use it everywhere. What
is dropped is noted in the context, so that a user can be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from apiserver.registry.context import Context
from apiserver.registry.dropped import DroppedField

__all__ = ["Rule", "drop", "rule"]

Json = dict[str, Any]

#: Steps of a path that go to every item of a list, and to every value of a map.
ITEMS: Final = "[]"
VALUES: Final = "{}"


#: Whether a value lacks something, all the way down.
Lacks = Callable[[Any], bool]


class Rule(NamedTuple):
    """`gates` that must all be on, whether a stored section `uses` the feature, the `fields` it consists of as steps
    from the section.
    `lacks` tells quickly, for the fields of each parent, that a section has none of them."""

    gates: tuple[str, ...]
    uses: Callable[..., bool]
    fields: tuple[tuple[str, ...], ...]
    lacks: tuple[Lacks, ...]


def rule(gates: str, uses: Callable[..., bool], *fields: str) -> Rule:
    """`rule("A,B", uses, "devices[].attributes{}.ints")`"""
    steps = (field.replace(ITEMS, f".{ITEMS}").replace(VALUES, f".{VALUES}") for field in fields)
    paths = tuple(tuple(field.split(".")) for field in steps)
    parents: dict[tuple[str, ...], set[str]] = {}
    for path in paths:
        parents.setdefault(path[:-1], set()).add(path[-1])
    return Rule(
        tuple(gates.split(",")),
        uses,
        paths,
        tuple(_lacks(parent, frozenset(names)) for parent, names in parents.items()),
    )


def _lacks(steps: tuple[str, ...], names: frozenset[str]) -> Lacks:
    """Whether none of the fields stands in what the steps lead to, which are objects in normal form."""
    if not steps:
        return names.isdisjoint
    step, below = steps[0], _lacks(steps[1:], names)
    if step == ITEMS:
        return lambda items: all(map(below, items))
    if step == VALUES:
        return lambda values: all(map(below, values.values()))

    def in_field(value: Json) -> bool:
        part = value.get(step)
        return not part or below(part)

    return in_field


def drop(ctx: Context, rules: tuple[Rule, ...], section: Json, at: str, *stored: Json) -> None:
    """Takes from a section of a new object, in place, what disabled gates forbid; `stored` is what the rules' `uses`
    are asked about.
    """
    enabled = ctx.features.enabled
    for gates, uses, fields, lacks in rules:
        off = [gate for gate in gates if not enabled(gate)]
        # Most objects have nothing to drop: that is found out without paths.
        if off and not all(lack(section) for lack in lacks) and not uses(*stored):
            ctx.dropped += [DroppedField(path, off[0]) for steps in fields for path in _take(section, steps, at)]


def _take(value: Any, steps: tuple[str, ...], at: str) -> Iterator[str]:
    """Removes what stands at the end of the steps; gives the paths of what was there."""
    step, rest = steps[0], steps[1:]
    if not value:
        return
    if step == ITEMS:
        for index, item in enumerate(value):
            yield from _take(item, rest, f"{at}[{index}]")
    elif step == VALUES:
        for key, item in value.items():
            yield from _take(item, rest, f"{at}[{key}]")
    elif step in value:
        path = f"{at}.{step}" if at else step
        if rest:
            yield from _take(value[step], rest, path)
        else:
            del value[step]
            yield path
