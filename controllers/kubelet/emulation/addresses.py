"""Addresses for nodes (172.18.0.0/16) and pods (10.244.0.0/16), unique while they are in use. Nothing listens on
them.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any
from zlib import crc32

Json = dict[str, Any]


class Pool:
    """Hands out a network's addresses, each to one owner; the lowest free one after the last handed out."""

    def __init__(self, network: str, start: str = "") -> None:
        """`start` is anything: different ones begin at different places."""
        self._hosts = IPv4Network(network)
        self._first = int(self._hosts.network_address)
        self._owner_of: dict[str, str] = {}
        self._address_of: dict[str, str] = {}
        self._next = crc32(start.encode()) % (self._hosts.num_addresses - 2) if start else 1

    def note(self, owner: str, address: str) -> None:
        """An address found in use."""
        self._owner_of[address] = owner
        self._address_of[owner] = address

    def assign(self, owner: str) -> str:
        """The owner's address; the same again for the same owner. RuntimeError when the network is used up."""
        if owner in self._address_of:
            return self._address_of[owner]
        size = self._hosts.num_addresses - 2
        for _ in range(size):
            self._next = self._next % size + 1
            address = ".".join(map(str, (self._first + self._next).to_bytes(4, "big")))
            if address not in self._owner_of:
                self.note(owner, address)
                return address
        raise RuntimeError(f"no free address in {self._hosts}")

    def forget(self, owner: str) -> None:
        address = self._address_of.pop(owner, None)
        if address is not None:
            self._owner_of.pop(address, None)


class PodAddresses:
    """The addresses of one agent's pods, by uid."""

    def __init__(self, start: str = "") -> None:
        self._pool = Pool("10.244.0.0/16", start)

    def note(self, pod: Json) -> None:
        """A pod that was found; one that has ended needs its address no more."""
        status = pod.get("status", {})
        address = status.get("podIP")
        if status.get("phase") in ("Succeeded", "Failed"):
            self.forget(pod)
        elif address and not pod["spec"].get("hostNetwork"):
            self._pool.note(pod["metadata"]["uid"], address)

    def assign(self, pod: Json) -> str:
        return self._pool.assign(pod["metadata"]["uid"])

    def forget(self, pod: Json) -> None:
        self._pool.forget(pod["metadata"]["uid"])
