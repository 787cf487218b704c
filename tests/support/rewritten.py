"""Bytecode of tests, with their assertions rewritten, before they are imported: of workers that collect the same files
at the same time each would rewrite all of them.

pytest has no public name for it. Where what it has is another, each worker rewrites for itself, as without this.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite


def write(config: pytest.Config, files: Iterable[Path]) -> None:
    """Rewrites those of some files that have changed since they were."""
    pytest_s: Any = rewrite
    with contextlib.suppress(AttributeError, LookupError, OSError, SyntaxError, TypeError, ValueError):
        state = config.stash[pytest_s.assertstate_key]
        for file in files:
            directory = pytest_s.get_cache_dir(file)
            directory.mkdir(exist_ok=True)
            made = directory / (file.name.removesuffix(".py") + pytest_s.PYC_TAIL)
            if pytest_s._read_pyc(file, made) is None:
                source, code = pytest_s._rewrite_test(file, config)
                pytest_s._write_pyc(state, code, source, made)
