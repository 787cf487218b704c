"""A client's methods written once, for clients that wait in their thread and for those that wait in an event loop.

A method is a generator: it yields what it wants done (`Call`, `Open`, `Next`, `Close`), gets what came of it, and
returns its result. It does nothing itself, so it does not matter who does it:

    class Client:                                   class AsyncClient:
        get = blocking(Methods.get)                     get = awaiting(Methods.get)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

#: A failing test's report ends in the test: pytest leaves this module's frames out.
__tracebackhide__ = True
Json = dict[str, Any]
P = ParamSpec("P")
R = TypeVar("R")

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request; what comes of it is (status code, text). `timeout` in seconds, where it is not the client's."""

    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    params: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Begin to read a watch; what comes of it is given to `Next` and `Close`. `timeout`: seconds without an event after
    which it has ended.
    """

    path: str
    params: Mapping[str, str]
    timeout: float
    user_agent: str = ""


@dataclass(frozen=True, slots=True)
class Next:
    """The next event of a watch; None where it has ended."""

    watch: Any


@dataclass(frozen=True, slots=True)
class Close:
    """Let go of a watch."""

    watch: Any


Step = Call | Open | Next | Close
Steps = Generator[Step, Any, R]


class Blocking(Protocol):
    """Does a step and returns when it is done."""

    def _do(self, step: Step) -> Any: ...


class Awaiting(Protocol):
    """Does a step while others have their turn."""

    async def _do(self, step: Step) -> Any: ...


def blocking(method: Callable[Concatenate[Any, P], Steps[R]]) -> Callable[Concatenate[Any, P], R]:
    """The method of a class that has `_do`, and the methods of its server in `_methods`."""

    @functools.wraps(method)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return walk(method(self._methods, *args, **kwargs), self)

    _name(run, method)
    return run


def awaiting(method: Callable[Concatenate[Any, P], Steps[R]]) -> Callable[Concatenate[Any, P], Awaitable[R]]:
    """The method of a class that has an asynchronous `_do`, and the methods of its server in `_methods`."""

    @functools.wraps(method)
    async def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await walk_async(method(self._methods, *args, **kwargs), self)

    _name(run, method)
    return run


def walk(steps: Steps[R], by: Blocking) -> R:
    """Do all steps; the result."""
    try:
        step = next(steps)
        while True:
            try:
                came = by._do(step)
            except BaseException as error:  # noqa: BLE001 - it is the method's to handle
                step = steps.throw(error)
            else:
                step = steps.send(came)
    except StopIteration as end:
        result: R = end.value
        return result


async def walk_async(steps: Steps[R], by: Awaiting) -> R:
    """`walk` for an event loop."""
    try:
        step = next(steps)
        while True:
            try:
                came = await by._do(step)
            except BaseException as error:  # noqa: BLE001 - it is the method's to handle
                step = steps.throw(error)
            else:
                step = steps.send(came)
    except StopIteration as end:
        result: R = end.value
        return result


def _name(run: Any, method: Callable[..., Any]) -> None:
    """With the signature that callers see: what a method returns is the result of its steps."""
    signature = inspect.signature(method)
    returned = str(signature.return_annotation).removeprefix("Steps[").removesuffix("]")
    run.__signature__ = signature.replace(return_annotation=returned)
