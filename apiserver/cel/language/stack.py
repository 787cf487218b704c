"""Continue deep recursion on the stack of a new thread, without changing the interpreter's recursion limit.

Each thread has its own stack. A recursion that has used most of it continues in a new thread, and the first thread
waits. Expressions may nest 250 deep, and each level takes several Python frames in every phase. Almost all expressions
are shallower and never leave their thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Thread
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

#: Recursion checks the stack at levels whose low bits, given by this mask, are zero.
OFTEN: Final = 0b1111
#: Frames reserved for starting a thread.
_SPARE: Final = 60


def has_room() -> bool:
    """Return whether more than three quarters of the stack are free."""
    try:
        sys._getframe(sys.getrecursionlimit() // 4)
    except ValueError:
        return True
    return False


def run_on_new_stack(function: Callable[..., Result], *args: Any) -> Result:
    """Call a function on an empty stack; return its result or raise its exception.

    Raises:
        RecursionError: The stack is too full to start a thread.
    """
    try:
        sys._getframe(sys.getrecursionlimit() - _SPARE)
    except ValueError:
        pass
    else:
        raise RecursionError("no stack left to start another thread")
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(function(*args))
        except BaseException as error:  # noqa: BLE001 - is raised again
            failure.append(error)

    thread = Thread(target=run, name="deep expression", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
