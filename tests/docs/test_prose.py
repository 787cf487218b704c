"""The check of words in docstrings and comments (`./dev check`)."""

from __future__ import annotations

from tools.prose import find_unwanted


def test_words_in_comments_and_docstrings_are_found_and_those_in_code_are_not() -> None:
    source = '''def f(who):\n    """Return what nobody asked for."""\n    return "somebody"  # whoever\n'''
    assert find_unwanted(source) == [(3, "whoever"), (2, "nobody")]
