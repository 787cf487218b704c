"""The points of claim handling at which a kubelet can be killed, for tests of drivers."""

from __future__ import annotations

from typing import Final, Literal, get_args

CrashPoint = Literal[
    "before-prepare", "prepared", "before-checkpoint", "checkpointed", "before-unprepare", "unprepared", "released"
]
#: In the order in which the claims of one pod reach them.
POINTS: Final[tuple[CrashPoint, ...]] = get_args(CrashPoint)
