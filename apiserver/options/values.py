"""What flags have in common: tables of flags that take texts, and how their values are read. Raises ValueError in one
line that names the flag.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, TypeAlias

from apiserver.api.values.durations import parse_duration

__all__ = ["FlagTable", "add_table", "listed", "seconds", "values_of"]

#: Of each flag its name, what it takes, what it is for.
FlagTable: TypeAlias = tuple[tuple[str, str, str], ...]


def add_table(group: argparse._ArgumentGroup, table: FlagTable, *, repeated: bool) -> None:
    """Flags whose values are texts; `repeated` ones give lists of what was said, in its order."""
    for name, metavar, text in table:
        if repeated:
            group.add_argument(f"--{name}", action="append", default=[], metavar=metavar, help=text)
        else:
            group.add_argument(f"--{name}", default="", metavar=metavar, help=text)


def values_of(given: argparse.Namespace, table: FlagTable) -> dict[str, Any]:
    """What was said of each flag of a table, by its name."""
    return {name: getattr(given, name.replace("-", "_")) for name, _, _ in table}


def listed(values: Iterable[str]) -> tuple[str, ...]:
    """The names of values that hold several, with commas between."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def seconds(flag: str, text: str) -> float:
    """A duration, as in `--event-ttl 1h`."""
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise ValueError(f"--{flag} {text}: {error}") from error
