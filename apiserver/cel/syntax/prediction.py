"""Predict the alternative of the grammar that matches the next tokens: adaptive LL(*) prediction.

All alternatives are followed together. First the callers of the current rule are ignored (a rule may return to any
call of it). Only if that is ambiguous, it is repeated with the actual callers. Remaining ambiguities are decided for
the first alternative. If no alternative is left, `NoAlternative` names the token.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from apiserver.cel.syntax.grammar import EOF, STOP, Network, State

# The states to return to, innermost first, as a linked list; None is the unknown or outermost caller.
Stack = tuple[State, "Stack"] | None


class Config(NamedTuple):
    """One alternative that is followed. `outside`: it has left the rule; `outermost`: even its outermost call."""

    state: State
    alternative: int
    stack: Stack
    outside: bool = False
    outermost: bool = False


class NoAlternative(Exception):
    """No alternative matches; `at` is the index of the token that excludes the last one."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class _Stage:
    """The configurations after some tokens, and the decision reached."""

    __slots__ = ("ambiguous", "chosen", "configs", "finished", "following")

    def __init__(self, configs: list[Config]) -> None:
        self.configs = configs
        self.following: dict[str, _Stage | None] = {}
        alternatives = {config.alternative for config in configs}
        self.chosen = alternatives.pop() if len(alternatives) == 1 else 0
        self.ambiguous = not self.chosen and _is_ambiguous(configs)
        finished = [config.alternative for config in configs if config.outside or _is_done(config)]
        self.finished = min(finished, default=0)


# Decisions that ignore the callers depend only on the tokens, so their stages are cached. Their number is limited
# because deeply nested brackets could create any number of them.
_MAX_STAGES: Final = 5000
_starts: dict[tuple[State, int], _Stage] = {}
_known: dict[tuple[Config, ...], _Stage] = {}


class Predictor:
    """Predictions over one list of token kinds."""

    def __init__(self, network: Network, kinds: list[str]) -> None:
        self._network, self._kinds = network, kinds

    def predict(self, state: State, at: int, precedence: int, calls: tuple[State, ...]) -> int:
        """Return the alternative (from 1) of a decision. `calls` are the states to return to, outermost first."""
        stage = _starts.get((state, precedence))
        if stage is None:
            configs = self._start(state, None, precedence, exact=False)
            if state.precedence_loop:
                configs = _without_repetition(configs)
            stage = _starts[state, precedence] = _Stage(configs)
        chosen = self._follow_stages(stage, at)
        if chosen:
            return chosen
        stack: Stack = None
        for call in calls:
            stack = (call, stack)
        return self._follow_exactly(self._start(state, stack, precedence, exact=True), at)

    def _follow_stages(self, stage: _Stage, at: int) -> int:
        """Return the alternative, or 0 if the decision depends on the callers."""
        while True:
            kind = self._kinds[at]
            following = stage.following.get(kind, stage)
            if following is stage:
                following = self._next_stage(stage, kind)
                if len(_known) < _MAX_STAGES:
                    stage.following[kind] = following
            if following is None:
                if stage.finished:
                    return stage.finished
                raise NoAlternative(at)
            if following.chosen or following.ambiguous:
                return following.chosen
            stage = following
            if kind != EOF:
                at += 1

    def _next_stage(self, stage: _Stage, kind: str) -> _Stage | None:
        reached = tuple(self._reach(stage.configs, kind, exact=False))
        if not reached:
            return None
        known = _known.get(reached)
        if known is None:
            known = _Stage(list(reached))
            if len(_known) < _MAX_STAGES:
                _known[reached] = known
        return known

    def _follow_exactly(self, configs: list[Config], at: int) -> int:
        while True:
            kind = self._kinds[at]
            reached = self._reach(configs, kind, exact=True)
            if not reached:
                finished = [config.alternative for config in configs if config.outside or _is_done(config)]
                if finished:
                    return min(finished)
                raise NoAlternative(at)
            least = {min(group) for group in _group_alternatives(reached).values()}
            if len(least) == 1:
                return least.pop()
            configs = reached
            if kind != EOF:
                at += 1

    def _start(self, state: State, stack: Stack, precedence: int, *, exact: bool) -> list[Config]:
        found: dict[Config, None] = {}
        for index, edge in enumerate(state.edges, start=1):
            self._close(Config(edge.target, index, stack), found, precedence, 0, exact, at_end=False)
        return list(found)

    def _reach(self, configs: list[Config], kind: str, exact: bool) -> list[Config]:
        moved: list[Config] = []
        stopped: list[Config] = []
        for config in configs:
            if config.state.kind == STOP:
                if exact or kind == EOF:
                    stopped.append(config)
                continue
            moved.extend(config._replace(state=edge.target) for edge in config.state.edges if kind in edge.tokens)
        if not stopped and kind != EOF and len({config.alternative for config in moved}) == 1:
            return moved
        found: dict[Config, None] = {}
        for config in moved:
            self._close(config, found, -1, 0, exact, at_end=kind == EOF)
        reached = list(found)
        if kind == EOF:
            reached = [config for config in reached if config.state.kind == STOP]
        if stopped and (not exact or not any(config.state.kind == STOP for config in reached)):
            reached += stopped
        return reached

    def _close(
        self, config: Config, found: dict[Config, None], precedence: int, depth: int, exact: bool, *, at_end: bool
    ) -> None:
        """Add everything reachable without reading a token. A precedence of -1 permits everything."""
        rule = config.state.rule
        seen: set[Config] = set()
        pending = [(config, depth)]
        while pending:
            current, level = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            state = current.state
            if state.kind == STOP:
                if current.stack is not None:
                    follow, rest = current.stack
                    pending.append((current._replace(state=follow, stack=rest), level - 1))
                elif exact:
                    found[current] = None
                else:
                    returns = self._network.returns[state.rule]
                    if not returns:
                        found[current] = None
                    for follow, outermost in reversed(returns):
                        left = current.outermost or (outermost and state.rule == rule)
                        pending.append((Config(follow, current.alternative, None, True, left), level - 1))
                continue
            for edge in reversed(state.edges):
                if edge.follow is not None:
                    called = current._replace(state=edge.target, stack=(edge.follow, current.stack))
                    pending.append((called, level + 1 if level >= 0 else level))
                elif edge.tokens:
                    found[current] = None
                    if at_end and EOF in edge.tokens:
                        pending.append((current._replace(state=edge.target), level))
                elif edge.precedence < 0 or level != 0 or precedence < 0 or edge.precedence >= precedence:
                    pending.append((current._replace(state=edge.target), level))


def _is_done(config: Config) -> bool:
    return config.state.kind == STOP and config.stack is None


def _group_alternatives(configs: list[Config]) -> dict[tuple[State, Stack], set[int]]:
    groups: dict[tuple[State, Stack], set[int]] = defaultdict(set)
    for config in configs:
        groups[config.state, config.stack].add(config.alternative)
    return groups


def _is_ambiguous(configs: list[Config]) -> bool:
    """Return whether further look-ahead is unlikely to help without the callers."""
    if all(config.state.kind == STOP for config in configs):
        return True
    if all(len(group) == 1 for group in _group_alternatives(configs).values()):
        return False
    by_state: dict[State, set[int]] = defaultdict(set)
    for config in configs:
        by_state[config.state].add(config.alternative)
    return all(len(group) > 1 for group in by_state.values())


def _without_repetition(configs: list[Config]) -> list[Config]:
    """Drop configurations that leave a left recursive loop and compete with another iteration."""
    again = {(config.state, config.stack) for config in configs if config.alternative == 1}
    return [
        config
        for config in configs
        if config.alternative == 1 or config.outermost or (config.state, config.stack) not in again
    ]
