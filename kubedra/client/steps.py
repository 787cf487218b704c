"""A client's methods written once, for blocking and for asynchronous clients.

A method is a generator. It yields steps (`Call`, `OpenWatch`, `NextEvent`, `CloseWatch`, `Pause`), receives their
results, and returns its own result. It does no I/O itself, so any client can run it:

    class Client:                                   class AsyncClient:
        get = as_blocking(Methods.get)                  get = as_async(Methods.get)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

#: pytest hides this module's frames in the reports of failing tests.
__tracebackhide__ = True
P = ParamSpec("P")
R = TypeVar("R")

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. Its result is (status code, text). `timeout` in seconds overrides the client's.

    `content` is a body of bytes instead of the JSON `body`. With `raw` the result has bytes instead of text.
    """

    method: str
    path: str
    body: Any = None
    content: bytes | None = None
    raw: bool = False
    content_type: str = JSON
    accept: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWatch:
    """Open a watch. Its result is the argument of `NextEvent` and `CloseWatch`.

    `timeout`: seconds without an event after which the watch ends.
    """

    path: str
    params: Mapping[str, str]
    timeout: float
    user_agent: str = ""


@dataclass(frozen=True, slots=True)
class NextEvent:
    """Read the next event of a watch. Its result is None if the watch has ended."""

    watch: Any


@dataclass(frozen=True, slots=True)
class CloseWatch:
    """Close a watch."""

    watch: Any


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for this many seconds of real time."""

    seconds: float


Step = Call | OpenWatch | NextEvent | CloseWatch | Pause
Steps = Generator[Step, Any, R]


class StepRunner(Protocol):
    """A client that runs a step and blocks until it is done."""

    def _do(self, step: Step) -> Any: ...


class AsyncStepRunner(Protocol):
    """A client that runs a step in an event loop."""

    async def _do(self, step: Step) -> Any: ...


def as_blocking(method: Callable[Concatenate[Any, P], Steps[R]]) -> Callable[Concatenate[Any, P], R]:
    """Return a method for a class with `_do`, which runs the method of the same name of `_methods`."""

    @functools.wraps(method)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return walk(method(self._methods, *args, **kwargs), self)

    _set_signature(run, method)
    return run


def as_async(method: Callable[Concatenate[Any, P], Steps[R]]) -> Callable[Concatenate[Any, P], Awaitable[R]]:
    """Return a coroutine method for a class with an asynchronous `_do`; see `as_blocking`."""

    @functools.wraps(method)
    async def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await walk_async(method(self._methods, *args, **kwargs), self)

    _set_signature(run, method)
    return run


def walk(steps: Steps[R], by: StepRunner) -> R:
    """Run all steps. Return the result."""
    try:
        step = next(steps)
        while True:
            try:
                result_of_step = by._do(step)
            except BaseException as error:  # noqa: BLE001 - the method may handle any error
                step = steps.throw(error)
            else:
                step = steps.send(result_of_step)
    except StopIteration as end:
        result: R = end.value
        return result


async def walk_async(steps: Steps[R], by: AsyncStepRunner) -> R:
    """`walk` for an event loop."""
    try:
        step = next(steps)
        while True:
            try:
                result_of_step = await by._do(step)
            except BaseException as error:  # noqa: BLE001 - the method may handle any error
                step = steps.throw(error)
            else:
                step = steps.send(result_of_step)
    except StopIteration as end:
        result: R = end.value
        return result


def _set_signature(run: Any, method: Callable[..., Any]) -> None:
    """Set the signature that callers see: the return type is the result of the steps."""
    signature = inspect.signature(method)
    returned = str(signature.return_annotation).removeprefix("Steps[").removesuffix("]")
    run.__signature__ = signature.replace(return_annotation=returned)
