"""The end of this process at an armed point of claim handling."""

from __future__ import annotations

import os
import signal


class CrashPoints:
    """Kills this process when claim handling reaches the armed point; "" for none."""

    def __init__(self, armed: str = "") -> None:
        self.armed = armed

    def reach(self, point: str) -> None:
        """Kill the process without a shutdown if this point is armed."""
        if point == self.armed:
            os.kill(os.getpid(), signal.SIGKILL)
