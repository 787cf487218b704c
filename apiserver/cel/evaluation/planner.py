"""Plan a checked tree as nested Python closures that count the cost of their evaluation.

Every closure takes the frame of one evaluation and returns a value or raises CelError. Costs are added after a node is
evaluated, even if it failed: `f(error)` is charged for `f`, because errors are values that `||` may absorb. Constants
are computed during planning; if that fails there is no program (`PlanError`).

The limit is checked immediately by operations whose cost depends on their data, and after every iteration of a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, Final

from apiserver.cel.cost.charges import actual_cost, charge_equality
from apiserver.cel.cost.estimate import LIST_COST
from apiserver.cel.evaluation.attributes import (
    Attribute,
    Code,
    ComputedStep,
    Frame,
    PresenceStep,
    Step,
    conditional,
)  # fmt: skip
from apiserver.cel.evaluation.calls import (
    Charge,
    Invoke,
    binary,
    choose_implementation,
    in_constant_list,
    many,
    not_strictly_false,
    nullary,
    unary,
)  # fmt: skip
from apiserver.cel.evaluation.comprehensions import UNSET, Slots, accumulator, binding, fold, quantifier
from apiserver.cel.evaluation.operators import (
    CEILINGS,
    equal_to_scalar,
    equal_to_text,
    logical,
    map_builder,
    not_equal,
    or_value,
    record_builder,
)
from apiserver.cel.evaluation.plans import Choice, Constant, Plan, code_of, precompute, variable, with_stack_check
from apiserver.cel.language.ast import (
    Call,
    Comprehension,
    Copy,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    StructNode,
)
from apiserver.cel.language.declarations import Function
from apiserver.cel.language.stack import OFTEN, has_room, run_on_new_stack
from apiserver.cel.language.time_limit import passed_limit
from apiserver.cel.language.values import (
    ABSENT,
    CelError,
    Optional,
    Uint,
    equal,
    no_such_overload,
)  # fmt: skip
from apiserver.cel.regex.regex import compile_pattern
from apiserver.cel.syntax.macros import ACCUMULATOR

_CONVERSIONS: Final = frozenset(
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"]
)
#: Functions that may return one of their arguments or its element.
_PASS_THROUGH: Final = frozenset(["_[_]", "_?_:_", "orValue", "value", "min", "max"])
# Their results for literals are computed once, and still charged every time.
_PARSERS: Final = frozenset(
    ["quantity", "isQuantity", "semver", "isSemver", "ip", "isIP", "cidr", "isCIDR", "url", "isURL"]
)


class PlanError(Exception):
    """The expression can never be evaluated; the text is the reason."""


class Planner:
    """One plan of one tree. `slots` maps variables to slots; locals get further ones."""

    __slots__ = ("_codes", "_functions", "_level", "_limit", "_locals", "_slots", "width")

    def __init__(self, functions: Mapping[str, Function], slots: Mapping[str, int], limit: int) -> None:
        self._functions, self._slots, self._limit = functions, slots, limit
        self._locals: dict[str, list[Callable[[], Attribute]]] = {}
        self._codes: dict[int, Plan] = {}
        self._level = 0
        self.width = 1 + len(slots)

    def plan(self, node: Node) -> Plan:
        """Return the plan of a node."""
        level = self._level = self._level + 1
        if level & OFTEN:
            plan = self._plan(node)
        else:
            plan = self._plan(node) if has_room() else run_on_new_stack(self._plan, node)
            if not isinstance(plan, Constant | Attribute):
                plan = with_stack_check(plan)
        self._level = level - 1
        return plan

    def _plan(self, node: Node) -> Plan:
        match node:
            case Literal():
                return Constant(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case StructNode():
                return self._struct(node)
            case Comprehension():
                return self._comprehension(node)
            case Copy():
                return self._codes[id(node.original)]
        raise PlanError(f"unsupported expression: {node.__class__.__name__}")

    def _code(self, node: Node) -> Code:
        return code_of(self.plan(node))

    def _ident(self, node: Ident) -> Plan:
        if node.constant is not None:
            return Constant(node.constant)
        local = self._locals.get(node.name)
        if local:
            return local[-1]()
        return variable(self._slots[node.name])

    def _attribute(self, plan: Plan) -> Attribute:
        return plan if isinstance(plan, Attribute) else Attribute(code_of(plan))

    def _select(self, node: Select) -> Plan:
        if node.constant is not None:
            return Constant(node.constant)
        if node.variable:
            return variable(self._slots[node.variable])
        attribute = self._attribute(self.plan(node.operand))
        attribute.add(PresenceStep(node.name) if node.test else Step(node.name))
        return attribute

    def _index(self, node: Call, *, optional: bool) -> Plan:
        attribute = self._attribute(self.plan(node.args[0]))
        key = self.plan(node.args[1])
        if isinstance(key, Constant) and key.value.__class__ in (str, int, bool, float, Uint):
            attribute.add(Step(key.value, optional=optional))
        else:
            resolve = key.code(as_branch=True) if isinstance(key, Attribute) else code_of(key)
            if self._level > OFTEN:
                resolve = with_stack_check(resolve)
            attribute.add(ComputedStep(resolve, optional=optional))
        return attribute

    def _call(self, node: Call) -> Plan:
        match node.function:
            case "_&&_" | "_||_":
                return logical(self._code(node.args[0]), self._code(node.args[1]), node.function == "_||_")
            case "_?_:_":
                return self._conditional(node)
            case "_==_" | "_!=_":
                return self._equality(node)
            case "_[_]":
                return self._index(node, optional=False)
            case "_?._" | "_[?_]":
                return self._index(node, optional=True)
            case "@not_strictly_false":
                return not_strictly_false(self._code(node.args[0]))
            case "or" | "orValue" if node.target is not None and node.overloads[0].startswith("optional_or"):
                return or_value(self._code(node.target), self._code(node.args[0]), node.function == "orValue")
        return self._function(node)

    def _conditional(self, node: Call) -> Plan:
        condition = self._code(node.args[0])
        branches = []
        for arg in node.args[1:]:
            plan = self.plan(arg)
            branches.append(plan.code(as_branch=True) if isinstance(plan, Attribute) else code_of(plan))
        return Choice(conditional(condition, *branches))

    def _equality(self, node: Call) -> Plan:
        left, right = self.plan(node.args[0]), self.plan(node.args[1])
        negated = node.function == "_!=_"
        checked = self._limit_charge(lambda args, _result: charge_equality(*args))
        constant = right.value if isinstance(right, Constant) else ABSENT
        if constant.__class__ is str and len(constant) < len(CEILINGS):
            return equal_to_text(code_of(left), constant, negated, checked)
        if constant.__class__ in (int, bool):
            return equal_to_scalar(code_of(left), constant, negated, checked)
        return binary(code_of(left), code_of(right), not_equal if negated else equal, checked)

    def _function(self, node: Call) -> Plan:
        declared = self._functions[node.function]
        nodes = node.args if node.target is None else [node.target, *node.args]
        plans = [self.plan(arg) for arg in nodes]
        if node.target is not None and not isinstance(plans[0], Constant):
            # A copy of the target reuses its code.
            plans[0] = self._codes[id(node.target)] = code_of(plans[0])
        elif node.target is not None:
            self._codes[id(node.target)] = plans[0]
        overload = node.overloads[0] if len(node.overloads) == 1 else ""
        if overload == "in_list" and isinstance(plans[1], Constant):
            planned = in_constant_list(code_of(plans[0]), plans[1].value)
            if planned is not None:
                return Constant(False) if plans[1].value == [] else planned
        compiled = _with_pattern(node.function, plans)
        invoke = compiled or choose_implementation(
            declared, overload, [arg.type for arg in nodes], [_may_be_null(arg) for arg in nodes]
        )
        if node.function in _CONVERSIONS and len(plans) == 1 and isinstance(plans[0], Constant):
            try:
                return Constant(invoke(plans[0].value))
            except CelError as error:
                raise PlanError(str(error)) from None
        rule = actual_cost(node.function, overload)
        charge = None if rule is None else self._limit_charge(rule)
        codes = [code_of(plan) for plan in plans]
        if not codes:
            return nullary(invoke)
        if len(codes) == 1:
            call = unary(codes[0], invoke, charge)
        elif len(codes) == 2 and compiled is None and not _stops_early(declared, overload):
            call = binary(codes[0], codes[1], invoke, charge)
        else:
            call = many(tuple(codes), invoke, charge)
        if node.function in _PARSERS and all(isinstance(plan, Constant) for plan in plans):
            return precompute(call)
        return call

    def _limit_charge(self, rule: Callable[[Any, Any], int]) -> Charge:
        """Return a charge that depends on data and stops the evaluation at the limit."""
        limit = self._limit

        def charge(frame: Frame, args: Any, result: Any) -> None:
            frame[0] += rule(args, result)
            if frame[0] > limit:
                passed_limit(frame, limit)

        return charge

    def _list(self, node: ListNode) -> Plan:
        plans = [self.plan(element) for element in node.elements]
        if not node.optional and all(isinstance(plan, Constant) for plan in plans):
            return Constant([plan.value for plan in plans if isinstance(plan, Constant)])
        codes = tuple(map(code_of, plans))
        optional = node.optional

        def build(frame: Frame) -> list[Any]:
            items: list[Any] = []
            try:
                for index, code in enumerate(codes):
                    value = code(frame)
                    if index in optional:
                        if value.__class__ is not Optional:
                            raise CelError(f"cannot initialize optional list element from non-optional value {value}")
                        if value.value is ABSENT:
                            continue
                        value = value.value
                    items.append(value)
            finally:
                frame[0] += LIST_COST
            return items

        return build

    def _map(self, node: MapNode) -> Plan:
        entries = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in node.entries]
        build = map_builder([(code_of(key), code_of(value), optional) for key, value, optional in entries])
        fixed = [
            (tuple(key.value) if isinstance(key.value, list) else key.value, value.value)
            for key, value, optional in entries
            if isinstance(key, Constant) and isinstance(value, Constant) and not optional
        ]
        # The keys of a constant map literal may be of any type.
        if len(fixed) == len(entries) and all(isinstance(key, Hashable) for key, _ in fixed):
            return Constant(dict(fixed))
        return build

    def _struct(self, node: StructNode) -> Plan:
        if node.message is None:
            raise PlanError(f"unknown type: {node.name}")
        return record_builder(
            node.message, [(entry.key, self._code(entry.value), entry.optional) for entry in node.entries]
        )

    def _bind(self, name: str, make: Callable[[], Attribute]) -> None:
        self._locals.setdefault(name, []).append(make)

    def _slot(self) -> int:
        self.width += 1
        return self.width - 1

    def _comprehension(self, node: Comprehension) -> Plan:
        source = self._code(node.iter_range)
        init = self.plan(node.accu_init)
        start = init.value if isinstance(init, Constant) else UNSET
        accu = self._slot()
        read = accumulator(accu, code_of(init))
        self._bind(node.accu_var, lambda: Attribute(read))
        if node.is_binding:
            result = self._code(node.result)
            self._unbind(node.accu_var)
            return binding(source, accu, start, result, self._limit)
        slots = Slots(accu, self._slot(), self._slot() if node.iter_var2 else 0)
        for name, slot in ((node.iter_var, slots.first), (node.iter_var2, slots.second)):
            if name:
                self._bind(name, partial(variable, slot))
        predicate = _predicate(node)
        if predicate is not None:
            body = self._code(predicate)
            self._unbind(node.iter_var, node.iter_var2, node.accu_var)
            return quantifier(source, slots, body, start is False, self._limit)
        always = isinstance(node.condition, Literal) and node.condition.value is True
        condition = None if always else self._code(node.condition)
        step = self._growing_step(node.step) if start == [] else self._code(node.step)
        self._unbind(node.iter_var, node.iter_var2)
        result = self._code(node.result)
        self._unbind(node.accu_var)
        return fold(source, slots, start, condition, step, result, self._limit)

    def _unbind(self, *names: str) -> None:
        for name in names:
            if name:
                self._locals[name].pop()

    def _growing_step(self, node: Node) -> Code:
        """Plan a step that appends to the list being built, which no other closure can read yet."""
        if isinstance(node, Call) and node.function == "_?_:_":
            condition = self._code(node.args[0])
            then = self._growing_step(node.args[1])
            otherwise = self.plan(node.args[2])
            assert isinstance(otherwise, Attribute)
            return Choice(conditional(condition, then, otherwise.code(as_branch=True))).code()
        if not (isinstance(node, Call) and node.function == "_+_" and isinstance(node.args[0], Ident)):
            return self._code(node)
        return binary(self._code(node.args[0]), self._code(node.args[1]), _extend, None)


def _may_be_null(node: Node) -> bool:
    """Return whether a value may be null although its type excludes it.

    Nullable fields, and elements of lists or maps of such, may be null; results of functions are not.
    """
    return not isinstance(node, Literal | ListNode | MapNode | StructNode) and (
        not isinstance(node, Call) or node.function in _PASS_THROUGH
    )


def _predicate(node: Comprehension) -> Node | None:
    """Return the predicate of a comprehension that is `all` or `exists`."""
    step = node.step
    if (
        isinstance(step, Call)
        and step.function in ("_&&_", "_||_")
        and isinstance(step.args[0], Ident)
        and step.args[0].name == node.accu_var == ACCUMULATOR
        and isinstance(node.accu_init, Literal)
        and isinstance(node.condition, Call)
        and node.condition.function == "@not_strictly_false"
    ):
        return step.args[1]
    return None


def _extend(items: list[Any], more: list[Any]) -> list[Any]:
    items.extend(more)
    return items


def _with_pattern(function: str, plans: list[Plan]) -> Invoke | None:
    """Return an implementation whose constant regular expression is compiled during planning."""
    if function not in ("matches", "find", "findAll") or len(plans) < 2 or not isinstance(plans[1], Constant):
        return None
    source = plans[1].value
    if source.__class__ is not str:
        return None
    try:
        pattern = compile_pattern(source)
    except ValueError as error:
        raise PlanError(str(error)) from None

    def invoke(text: Any, _pattern: Any, limit: Any = -1) -> Any:
        if text.__class__ is not str or limit.__class__ is not int:
            raise no_such_overload()
        if function == "matches":
            return pattern.contains_match(text)
        return pattern.find(text) if function == "find" else pattern.find_all(text, limit)

    return invoke


def _stops_early(declared: Function, overload: str) -> bool:
    """Return whether the first failed argument ends the call, as it does where values select the overload."""
    return overload == "string_format" or (not overload and declared.trait is None)
