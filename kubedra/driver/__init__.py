"""DRA drivers in Python; see `kubedra.driver.driver`."""

from __future__ import annotations

from kubedra.driver.claims import Claim
from kubedra.driver.driver import Driver
from kubedra.profiles.pools import Pool

__all__ = ["Claim", "Driver", "Pool"]
