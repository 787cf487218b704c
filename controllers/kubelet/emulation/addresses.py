"""Unique addresses for nodes (172.18.0.0/16) and pods (10.244.0.0/16). They are not routable."""

from __future__ import annotations

from ipaddress import IPv4Network
from zlib import crc32

from apiserver.api.objects import Json


class Pool:
    """The addresses of a network, each assigned to one owner: the next free one after the last assigned."""

    def __init__(self, network: str, start: str = "") -> None:
        """Create a pool. Different values of `start` begin at different addresses."""
        self._hosts = IPv4Network(network)
        self._first = int(self._hosts.network_address)
        self._owner_of: dict[str, str] = {}
        self._address_of: dict[str, str] = {}
        self._next = crc32(start.encode()) % (self._hosts.num_addresses - 2) if start else 1

    def record(self, owner: str, address: str) -> None:
        """Record an address that is already in use."""
        self._owner_of[address] = owner
        self._address_of[owner] = address

    def assign(self, owner: str) -> str:
        """Return the owner's address, always the same. Raise RuntimeError if the network is exhausted."""
        if owner in self._address_of:
            return self._address_of[owner]
        size = self._hosts.num_addresses - 2
        for _ in range(size):
            self._next = self._next % size + 1
            address = ".".join(map(str, (self._first + self._next).to_bytes(4, "big")))
            if address not in self._owner_of:
                self.record(owner, address)
                return address
        raise RuntimeError(f"no free address in {self._hosts}")

    def remove(self, owner: str) -> None:
        address = self._address_of.pop(owner, None)
        if address is not None:
            self._owner_of.pop(address, None)


class PodAddresses:
    """The addresses of one agent's pods, by uid."""

    def __init__(self, start: str = "") -> None:
        self._pool = Pool("10.244.0.0/16", start)

    def record(self, pod: Json) -> None:
        """Record a pod's address, or free it if the pod has ended."""
        status = pod.get("status", {})
        address = status.get("podIP")
        if status.get("phase") in ("Succeeded", "Failed"):
            self.remove(pod)
        elif address and not pod["spec"].get("hostNetwork"):
            self._pool.record(pod["metadata"]["uid"], address)

    def assign(self, pod: Json) -> str:
        return self._pool.assign(pod["metadata"]["uid"])

    def remove(self, pod: Json) -> None:
        self._pool.remove(pod["metadata"]["uid"])
