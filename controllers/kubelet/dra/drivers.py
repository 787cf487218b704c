"""What a kubelet asks of a DRA driver. Emulated drivers and those behind a gRPC socket fulfil the same protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ClaimId:
    """The claim that a driver is asked about."""

    namespace: str
    uid: str
    name: str


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One device that a driver has prepared for a claim."""

    pool: str
    device: str
    requests: tuple[str, ...] = ()
    """Names of the claim's requests that it serves; none: all of them."""
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A driver's answer for one claim; with an error the devices do not count."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


class DriverCallError(Exception):
    """A call failed as a whole. `code` is the gRPC code's name in Go (`Unavailable`, `DeadlineExceeded`)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {message}")
        self.code, self.message = code, message


class DriverMissingError(LookupError):
    """No driver of that name is registered on the node."""

    def __init__(self, name: str) -> None:
        super().__init__(f"DRA driver {name} is not registered" if name else "DRA driver name is empty")


class Driver(Protocol):
    """One driver on one node. Both calls may come again for claims that are done; both raise DriverCallError."""

    name: str

    async def prepare(self, claims: Sequence[ClaimId]) -> Mapping[str, Prepared]:
        """The answer by claim uid."""
        ...

    async def unprepare(self, claims: Sequence[ClaimId]) -> Mapping[str, str]:
        """The error text by claim uid, empty where all is well."""
        ...


class Drivers(Protocol):
    """The drivers of one node."""

    def get(self, name: str) -> Driver:
        """The driver to call now. Raises DriverMissingError."""
        ...
