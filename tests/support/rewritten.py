"""Bytecode of tests with rewritten assertions, written before their import.

Otherwise each worker would rewrite all files. pytest has no public name for it. If its internals change, each worker
rewrites for itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite


def write(config: pytest.Config, files: Iterable[Path]) -> None:
    """Rewrite changed files."""
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
