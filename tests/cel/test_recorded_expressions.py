"""Errors, types, estimates, results and costs of expressions equal those of upstream's own library.

The expressions use all functions on values of all types; some are damaged. `python -m tests.cel.recording` records
them.
"""

from __future__ import annotations

import pytest

from apiserver.api.objects import Json
from tests.cel.expressions import verdict
from tests.cel.recording import environment, read

RECORDED = read()
#: Expressions of one test.
PART = 60


@pytest.mark.parametrize("first", range(0, len(RECORDED), PART))
def test_an_expression_is_judged_as_upstream_judges_it(first: int) -> None:
    wrong: list[tuple[str, Json, Json]] = []
    for expression, number, wanted in RECORDED[first : first + PART]:
        got = verdict(expression, **environment(number))
        if got != wanted:
            wrong.append((expression, wanted, got))
    assert wrong == []
