"""What feature gates do to a field of a type."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

__all__ = ["EVERY_GATE", "Gated", "Scope", "gated"]

Scope = Literal["section", "object", "place", "create", "rule", "never"]
#: For `ungated`: no gate at all holds below a field.
EVERY_GATE: Final = ("*",)


class Gated(NamedTuple):
    """What feature gates do to a field: `gates` must all be on, else the field is dropped from what is written, unless
    the stored object uses the feature already.

    `scope` is where such a use counts, which differs from feature to feature: "section" (the spec or the status that
    the field is in), "object" (all of the stored object), "place" (the same field of the stored object, items of lists
    by their index). With "create" new objects alone lose the field. With "rule" the kind has a rule of its own, because
    more than the field goes; with "never" nothing drops it.
    `counts`: a stored field is a use itself; `members`: only if it has one of these fields. `prunes`: the objects that
    held nothing else go, too.
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
    """`gated("A,B", "object")`, for the `gate` of a field. See `Gated`."""
    return Gated(tuple(gates.split(",")), scope, counts, members, prunes)
