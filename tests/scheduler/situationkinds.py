"""All kinds of generated situations."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.scheduler.rulesituations import contested, rules_and_limits
from tests.scheduler.situations import (
    Situation,
    devices_and_resources,
    neighbours,
    priorities_and_budgets,
    spread_by_default,
)
from tests.scheduler.volumesituations import volumes_and_claims

KINDS: tuple[Callable[[random.Random], Situation], ...] = (
    devices_and_resources,
    priorities_and_budgets,
    spread_by_default,
    neighbours,
    volumes_and_claims,
    rules_and_limits,
    contested,
)
