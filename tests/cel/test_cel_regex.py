"""Regular expressions of selectors: the dialect, its errors, and bounded time."""

from __future__ import annotations

import re
import time
from random import Random
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.cel.engine import build_language, compile_expression
from apiserver.cel.errors import EvaluationError
from apiserver.cel.language.time_limit import Interrupted, Meter, OffloadRequired
from apiserver.cel.language.types import STRING
from apiserver.cel.regex.machine import build
from apiserver.cel.regex.regex import Pattern, compile_pattern
from apiserver.cel.regex.syntax import parse

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "é", "^", "$", r"\b"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "*?", "+?", "{1,2}", "{2}"])),
    ),
    max_leaves=6,
)
SUBJECTS = st.text(alphabet="abé1 \n", max_size=8)


def simulated(pattern: str) -> Pattern:
    """Compile a pattern without the shortcut through `re`."""
    made = Pattern(parse(pattern))
    made._longest = -1
    return made


@given(PATTERNS, SUBJECTS)
def test_both_engines_find_the_same(pattern: str, subject: str) -> None:
    quick, slow = Pattern(parse(pattern)), simulated(pattern)
    assert (
        quick.contains_match(subject) == slow.contains_match(subject) == build(parse(pattern)).contains_match(subject)
    )
    assert quick.find_all(subject, -1) == slow.find_all(subject, -1)


@given(PATTERNS, SUBJECTS)
def test_whether_a_pattern_matches_is_what_re_says(pattern: str, subject: str) -> None:
    # `$` alone differs: without flags it is the end of the text, never a place before the last newline.
    reference = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    assert compile_pattern(pattern).contains_match(subject) == (reference.search(subject) is not None)


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(a*)*b", "(.*a){12}$", "a*a*a*a*a*a*a*b"])
def test_time_grows_with_the_text_alone(pattern: str) -> None:
    compiled = compile_pattern(pattern)
    started = time.process_time()
    assert not compiled.contains_match("a" * 3000 + "!")
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing closing ): `(`"), (")", "unexpected ): `)`"), ("[a", "missing closing ]: `[a`"), ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"), ("a{1001}", "invalid repeat count: `{1001}`"), (r"\8", r"invalid escape sequence: `\8`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"), ("[b-a]", "invalid character class range: `b-a`"),
        (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
        ("a(?i", "invalid or unsupported Perl syntax: `(?i`"), ("a(?", "invalid or unsupported Perl syntax: `(?`"), ("a\\", "trailing backslash at end of expression: ``"),
        ("((a{100}){100}){100}", "invalid repeat count: `{100}`"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(pattern: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == f"error parsing regexp: {why}"


@pytest.mark.parametrize(
    ("pattern", "subject", "found"),
    [
        ("a{,2}", "xa{,2}", ["a{,2}"]), ("(?i)straSSe", "STRASSE strasse", ["STRASSE", "strasse"]), ("(?s)a.b", "a\nb", ["a\nb"]),
        ("(?m)^b$", "a\nb\nc", ["b"]), ("[a-c-.]", "xb-.", ["b", "-", "."]), ("[a-c-e]", "bd-e", ["b", "-", "e"]),
        ("(?U)a+", "aaa", ["a", "a", "a"]), ("a*", "baac", ["", "aa", ""]), (r"\Qa.b\E+", "a.bb", ["a.bb"]), ("a*(?i)*", "aa", ["aa"]),
        (r"[[:alpha:]]+", "ab1c", ["ab", "c"]),
        (r"\pL+", "aé1日", ["aé", "日"]), (r"[^\x00-\x7F]", "aé", ["é"]), ("x|xy", "xy", ["x"]), (r"\d+", "१2", ["2"]), ("b$", "b\n", []),
        ("(?i)ſ", "sSſı", ["s", "S", "ſ"]), ("(?i)\u212a", "kK\u212a", ["k", "K", "\u212a"]), ("(?i)ı", "iIı", ["ı"]),
        (r"\B", "", [""]), ("(?P<a>x)(?P<a>y)", "xy", ["xy"]),
    ],
)  # fmt: skip
def test_the_dialect(pattern: str, subject: str, found: list[str]) -> None:
    assert compile_pattern(pattern).find_all(subject, -1) == found
    assert simulated(pattern).find_all(subject, -1) == found


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{L}" * 2000,
        "[" + r"\p{L}" * 2000 + "]",
        r"(?i)[" + "".join(f"{chr(97 + at % 26)}-{chr(0x1000 + at)}" for at in range(2000)) + "]",
        "|".join(rf"\p{{Greek}}{at}" for at in range(700)),
    ],
    ids=["row", "class", "folded", "alternatives"],
)
def test_classes_of_unicode_cost_little_however_many_there_are(pattern: str) -> None:
    """Writing out each class for another engine took seconds for a pattern of a few thousand characters."""
    compile_pattern(r"(?i)\p{L}\p{Greek}")  # the tables of Unicode are made once
    started = process_time()
    compile_pattern(pattern).contains_match("äβγ0" * 16)
    assert process_time() - started < 0.5


def test_repetitions_of_repetitions_are_bounded() -> None:
    with pytest.raises(ValueError, match="expression too large"):
        compile_pattern("(?:" + "ab" * 200 + "){1000}")
    assert compile_pattern(r"(?:[a-z0-9]{1,63}\.){1,15}").contains_match("a.")


@given(PATTERNS, SUBJECTS, st.integers(0, 8))
def test_a_search_may_begin_within_a_text(pattern: str, subject: str, at: int) -> None:
    at, machine = min(at, len(subject)), build(parse(pattern))
    reference = re.compile(pattern.replace("$", r"\Z"), re.ASCII).search(subject, at)
    assert machine.contains_match(subject, at) is (reference is not None)
    assert machine.search(subject, at) == (None if reference is None else reference.span())


def test_what_is_remembered_of_a_pattern_has_a_bound() -> None:
    machine = build(parse("(?:a|b)*a(?:a|b){12}$"))
    text = "".join(Random(1).choices("ab", k=12_000)) + "b" * 13
    assert not machine.contains_match(text)
    held = [len(state.positions) + len(state) for state in machine._states.values()]
    assert 1000 < sum(held) < 120_000


@pytest.mark.parametrize("expression", ["text.matches(pattern)", "text.find(pattern) == ''"])
def test_one_call_that_takes_long_looks_at_the_clock(expression: str) -> None:
    language = build_language((1, 36), {"text": STRING, "pattern": STRING}, {}, {}, [])
    compiled = compile_expression(expression, language, {"bool"}, "bool", 10_000_000)
    seconds = iter(range(1000))
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 5000)))
    with pytest.raises(OffloadRequired):
        compiled.evaluate(
            [text, f"(?:{expression[5]}|[^b])*c"], 10_000_000, Meter(lambda: next(seconds), 3.0, OffloadRequired)
        )
    variables = [text, f"(?:{expression[5]}|[^d])*c"]
    with pytest.raises(EvaluationError, match="operation interrupted"):
        compiled.evaluate(variables, 10_000_000, Meter(lambda: next(seconds), 3.0, Interrupted))
    meter = Meter(lambda: 0.0, 3.0, OffloadRequired)
    assert compiled.evaluate(variables, 10_000_000, meter) == compiled.evaluate(variables, 10_000_000)
