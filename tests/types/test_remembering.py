"""Caches by text are bounded by the length of the texts."""

from __future__ import annotations

import functools
import gc

import pytest

from apiserver import cel
from apiserver.api.errors.status import StatusError
from apiserver.api.schema.scalars import canonical_quantity
from apiserver.api.validation.formats import FORMATS
from apiserver.api.values.bounded_cache import remembered
from apiserver.http.formats.negotiation import negotiate
from apiserver.http.server.incoming import header_name
from apiserver.registry.definition.metadata import validate_metadata


def test_texts_are_remembered_until_they_are_too_long_together() -> None:
    made: list[str] = []

    @remembered(100, characters=20)
    def upper(text: str) -> str:
        made.append(text)
        return text.upper()

    assert [upper("abc"), upper("abc"), upper("def")] == ["ABC", "ABC", "DEF"]
    assert made == ["abc", "def"]
    upper("x" * 15)
    upper("abc")
    assert made == ["abc", "def", "x" * 15, "abc"], "all are dropped where there is no room for one more"
    upper("x" * 15)
    assert len(made) == 4


def test_no_cache_keeps_many_long_texts_of_clients() -> None:
    environment = cel.device_environment((1, 36), {}, stored=False)

    def send(number: int) -> None:
        text = f"{number}" + "x" * 300_000
        validate_metadata({"name": "a", "labels": {"a": text, text: ""}}, False, "path-segment", kind_rules=True)
        FORMATS["label-value"].fits(text)
        header_name(text.encode())
        with pytest.raises(StatusError):
            negotiate(text)
        canonical_quantity("0" * 300_000 + f"{number}")
        cel.compile(f"'{text[:100_000]}' == ''", environment)

    send(0)
    gc.unfreeze()  # a server of another test has set aside all that was there
    caches = [each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper)]
    assert len(caches) > 8
    before = [each.cache_info().currsize for each in caches]
    for number in range(1, 11):
        send(number)
    grown = [(each, each.cache_info().currsize - size) for each, size in zip(caches, before, strict=True)]
    assert [each for each, more in grown if more > 4] == []
    assert negotiate("application/json") is negotiate("application/json")
