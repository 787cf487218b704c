"""Limits of a field's value beyond its type, declared once for validation and for the reference pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FIXED", "FIXED_UNSHOWN", "Immutable", "Limits", "between"]


class Immutable(NamedTuple):
    """The rule when a field may not change, and its error.

    With `once` a value may be set where none is stored; with `removable` it may be removed again. `words` are
    upstream's. The error is an invalid value with the new value, or with null if not `shown`, as in upstream's
    generated rules. If `forbids` is set, it is a forbidden change. `name` replaces the field's name in the path where
    upstream's path differs.
    """

    once: bool = False
    removable: bool = False
    words: str = "field is immutable"
    shown: bool = True
    forbids: bool = False
    name: str = ""

    def __str__(self) -> str:
        """Describe the rule for the reference."""
        return ("fixed once set, but removable" if self.removable else "fixed once set") if self.once else "fixed"


#: A field that never changes.
FIXED: Final = Immutable()
FIXED_UNSHOWN: Final = Immutable(shown=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one field.

    - `required`: not empty; a number behind a pointer: set; a text behind a pointer: not empty if set. A text is
      added to upstream's error.
    - `items`: the most items of a list or map. With `all_items` the items of a longer list are checked as well.
    - `length`: the most bytes of a text, or of a raw value as it was written.
    - `least`, `most`: bounds of a number, of each number of a list, or of an amount.
    - `format`: the form of a text, of each text of a list, or of the keys of a map
      (`apiserver.api.validation.formats`). `value_format`: that of the texts in a map.
    - `values`: the permitted texts, if the type does not enumerate them or errors list them in another order.
    - `empty`: whether an empty value is checked like any other. The default is true for numbers and for texts that are
      always written.
    - `parts`: limits of fields inside the field's object, for this field only.
    - `unique`: the field in which no two items of a list are equal, "*" for the whole item. With `whole`, repeated
      items come first and are shown as they are, as in upstream's generated rules.
    - `immutable`: when the field may not change.
    - `words`: upstream's error for a number out of bounds. `most_words`: that for too great a number, if different.
    - `also`: an addition for the reference, for a limit that several fields share.
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
        """Whether any limit applies to a value by itself, apart from its changes."""
        return replace(self, immutable=None) != Limits()

    def key(self, item: Any) -> Any:
        """Return the key that makes an item of a list unique."""
        return item if self.unique == "*" else item.get(self.unique, "")

    def describe(self) -> str:
        """Format sizes and bounds for the reference, in numbers."""
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
    """Build the limits of a number in a range, in upstream's words for most ranges."""
    words = f"must be between {least} and {most}, inclusive"
    return Limits(least=least, most=most, words=words, required=required, empty=empty)
