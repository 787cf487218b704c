"""What a field's value may be, beyond its type: said once, in the type, for validation and for the reference pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FIXED", "FIXED_UNSHOWN", "Immutable", "Limits", "between"]


class Immutable(NamedTuple):
    """When a field may not change, and what a change of it is told.

    With `once` a value may be set where none is stored; with `removable` it may be taken away again. `words` are
    upstream's. They are said of an invalid value, with the new one; of none (null) if it is not `shown`, as upstream's
    generated rules have it; of a forbidden change if `forbids`. `name` is that of the field in the path, where
    upstream's path has another.
    """

    once: bool = False
    removable: bool = False
    words: str = "field is immutable"
    shown: bool = True
    forbids: bool = False
    name: str = ""

    def __str__(self) -> str:
        """For the reference."""
        return ("fixed once set, but removable" if self.removable else "fixed once set") if self.once else "fixed"


#: A field that never changes.
FIXED: Final = Immutable()
FIXED_UNSHOWN: Final = Immutable(shown=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one field.

    `required`: not empty; a number behind a pointer: given; a text behind a pointer: not empty where it is given. As a
    text it is what upstream adds. `items` counts at most those of a list or map (with `all_items` the items of a longer
    list are checked as well), `length` at most the bytes of a text,
    or of a raw value as it was written; `least` and `most` bound a number, each number of a list, or an amount.
    `format` names the form of a text, of each text of a list, or of the keys of a map
    (`apiserver.api.validation.formats`), `value_format` that of the texts in a map. `values` are those that a text may
    have, where its type does not enumerate them, or in the order in which errors list them. `empty` says whether an
    empty value is judged like any other, by default that of a number, and of a text that is always written. `parts`
    limits fields of the object that the field holds, here alone. `unique` is the field in which no two items of a list
    are equal, "*" the whole item; with `whole`, repeated items come first and are shown as they are, as upstream's
    generated rules do. `immutable` says when the field may not change. `words` say what is wrong with a number, where
    upstream says it in its own, those of too great a number in `most_words` if they are others; `also` is what the
    reference adds, of a limit that several fields share.
    """

    required: bool | str = False
    items: int | None = None
    all_items: bool = False
    length: int | None = None
    least: int | None = None
    most: int | None = None
    format: str = ""
    value_format: str = ""
    values: tuple[str, ...] = ()
    empty: bool | None = None
    parts: Mapping[str, Limits] | None = None
    unique: str = ""
    whole: bool = False
    immutable: Immutable | None = None
    words: str = ""
    most_words: str = ""
    also: str = ""

    @property
    def bounds(self) -> bool:
        """Whether they say anything of a value that stands alone, besides how it may change."""
        return replace(self, immutable=None) != Limits()

    def key(self, item: Any) -> Any:
        """What makes an item of a list unique."""
        return item if self.unique == "*" else item.get(self.unique, "")

    def shown(self) -> str:
        """For the reference: sizes and bounds, in numbers."""
        size = self.items if self.items is not None else self.length
        bounds = (
            f"{self.least} to {self.most}"
            if self.least is not None and self.most is not None
            else f"at least {self.least}"
            if self.least is not None
            else f"at most {self.most}"
            if self.most is not None
            else ""
        )
        fixed = "" if self.immutable is None else str(self.immutable)
        return "; ".join(filter(None, ("" if size is None else str(size), bounds, self.also, fixed)))


def between(least: int, most: int, *, required: bool = False, empty: bool | None = None) -> Limits:
    """The limits of a number in a range, in the words that upstream has for most ranges."""
    words = f"must be between {least} and {most}, inclusive"
    return Limits(least=least, most=most, words=words, required=required, empty=empty)
