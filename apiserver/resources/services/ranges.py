"""Choose addresses and ports from ranges, mostly at random in the upper part.

The lower part is reserved for explicit requests (pkg/registry/core/service/ipallocator, portallocator).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

__all__ = ["AddressRange", "NumberRange", "PortRange"]

#: The divisor, minimum and maximum of the part reserved for explicit requests.
_ADDRESS_SHARE: Final = (16, 16, 256)
_PORT_SHARE: Final = (32, 16, 128)


class NumberRange(NamedTuple):
    """The numbers from `first` to `last`. Numbers below `free_from` are chosen only if all above are used."""

    first: int
    last: int
    free_from: int

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.first <= number <= self.last

    def candidates(self, choose: Callable[[int], int]) -> Iterator[int]:
        """Yield all numbers once, in order of preference. `choose(n)` returns the start, one of 0 … n-1."""
        for low, high in ((self.free_from, self.last), (self.first, self.free_from - 1)):
            size = high - low + 1
            if size > 0:
                start = choose(size)
                yield from (low + (start + step) % size for step in range(size))


def _numbers(first: int, last: int, size: int, share: tuple[int, int, int]) -> NumberRange:
    part, least, most = share
    kept = 0 if size <= least else min(max(size // part, least), most)
    return NumberRange(first, last, first + kept)


class AddressRange:
    """The addresses of a CIDR for services, without the first one and IPv4's last one."""

    def __init__(self, cidr: str) -> None:
        network = ipaddress.ip_network(cidr)
        self.cidr, self.family, self._make = cidr, f"IPv{network.version}", type(network.network_address)
        self.network_address = str(network.network_address)
        last = int(network.broadcast_address) - (1 if network.version == 4 else 0)
        self.numbers = _numbers(int(network.network_address) + 1, last, network.num_addresses, _ADDRESS_SHARE)

    def __contains__(self, address: object) -> bool:
        parsed = ipaddress.ip_address(str(address))
        return f"IPv{parsed.version}" == self.family and int(parsed) in self.numbers

    def candidates(self, choose: Callable[[int], int]) -> Iterator[str]:
        """Yield the addresses like `NumberRange.candidates`."""
        return (str(self._make(number)) for number in self.numbers.candidates(choose))

    def first(self) -> str:
        """Return the address of the API server's own service."""
        return str(self._make(self.numbers.first))


class PortRange:
    """The node ports from `first` to `last`."""

    def __init__(self, first: int, last: int) -> None:
        self.numbers = _numbers(first, last, last - first + 1, _PORT_SHARE)

    def __str__(self) -> str:
        return f"{self.numbers.first}-{self.numbers.last}"

    def __contains__(self, port: object) -> bool:
        return port in self.numbers
