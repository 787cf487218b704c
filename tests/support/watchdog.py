"""A test's time limit in fair seconds, so that a loaded machine ends no running test.

It is pytest-timeout with another clock: its options, its markers and its report of all threads.
"""

from __future__ import annotations

import os
import signal
import threading

import pytest
import pytest_timeout

from tests.support.patience import CLOCK


def watch(item: pytest.Item, settings: pytest_timeout.Settings) -> bool:
    """Fail the test when its time is over; for the hook pytest_timeout_set_timer."""
    if threading.current_thread() is not threading.main_thread():  # pragma: no cover - no runner here does that
        return False

    def ring(*_: object) -> None:
        pytest_timeout.timeout_sigalrm(item, settings)

    before = signal.signal(signal.SIGALRM, ring)
    off = CLOCK.alarm(settings.timeout, lambda: os.kill(os.getpid(), signal.SIGALRM))

    def cancel() -> None:
        off()
        signal.signal(signal.SIGALRM, before)

    item.cancel_timeout = cancel  # type: ignore[attr-defined]
    return True
