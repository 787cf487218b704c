"""What the planner makes of a node: a value that is known now, an attribute that may still get selections, or a
closure.
"""

from __future__ import annotations

from typing import Any

from apiserver.cel.evaluation.attributes import Attribute, Code, Frame
from apiserver.cel.language.stack import continued, has_room
from apiserver.cel.language.values import CelError, CostExceeded


class Constant:
    """A value that is known now."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


Plan = Constant | Attribute | Code


def code_of(plan: Plan) -> Code:
    """The closure of any plan."""
    if isinstance(plan, Constant):
        value = plan.value
        return lambda _frame: value
    return plan.code() if isinstance(plan, Attribute) else plan


class Choice(Attribute):
    """`?:`: further selections apply to whichever branch is taken, and the choice itself costs nothing."""

    __slots__ = ()

    def code(self, *, as_branch: bool = False) -> Code:
        """The evaluation."""
        if not self.steps:
            return self.base
        follow = Attribute(self.base)
        for step in self.steps:
            follow.add(step)
        return follow.code(as_branch=True)


def with_room(code: Code) -> Code:
    """The same, on a stack of its own where the present one is used up: deep within an expression."""
    return lambda frame: code(frame) if has_room() else continued(code, frame)


def prepared(call: Code) -> Code:
    """A call whose result never changes."""
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
    """The variable in a slot of the frame, to which selections may be added."""
    return Attribute(lambda frame: frame[slot], slot)
