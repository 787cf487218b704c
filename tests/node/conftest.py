"""Tests here may be coroutines: each runs on a loop of its own."""

from __future__ import annotations

import asyncio
import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine function; leaves the others to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    names = inspect.signature(pyfuncitem.function).parameters
    asyncio.run(pyfuncitem.function(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
