"""Rules that do not wait, about facts that somebody else has to be asked for: a webhook, an issuer of tokens, a thread.

    def rule():                              a plain function, deep inside of whatever
        answer = settled(key, ask)           what `ask` gave in this request; the first time it ends the rule
    await settle(rule)                       asks for what the rule wants, and takes it again until it wants no more
    await settle_alone(step)                 the same for a part of a request before which something was stored

Authenticators, authorizers and expressions are asked in the middle of everything, by functions. Were they coroutines,
every rule would be one, for the few servers that ask others. So a request whose rule lacks a fact is given up, the fact
is got, and the request is answered again from its beginning; nothing of it has been stored by then. Requests that store
several things, one after the other, settle what each of them lacks by itself. See docs/adr/0029-facts-from-outside.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from typing import Any, Final, TypeVar

__all__ = ["Unsettled", "settle", "settle_again", "settle_alone", "settled"]

T = TypeVar("T")
Ask = Callable[[], Awaitable[Any]]


class Unsettled(BaseException):
    """A fact is not known yet. No Exception: nobody on the way may take it for a failure."""

    def __init__(self, key: Hashable, ask: Ask) -> None:
        super().__init__(key)
        self.key, self.ask = key, ask


#: What was found out for the request in hand. It holds for it, however short others may keep it.
_FOUND: Final[ContextVar[dict[Hashable, Any] | None]] = ContextVar("found", default=None)


def settled(key: Hashable, ask: Ask) -> Any:
    """The answer to `ask`, which the key stands for. Raises Unsettled where it was not asked in this request yet."""
    found = _FOUND.get()
    if found is None or key not in found:
        raise Unsettled(key, ask)
    return found[key]


async def settle(step: Callable[[], T]) -> T:
    """What a function gives, once all that it wants to know is known."""
    try:
        return step()
    except Unsettled as lacking:

        async def again() -> T:
            return step()

        return await settle_again(lacking, again)


async def settle_alone(step: Callable[[], Awaitable[T]]) -> T:
    """What a step gives that is not to be taken again with all that went before it in its request."""
    try:
        return await step()
    except Unsettled as lacking:
        return await settle_again(lacking, step)


async def settle_again(lacking: Unsettled, step: Callable[[], Awaitable[T]]) -> T:
    """What a step gives that has ended for the lack of a fact."""
    known = _FOUND.get()
    found: dict[Hashable, Any] = {} if known is None else known
    token = _FOUND.set(found) if known is None else None
    try:
        while True:
            found[lacking.key] = await lacking.ask()
            try:
                return await step()
            except Unsettled as error:
                lacking = error
    finally:
        if token is not None:
            _FOUND.reset(token)
