"""Table cells that several kinds share."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from apiserver.api.objects import Json
from apiserver.api.values.durations import age
from apiserver.registry.definition.resource import Column

__all__ = ["AGE", "NAME", "name_and_age"]


def _age(obj: Json, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


NAME: Final = Column(
    name="Name",
    cell=lambda obj: obj["metadata"].get("name", ""),
    format="name",
    description="Name of the object, unique among its kind in a namespace.",
)
AGE: Final = Column(name="Age", cell=_age, timed=True, description="Time since the object was created.")


def name_and_age(*between: Column) -> tuple[Column, ...]:
    """Return the columns between the usual name and age."""
    return (NAME, *between, AGE)
