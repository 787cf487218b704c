"""Bytecode is written by each run of the suite, also where the environment forbids it.

Most images set PYTHONDONTWRITEBYTECODE. Without bytecode each worker rewrites the assertions of Hypothesis, and each
started process compiles the packages that it imports, which takes most of its start. Import this module first.
"""

from __future__ import annotations

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
