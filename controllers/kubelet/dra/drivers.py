"""The calls from a kubelet to a DRA driver, the same for emulated drivers and for drivers behind a gRPC socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ClaimId:
    """The identity of a claim in a call to a driver."""

    namespace: str
    uid: str
    name: str


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One device prepared by a driver for a claim."""

    pool: str
    device: str
    requests: tuple[str, ...] = ()
    """Names of the claim's requests served by the device; empty means all."""
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A driver's response for one claim. With an error the devices are ignored."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


class DriverCallError(Exception):
    """A failed call. `code` is the gRPC code's name in Go (`Unavailable`, `DeadlineExceeded`)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {message}")
        self.code, self.message = code, message


class DriverMissingError(LookupError):
    """No driver with this name is registered on the node."""

    def __init__(self, name: str) -> None:
        super().__init__(f"DRA driver {name} is not registered" if name else "DRA driver name is empty")


class Driver(Protocol):
    """One driver on one node. Both calls must be idempotent and raise DriverCallError."""

    name: str

    async def prepare(self, claims: Sequence[ClaimId]) -> Mapping[str, PreparedClaim]:
        """Return the response by claim uid."""
        ...

    async def unprepare(self, claims: Sequence[ClaimId]) -> Mapping[str, str]:
        """Return the error text by claim uid; empty on success."""
        ...


class Drivers(Protocol):
    """The drivers of one node."""

    def get(self, name: str) -> Driver:
        """Return the driver to call now. Raise DriverMissingError."""
        ...
