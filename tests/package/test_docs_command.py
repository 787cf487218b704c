"""`kubedra docs` reads the pages that the package brings."""

from __future__ import annotations

import re

import pytest

from kubedra.cli import main


def test_without_a_page_it_lists_the_pages_for_users(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"howto/webhooks +Admission webhooks", next(line for line in lines if "howto/webhooks" in line))
    assert not [line for line in lines if line.startswith(("adr/", "data/", "howto/contributing/"))]


@pytest.mark.parametrize("name", ["webhooks", "howto/webhooks"])
def test_a_page_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", name]) == 0
    assert capsys.readouterr().out.startswith("# Admission webhooks\n")


def test_a_search_prints_lines_that_have_all_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "--search", "PENDING pod EXPLAIN"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("common-traps:") for line in lines)
    assert all({"pending", "pod", "explain"} <= set(re.findall(r"[a-z]+", line.lower())) for line in lines[:1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing-such"], "kubedra docs: no page 'nothing-such'; see kubedra docs, or kubedra docs --search\n"),
        (["--search", "xyzzy plugh"], "kubedra docs: no line has 'xyzzy plugh'\n"),
    ],
)
def test_what_is_not_there_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", *arguments]) == 2
    assert capsys.readouterr() == ("", message)
