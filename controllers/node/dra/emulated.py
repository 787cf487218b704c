"""Drivers that are not there: on a node without a plugin directory every driver prepares whatever it is asked to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controllers.node.dra.drivers import ClaimId, Prepared


class EmulatedDriver:
    """Prepares every claim, with no devices of its own to name."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def prepare(self, claims: Sequence[ClaimId]) -> Mapping[str, Prepared]:
        return {claim.uid: Prepared() for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimId]) -> Mapping[str, str]:
        return {claim.uid: "" for claim in claims}


class EmulatedDrivers:
    """Every driver that is asked for."""

    def get(self, name: str) -> EmulatedDriver:
        return EmulatedDriver(name)
