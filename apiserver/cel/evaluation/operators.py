"""Plan the operators that the planner evaluates itself: logic, equality with literals, map and message literals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.cel.cost.estimate import MAP_COST, STRUCT_COST
from apiserver.cel.evaluation.attributes import Code, Frame
from apiserver.cel.evaluation.calls import Charge, Invoke
from apiserver.cel.language.messages import Message
from apiserver.cel.language.values import ABSENT, CelError, Optional, Uint, equal, no_such_overload, type_name


def not_equal(left: Any, right: Any) -> bool:
    """Evaluate `!=`. Values of incomparable types are different, without an error."""
    try:
        return not equal(left, right)
    except CelError:
        return True


def logical(left: Code, right: Code, decisive: bool) -> Callable[[Frame], bool]:
    """Plan `||` (decided by true) or `&&` (decided by false). The other side may absorb an error."""

    def after_error(frame: Frame, error: CelError) -> bool:
        try:
            if right(frame) is decisive:
                return bool(decisive)
        except CelError:
            pass
        raise error

    def decide(frame: Frame) -> bool:
        try:
            value = left(frame)
        except CelError as error:
            return after_error(frame, error)
        if value is decisive:
            return bool(decisive)
        if value is not (not decisive):
            return after_error(frame, no_such_overload())
        value = right(frame)
        if value is True:
            return True
        if value is False:
            return False
        raise no_such_overload()

    return decide


def or_value(left: Code, right: Code, unwrap: bool) -> Code:
    """Plan `or` and `orValue`. They cost nothing and evaluate the alternative only if it is needed."""

    def choose(frame: Frame) -> Any:
        value = left(frame)
        if value.__class__ is not Optional:
            return value
        if value.value is ABSENT:
            return right(frame)
        return value.value if unwrap else value

    return choose


def map_builder(entries: list[tuple[Code, Code, bool]]) -> Code:
    """Plan a map literal of entries: key, value, and whether the entry is optional (`?key: value`).

    The last of several entries of a key counts. The evaluation raises CelError for a key that is not a string, number
    or bool.
    """

    def build(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        try:
            for key_code, value_code, optional in entries:
                key, value = key_code(frame), value_code(frame)
                if key.__class__ not in (str, int, bool, Uint, float):
                    raise CelError(f"unsupported key type: {type_name(key)}")
                if optional:
                    if value.__class__ is not Optional:
                        raise CelError(f"cannot initialize optional entry '{key}' from non-optional value {value}")
                    if value.value is ABSENT:
                        result.pop(key, None)
                        continue
                    value = value.value
                result[key] = value
        finally:
            frame[0] += MAP_COST
        return result

    return build


CEILINGS: Final = tuple(-(-count // 10) for count in range(1024))


def equal_to_text(left: Code, text: str, negated: bool, charge: Charge) -> Code:
    """Plan a comparison with a short literal; its cost is read from a table."""
    length = len(text)
    whole = CEILINGS[length]
    compare: Invoke = not_equal if negated else equal

    def comparison(frame: Frame) -> bool:
        try:
            value = left(frame)
        except CelError:
            charge(frame, (None, text), None)
            raise
        if value.__class__ is str:
            frame[0] += whole if len(value) >= length else CEILINGS[len(value)]
            return (value == text) is not negated
        charge(frame, (value, text), None)
        return bool(compare(value, text))

    return comparison


def equal_to_scalar(left: Code, constant: int | bool, negated: bool, charge: Charge) -> Code:
    """Plan a comparison with an integer or a boolean literal."""
    kind = constant.__class__
    compare: Invoke = not_equal if negated else equal

    def comparison(frame: Frame) -> bool:
        try:
            value = left(frame)
        except CelError:
            charge(frame, (None, constant), None)
            raise
        if value.__class__ is kind:
            frame[0] += 1
            return (value == constant) is not negated
        charge(frame, (value, constant), None)
        return bool(compare(value, constant))

    return comparison


def record_builder(message: Message, entries: list[tuple[str, Code, bool]]) -> Code:
    """Plan a message literal of entries: field, value, and whether the field is optional (`?field: value`)."""

    def build(frame: Frame) -> Any:
        fields: dict[str, Any] = {}
        try:
            for name, code, optional in entries:
                value = code(frame)
                if optional:
                    if value.__class__ is not Optional:
                        raise CelError(f"cannot initialize optional entry '{name}' from non-optional value {value}")
                    if value.value is ABSENT:
                        continue
                    value = value.value
                fields[name] = value
            return message.make(fields)
        finally:
            frame[0] += STRUCT_COST

    return build
