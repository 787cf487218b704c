"""Items of lists with their paths: which of them repeat an earlier one."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver.api.errors.field_errors import Path
from apiserver.api.validation.items import each_unique


@pytest.mark.parametrize(
    ("items", "fields", "repeated"),
    [
        (["a", "b", "a", "a"], (), ["f[2]", "f[3]"]),
        ([{"n": "a", "p": 1}, {"n": "a", "p": 2}], ("n",), ["f[1]"]),
        ([{"n": "a", "p": 1}, {"n": "a", "p": 2}, {"p": 2, "n": "a"}], ("n", "p"), ["f[2]"]),
        ([{}, {"n": ""}], ("n",), ["f[1]"]),
        (None, ("n",), []),
    ],
    ids=["whole items", "one field", "several fields", "an absent field is empty", "no list"],
)
def test_an_item_repeats_an_earlier_one(items: list[Any] | None, fields: tuple[str, ...], repeated: list[str]) -> None:
    assert [str(path) for path, _, is_repeated in each_unique(Path("f"), items, *fields) if is_repeated] == repeated
