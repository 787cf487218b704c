"""Fields that a disabled feature gate drops, as data: which gates, when a stored object keeps them, where they stand.

A rule is about a whole object: when the stored one uses the feature anywhere, the new one may use it everywhere. What is dropped is noted in
the context, so that a user can be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from apiserver.registry.dropped import DroppedField
from apiserver.registry.strategy import Context

__all__ = ["Rule", "drop", "rule"]

Json = dict[str, Any]

#: Steps of a path that go to every item of a list, and to every value of a map.
ITEMS: Final = "[]"
VALUES: Final = "{}"


class Rule(NamedTuple):
    """`gates` that must all be on, whether a stored section `uses` the feature, the `fields` it consists of as steps from the section.
    `parents` are the same fields by the steps to what holds them."""

    gates: tuple[str, ...]
    uses: Callable[..., bool]
    fields: tuple[tuple[str, ...], ...]
    parents: tuple[tuple[tuple[str, ...], frozenset[str]], ...]


def rule(gates: str, uses: Callable[..., bool], *fields: str) -> Rule:
    """`rule("A,B", uses, "devices[].attributes{}.ints")`"""
    steps = (field.replace(ITEMS, f".{ITEMS}").replace(VALUES, f".{VALUES}") for field in fields)
    paths = tuple(tuple(field.split(".")) for field in steps)
    parents: dict[tuple[str, ...], set[str]] = {}
    for path in paths:
        parents.setdefault(path[:-1], set()).add(path[-1])
    return Rule(tuple(gates.split(",")), uses, paths, tuple((parent, frozenset(names)) for parent, names in parents.items()))


def drop(ctx: Context, rules: tuple[Rule, ...], section: Json, at: str, *stored: Json) -> None:
    """Takes from a section of a new object, in place, what disabled gates forbid; `stored` is what the rules' `uses` are asked about."""
    enabled = ctx.features.enabled
    for gates, uses, fields, parents in rules:
        off = [gate for gate in gates if not enabled(gate)]
        # Most objects have nothing to drop: that is found out without paths.
        if off and any(_holds(section, steps, names) for steps, names in parents) and not uses(*stored):
            ctx.dropped += [DroppedField(path, off[0]) for steps in fields for path in _take(section, steps, at)]


def _holds(value: Any, steps: tuple[str, ...], names: frozenset[str], at: int = 0) -> bool:
    """Whether one of the fields stands in something that the steps lead to."""
    for position in range(at, len(steps)):
        if not value:
            return False
        step = steps[position]
        if step in (ITEMS, VALUES):
            for item in value if step == ITEMS else value.values():  # noqa: SIM110 - a generator costs more than the look
                if _holds(item, steps, names, position + 1):
                    return True
            return False
        value = value.get(step)
    return bool(value) and not names.isdisjoint(value)


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
