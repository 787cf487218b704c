"""The effect of feature gates on a field of a type."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

__all__ = ["EVERY_GATE", "Gated", "Scope", "gated"]

Scope = Literal["section", "object", "place", "create", "rule", "never"]
#: For `ungated`: no gate at all holds below a field.
EVERY_GATE: Final = ("*",)


class Gated(NamedTuple):
    """The effect of feature gates on a field. A field is dropped from writes unless all its `gates` are on.

    A field that the stored object already uses is kept. `scope` is the part of the stored object in which such a use
    counts. It differs per feature:

    - "section": the spec or the status that contains the field
    - "object": the whole stored object
    - "place": the same field of the stored object; list items are matched by index
    - "create": only new objects lose the field
    - "rule": the kind has a rule of its own, because more than the field is dropped
    - "never": the field is never dropped

    `counts`: a stored field is a use by itself. `members`: it is a use only with one of these fields set. `prunes`:
    objects left empty are dropped, too.
    """

    gates: tuple[str, ...]
    scope: Scope = "section"
    counts: bool = True
    members: tuple[str, ...] = ()
    prunes: bool = False

    def __str__(self) -> str:
        return ",".join(self.gates)


def gated(
    gates: str, scope: Scope = "section", *, counts: bool = True, members: tuple[str, ...] = (), prunes: bool = False
) -> Gated:
    """Build the `gate` of a field: `gated("A,B", "object")`. See `Gated`."""
    return Gated(tuple(gates.split(",")), scope, counts, members, prunes)
