"""Find attributes and capacities that an expression names but no device has, and the closest existing names."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from apiserver.cel.environments.references import mentions

__all__ = ["MissingAttribute", "find_missing"]


class DeviceProperties(Protocol):
    """A device: attributes and capacity by name, with or without a domain."""

    @property
    def attributes(self) -> Mapping[str, Any]: ...

    @property
    def capacity(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class MissingAttribute:
    """An attribute or capacity, or a whole domain, that no device has.

    `nearest` is a similar name that `having` devices have, "" if there is none.
    """

    what: str
    nearest: str
    having: int

    def __str__(self) -> str:
        return self.what


def find_missing(expression: str, devices: Iterable[tuple[str, DeviceProperties]]) -> Iterator[MissingAttribute]:
    """Yield the names in an expression that no device has.

    `devices` come with their drivers; a driver's name is the domain of names without one.
    """
    known: dict[str, Counter[tuple[str, str]]] = {"attributes": Counter(), "capacity": Counter()}
    for driver, device in devices:
        for kind, described in (("attributes", device.attributes), ("capacity", device.capacity)):
            for name in described:
                domain, slash, rest = name.partition("/")
                known[kind][(domain, rest) if slash else (driver, name)] += 1
    for mention in mentions(expression):
        names = known[mention.kind]
        domains = Counter(domain for domain, _ in names)
        if mention.domain not in domains:
            near = _nearest(mention.domain, sorted(domains))
            having = max((count for (domain, _), count in names.items() if domain == near), default=0)
            yield MissingAttribute(f"{mention.kind} of domain {mention.domain}", near, having)
        elif mention.name and (mention.domain, mention.name) not in names:
            near = _nearest(mention.name, [name for domain, name in names if domain == mention.domain])
            yield MissingAttribute(f"{mention.kind} {mention}", near, names[mention.domain, near])


def _nearest(name: str, candidates: Iterable[str]) -> str:
    by_folded = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.4)
    return by_folded[close[0]] if close else ""
