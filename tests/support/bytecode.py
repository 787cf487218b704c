"""Bytecode that a run of the suite has written the next one only reads, also where the environment forbids it
(PYTHONDONTWRITEBYTECODE, as in most images): without it each worker rewrites the assertions of Hypothesis, and each
process that is started compiles the packages that it imports, which takes most of its start.

To be imported before what is to be written.
"""

from __future__ import annotations

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
