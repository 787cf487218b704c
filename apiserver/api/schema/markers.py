"""Markers: rules across the fields of a type, as data. Their error texts are those of upstream's `+k8s:` tags.

    Struct(…, rules=(
        Union(("exactly", "firstAvailable"), none=Required("", _ONE), many=Invalid("", _ONE_ONLY, shown=None)),
        "exactly",
        "firstAvailable",
    ))

The order of `rules` is the order of causes. A text names a field that is checked with its limits and its content. A
marker names a field by its JSON name, a nested field by a dotted path, and the value itself by "". A pointer field is
set when it is present, another field when it is neither zero nor empty. `apiserver.api.validation.markers` compiles
markers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from apiserver.api.errors.omitted_value import OMITTED

__all__ = [
    "CHOSEN",
    "OMITTED",
    "OWN",
    "AtMost",
    "Condition",
    "Conditions",
    "Enum",
    "Forbidden",
    "If",
    "Invalid",
    "Marker",
    "Reference",
    "Required",
    "Step",
    "Union",
    "UntilError",
    "differs",
    "equals",
    "is_any_set",
    "is_set",
    "is_unset",
    "knows",
    "one_of",
    "selector_values",
]  # fmt: skip

#: For `Invalid.shown`: the value of the field, no value, or for a `Union` the names of the members that are set.
OWN: Final = object()
CHOSEN: Final = object()


class Condition(NamedTuple):
    """A fact about fields of a value."""

    holds: Literal["set", "any", "unset", "equal", "different", "env"]
    fields: tuple[str, ...]
    values: tuple[Any, ...] = ()


def is_set(*fields: str) -> Condition:
    """Return the condition that all fields are set."""
    return Condition("set", fields)


def is_any_set(*fields: str) -> Condition:
    """Return the condition that at least one of the fields is set."""
    return Condition("any", fields)


def is_unset(*fields: str) -> Condition:
    """Return the condition that none of the fields is set."""
    return Condition("unset", fields)


def equals(field: str, *values: Any) -> Condition:
    """Return the condition that the field has one of the values. Absent fields that are no pointers are zero."""
    return Condition("equal", (field,), values)


def differs(field: str, *values: Any) -> Condition:
    """Return the condition that the field has none of the values."""
    return Condition("different", (field,), values)


def knows(decide: Callable[[Any], bool]) -> Condition:
    """Return the condition that `decide` is true for the `env` of the rules."""
    return Condition("env", (), (decide,))


#: Conditions that must all be met. A function receives an `At`.
_Fact = Condition | Callable[[Any], bool]
Conditions = _Fact | tuple[_Fact, ...]


class Required(NamedTuple):
    """The field must be set. With `anyway` the error is that of a missing field, even if it is set."""

    field: str
    words: str = ""
    when: Conditions = ()
    anyway: bool = False


class Forbidden(NamedTuple):
    """The field must not be set."""

    field: str
    words: str
    when: Conditions = ()


class Invalid(NamedTuple):
    """The field is invalid if the condition is met. `shown` replaces its value in the error."""

    field: str
    words: str
    when: Conditions = ()
    shown: Any = OWN


class Enum(NamedTuple):
    """The text is one of the values. For values that depend on other fields; others are limits of the field's type."""

    field: str
    values: tuple[str, ...]
    when: Conditions = ()


class AtMost(NamedTuple):
    """The number is at most `most`, a number or the name of another field. That number replaces "{}" in `words`."""

    field: str
    most: int | str
    words: str
    when: Conditions = ()


class Reference(NamedTuple):
    """The text is one of the names that `among` returns for an `At`. Without `words` the error is "not found"."""

    field: str
    among: Callable[[Any], Any]
    words: str = ""


class Union(NamedTuple):
    """Exactly one member is set; at most one without `none`; at least one without `many`."""

    members: tuple[str, ...]
    none: Required | Invalid | None = None
    many: Forbidden | Invalid | None = None


class If(NamedTuple):
    """Steps for values that meet the condition, and steps for the others."""

    when: Conditions
    then: tuple[Any, ...]
    otherwise: tuple[Any, ...] = ()


class UntilError(NamedTuple):
    """Steps up to the first that adds an error."""

    steps: tuple[Any, ...]


Marker = Required | Forbidden | Invalid | Enum | AtMost | Reference | Union | If | UntilError
#: A field name (checked by its type) or a marker.
Step = str | Marker


def one_of(*members: str) -> Union:
    """Return the union with the error texts of upstream's generated rules."""
    known = ", ".join(f"`{name}`" for name in members)
    return Union(
        members,
        none=Invalid("", f"must specify one of: {known}", shown=""),
        many=Invalid("", f"must specify exactly one of: {known}", shown=CHOSEN),
    )


def selector_values(listed: str, unlisted: str, *others: str) -> If:
    """Return the rules of a selector's operator and values. `listed` and `unlisted` are the errors about `values`.

    `others` are operators with rules of their own.
    """
    unknown = Invalid("operator", "not a valid selector operator", when=differs("operator", *others))
    exists = If(equals("operator", "Exists", "DoesNotExist"), (Forbidden("values", unlisted),), otherwise=(unknown,))
    return If(equals("operator", "In", "NotIn"), (Required("values", listed),), otherwise=(exists,))
