"""Kinds of plans: a constant, an attribute that may get further selections, or a closure."""

from __future__ import annotations

from typing import Any

from apiserver.cel.evaluation.attributes import Attribute, Code, Frame
from apiserver.cel.language.stack import has_room, run_on_new_stack
from apiserver.cel.language.values import CelError, CostExceeded


class Constant:
    """A value known during planning."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


Plan = Constant | Attribute | Code


def code_of(plan: Plan) -> Code:
    """Return the closure of any plan."""
    if isinstance(plan, Constant):
        value = plan.value
        return lambda _frame: value
    return plan.code() if isinstance(plan, Attribute) else plan


class Choice(Attribute):
    """`?:`: further selections apply to the branch taken, and the choice itself costs nothing."""

    __slots__ = ()

    def code(self, *, as_branch: bool = False) -> Code:
        """Return the closure."""
        if not self.steps:
            return self.base
        follow = Attribute(self.base)
        for step in self.steps:
            follow.add(step)
        return follow.code(as_branch=True)


def with_stack_check(code: Code) -> Code:
    """Run deep code on a new stack if the current one is nearly used up."""
    return lambda frame: code(frame) if has_room() else run_on_new_stack(code, frame)


def precompute(call: Code) -> Code:
    """Evaluate a call whose result never changes, and return its result and cost as a closure."""
    frame: Frame = [0, 0, None]
    try:
        value = call(frame)
    except (CelError, CostExceeded):
        return call
    cost = frame[0]

    def known(frame: Frame) -> Any:
        frame[0] += cost
        return value

    return known


def variable(slot: int) -> Attribute:
    """Return the variable in a slot of the frame, to which selections may be added."""
    return Attribute(lambda frame: frame[slot], slot)
