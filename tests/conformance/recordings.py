"""Where recordings of a real kube-apiserver are. They are not part of this repository.

The folder is named by the environment variable KUBEDRA_CONFORMANCE, or is `shared/conformance` beside the repository or
beside a folder that it is in. It holds conversations (dra/, machinery/), the users they speak as (tokens.csv), a tool
that replays them on its own (replay.py) and test vectors (vectors/*.jsonl).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.conformance.conversation import Conversation, load
from tests.support.wire import ROOT

VARIABLE: Final = "KUBEDRA_CONFORMANCE"
#: Says why tests that need the folder are skipped.
MISSING: Final = f"no recordings: {VARIABLE} names no folder and there is no shared/conformance beside the repository"


def folder() -> Path | None:
    """Return the folder, or None. Raise NotADirectoryError if the variable names something else."""
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_dir():
            raise NotADirectoryError(f"{VARIABLE}={named} is no folder")
        return Path(named)
    found = (parent / "shared" / "conformance" for parent in ROOT.parents)
    return next((place for place in found if place.is_dir()), None)


def conversations() -> list[Conversation]:
    """All that were recorded; none without the folder."""
    place = folder()
    return [] if place is None else [*load(place, "dra"), *load(place, "machinery")]
