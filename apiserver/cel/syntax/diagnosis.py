"""Report syntax errors in the words of the generated parser that users know.

The grammar is walked as that parser does: it predicts alternatives, deletes or inserts a single token if this repairs
the input, and otherwise skips to a token that may follow. Its messages are the reported issues. The network is built
for the first invalid source.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import Final

from apiserver.cel.language.source import MAX_DEPTH, NOWHERE, TOO_DEEP, Issues
from apiserver.cel.language.stack import OFTEN, has_room, run_on_new_stack
from apiserver.cel.syntax import grammar as g
from apiserver.cel.syntax.lexer import RESERVED, Token
from apiserver.cel.syntax.prediction import NoAlternative, Predictor

_MAX_RECOVERIES: Final = 30
_MAX_SKIPPED: Final = 256
_KEYWORD: Final = re.compile(r"no viable alternative at input '.(true|false|null)'")
_ORDER: Final = {name: index for index, name in enumerate(g.NAMES)}


def diagnose(tokens: list[Token], issues: Issues) -> None:
    """Report all errors in the order of the tokens."""
    with suppress(_RecoveryAborted):
        _Walk(tokens, issues).rule("start", 0)


class _RecoveryAborted(Exception):
    """There are too many errors to continue."""


class _RuleError(Exception):
    """The current rule cannot continue. The message is reported unless another error is being recovered from."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class _Walk:
    def __init__(self, tokens: list[Token], issues: Issues) -> None:
        self._tokens, self._issues = tokens, issues
        self._network = g.network()
        self._predictor = Predictor(self._network, [token.kind for token in tokens])
        self._at = 0
        self._state = self._network.starts["start"]
        # The states to return to, outermost first, and the precedence of the current rule.
        self._calls: tuple[g.State, ...] = ()
        self._precedence = 0
        self._recovering = False
        self._failed_at = -1
        self._failed_states: set[g.State] = set()
        self._recoveries = 0
        self._depths: Counter[str] = Counter()
        self._level = 0

    # Walking

    def rule(self, name: str, precedence: int) -> None:
        """Walk a rule; errors end it, not its caller."""
        outer, self._precedence = self._precedence, precedence
        self._depths[name] += 1
        if self._depths[name] > MAX_DEPTH:
            self._issues.report(NOWHERE, TOO_DEEP)
            raise _RecoveryAborted
        level = self._level = self._level + 1
        part = self._network.rules[name]
        try:
            if level & OFTEN or has_room():
                self._walk(part)
            else:
                run_on_new_stack(self._walk, part)
        except _RuleError as wrong:
            if not self._recovering:
                self._recovering = True
                self._report(str(wrong), wrong.at)
            self._recover()
        finally:
            self._precedence = outer
            self._depths[name] -= 1
            self._level = level - 1

    def _walk(self, part: g.Part) -> None:
        match part:
            case g.Token():
                self._state = part.enter
                self._match(part)
            case g.Call():
                self._state = part.enter
                self._calls = (*self._calls, part.leave)
                self.rule(part.rule, part.precedence)
                self._calls = self._calls[:-1]
            case g.Sequence():
                for inner in part.parts:
                    self._walk(inner)
            case g.Choice():
                chosen = self._choose(part)
                if part is self._network.rules["primary"] and chosen <= g.NAMED:
                    self._check_reserved()
                self._walk(part.parts[chosen - 1])
            case g.Maybe():
                self._enter(part.state)
                if self._kind in self._network.next_tokens(part.part.enter):
                    self._walk(part.part)
            case g.Repeat():
                self._repeat(part)

    def _check_reserved(self) -> None:
        """Report a reserved word used as a variable or function; fields may have such names."""
        at = self._at + (self._kind == ".")
        word = self._tokens[at].text
        if word in RESERVED:
            self._issues.report(self._tokens[self._at].start, f"reserved identifier: {word}")

    def _choose(self, part: g.Choice) -> int:
        self._enter(part.state)
        if not part.simple:
            return self._predict(part.state)
        for index, inner in enumerate(part.parts, start=1):
            if self._kind in self._network.next_tokens(inner.enter):
                return index
        raise self._no_alternative(self._at)

    def _repeat(self, part: g.Repeat) -> None:
        self._enter(part.state)
        repeating = part.at_least_once or self._continues(part, part.state)
        while repeating:
            chosen = part.parts[0]
            if len(part.parts) > 1:
                self._enter(part.body)
                chosen = part.parts[self._predict(part.body) - 1]
            self._walk(chosen)
            self._enter(part.back)
            repeating = self._continues(part, part.back if part.at_least_once else part.state)

    def _continues(self, part: g.Repeat, decision: g.State) -> bool:
        if part.simple:
            return self._kind in self._network.next_tokens(part.parts[0].enter)
        return self._predict(decision) == 1

    def _predict(self, state: g.State) -> int:
        try:
            return self._predictor.predict(state, self._at, self._precedence, self._calls)
        except NoAlternative as error:
            raise self._no_alternative(error.at) from None

    # The tokens

    @property
    def _kind(self) -> str:
        return self._tokens[self._at].kind

    def _following(self) -> str:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)].kind

    def _advance(self) -> None:
        if self._kind != g.EOF:
            self._at += 1

    def _reset_recovery(self) -> None:
        self._recovering = False
        self._failed_at = -1
        self._failed_states = set()

    def _match(self, part: g.Token) -> None:
        if self._kind in part.kinds:
            self._reset_recovery()
            self._advance()
            return
        self._count_recovery()
        if self._delete_one():
            self._advance()
            return
        after = self._network.next_tokens_within(part.leave, self._calls)
        if self._kind in after:
            self._report_once(f"missing {self._names(self._expected_tokens())} at {self._current_text()}")
            return
        raise self._mismatch()

    # Errors

    def _enter(self, state: g.State) -> None:
        """Check the token at the entry of a decision, and try to repair an error."""
        self._state = state
        if self._recovering:
            return
        allowed = self._network.next_tokens(state)
        if "" in allowed or self._kind in allowed:
            return
        if state.kind == g.LOOP_BACK:
            expected = self._expected_tokens()
            self._report_once(f"extraneous input {self._current_text()} expecting {self._names(expected)}")
            self._skip_to(expected | self._resumption())
        elif not self._delete_one():
            raise self._mismatch()

    def _delete_one(self) -> bool:
        """Drop the token if the next one is expected here."""
        expected = self._expected_tokens()
        if self._following() not in expected:
            return False
        self._report_once(f"extraneous input {self._current_text()} expecting {self._names(expected)}")
        self._advance()
        self._reset_recovery()
        return True

    def _recover(self) -> None:
        """Skip to a token that may follow the rule."""
        self._count_recovery()
        limit = self._at + _MAX_SKIPPED
        if self._failed_at == self._at and self._state in self._failed_states:
            self._advance()
        self._failed_at = self._at
        self._failed_states.add(self._state)
        self._skip_to(self._resumption(), limit)

    def _count_recovery(self) -> None:
        if self._recoveries == _MAX_RECOVERIES:
            self._report(f"error recovery attempt limit exceeded: {_MAX_RECOVERIES}", self._at)
            raise _RecoveryAborted
        self._recoveries += 1

    def _skip_to(self, kinds: frozenset[str], limit: int | None = None) -> None:
        while self._kind != g.EOF and self._kind not in kinds:
            if limit is not None and self._at >= limit:
                self._issues.report(NOWHERE, f"error recovery token lookahead limit exceeded: {_MAX_SKIPPED}")
                raise _RecoveryAborted
            self._advance()

    def _expected_tokens(self) -> frozenset[str]:
        """Return the tokens that may come next in the whole expression."""
        following = self._network.next_tokens(self._state)
        expected = set(following)
        for call in reversed(self._calls):
            if "" not in following:
                break
            following = self._network.next_tokens(call)
            expected |= following
        expected.discard("")
        if "" in following:
            expected.add(g.EOF)
        return frozenset(expected)

    def _resumption(self) -> frozenset[str]:
        """Return the tokens with which any of the open rules may continue."""
        kinds: set[str] = set()
        for call in self._calls:
            kinds |= self._network.next_tokens(call)
        return frozenset(kinds - {""})

    def _mismatch(self) -> _RuleError:
        return _RuleError(
            f"mismatched input {self._current_text()} expecting {self._names(self._expected_tokens())}", self._at
        )

    def _no_alternative(self, at: int) -> _RuleError:
        first, last = self._tokens[self._at], self._tokens[at]
        if first.kind == g.EOF:
            text = "<EOF>"
        else:
            end = last.start + (0 if last.kind == g.EOF else len(last.text))
            text = self._issues.read_text(first.start, end)
        return _RuleError(f"no viable alternative at input {_quote(text)}", at)

    def _report_once(self, message: str) -> None:
        if not self._recovering:
            self._recovering = True
            self._report(message, self._at)

    def _report(self, message: str, at: int) -> None:
        message = _KEYWORD.sub(r"mismatched input '\1' expecting IDENTIFIER", message)
        self._issues.report(self._tokens[at].start, f"Syntax error: {message}")

    def _current_text(self) -> str:
        return _quote(self._tokens[self._at].text)

    def _names(self, kinds: frozenset[str]) -> str:
        names = [g.NAMES[kind] for kind in sorted(kinds, key=_ORDER.__getitem__)]
        return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def _quote(text: str) -> str:
    escaped = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"
