"""Room for deep recursion, without changing the interpreter's limit for everybody: each thread has a stack of its own,
so a recursion that has used up much of one goes on in a new thread, for which the first one waits.

Expressions may nest 250 deep, of which each level takes several Python frames in every phase. Almost none nest deeper
than what fits; they never leave their thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Thread
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

#: Recursion asks for room at every level of which these bits are zero.
OFTEN: Final = 0b1111
#: Frames that starting a thread may take.
_SPARE: Final = 60


def has_room() -> bool:
    """Whether more than three quarters of the stack are free."""
    try:
        sys._getframe(sys.getrecursionlimit() // 4)
    except ValueError:
        return True
    return False


def continued(function: Callable[..., Result], *args: Any) -> Result:
    """What a function gives, called on an empty stack. Raises what it raises, and RecursionError where there is not
    even room to start.
    """
    try:
        sys._getframe(sys.getrecursionlimit() - _SPARE)
    except ValueError:
        pass
    else:
        raise RecursionError("no room to go on in another thread")
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
