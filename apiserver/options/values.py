"""Tables of flags with text values, and parsers of their values.

Functions raise ValueError in one line naming the flag.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, TypeAlias

from apiserver.api.values.durations import parse_duration

__all__ = ["FlagTable", "add_table", "seconds", "split_list", "values_of"]

#: Name, metavar and help of each flag.
FlagTable: TypeAlias = tuple[tuple[str, str, str], ...]


def add_table(group: argparse._ArgumentGroup, table: FlagTable, *, repeated: bool) -> None:
    """Add flags with text values; `repeated` ones give lists of values in order."""
    for name, metavar, text in table:
        if repeated:
            group.add_argument(f"--{name}", action="append", default=[], metavar=metavar, help=text)
        else:
            group.add_argument(f"--{name}", default="", metavar=metavar, help=text)


def values_of(args: argparse.Namespace, table: FlagTable) -> dict[str, Any]:
    """Return the values of a table's flags, by name."""
    return {name: getattr(args, name.replace("-", "_")) for name, _, _ in table}


def split_list(values: Iterable[str]) -> tuple[str, ...]:
    """Split comma-separated values into names."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def seconds(flag: str, text: str) -> float:
    """Parse a duration, as in `--event-ttl 1h`, into seconds."""
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise ValueError(f"--{flag} {text}: {error}") from error
