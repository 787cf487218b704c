"""Rules of custom resources on values of a schema: null, missing fields, cost limits."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.cel import EvaluationError
from apiserver.cel.checking.schemas import declare_type, value_of
from apiserver.resources.customresources.compiledrules import CALL_LIMIT, compile_rule, language_of

TEXT: Json = {"type": "string", "nullable": True, "maxLength": 8}
SCHEMA: Json = {
    "type": "object",
    "properties": {"text": TEXT, "texts": {"type": "array", "maxItems": 4, "items": TEXT}},
}


def judged(rule: str, value: Any) -> Any:
    kind = declare_type(SCHEMA, "self")
    assert kind is not None
    language = language_of(kind, (1, 36), optional_old=False)
    return compile_rule(rule, language).evaluate([value_of(value, SCHEMA), None], CALL_LIMIT)[0]


def test_a_field_that_is_null_is_not_there_whether_it_may_be_or_not() -> None:
    assert judged("!has(self.text)", {"text": None})
    with pytest.raises(EvaluationError, match="no such key: text"):
        judged("self.text == 'a'", {"text": None})


@pytest.mark.parametrize("call", ["lowerAscii() == ''", "size() == 1", "contains('a')", "replace('a', 'b') == ''"])
def test_functions_are_not_called_with_an_element_that_is_null(call: str) -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        judged(f"self.texts[0].{call}", {"texts": [None]})
    with pytest.raises(EvaluationError, match="no such overload"):
        judged(f"self.texts.all(text, text.{call})", {"texts": [None]})
    judged(f"self.texts[0].{call}", {"texts": ["a"]})


def test_a_list_function_of_a_field_that_is_not_there_ends_the_evaluation() -> None:
    with pytest.raises(
        EvaluationError, match=r"internal error: interface conversion: \*types.Err is not traits.Lister"
    ):
        judged("self.texts.sort() == []", {})


def test_the_bounds_of_self_say_nothing_of_lists_that_an_expression_makes() -> None:
    kind = declare_type(TEXT, "self")
    assert kind is not None
    language = language_of(kind, (1, 36), optional_old=False)
    assert compile_rule("['a', self].join() == ''", language).max_cost > 10**15
    assert compile_rule("self.split('').join() == ''", language).max_cost > 10**15
    assert compile_rule("self.lowerAscii() == ''", language).max_cost < 100
    assert compile_rule("type(self) == net.IP", language).max_cost < 100
