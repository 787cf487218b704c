"""Split a source into the tokens of CEL.

The longest match wins, as in the language's grammar. A character that starts no token is an error that consumes the
characters read so far. The rest is still read, so that later problems are reported as well.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from apiserver.cel.language.source import Issues


class Token(NamedTuple):
    """A token.

    `kind` is the symbol of operators and keywords, else IDENT, INT, UINT, FLOAT, STRING, BYTES, ESC or EOF.
    """

    kind: str
    text: str
    start: int


_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_STRING = (
    rf'"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
    r'|[rR]"""(?s:.)*?"""'
    r"|[rR]'''(?s:.)*?'''"
    r'|[rR]"[^"\n\r]*"'
    r"|[rR]'[^'\n\r]*'"
)
_TOKENS: Final = re.compile(
    rf"(?P<SKIP>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<BYTES>[bB](?:{_STRING}))"
    rf"|(?P<STRING>{_STRING})"
    r"|(?P<FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])"
    r"|(?P<INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<IDENT>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<ESC>`[A-Za-z0-9_.\-/ ]+`)"
    r"|(?P<SYMBOL>==|!=|<=|>=|&&|\|\||[\[\]{}().,\-!?:+*/%<>])"
)
KEYWORDS: Final = frozenset({"in", "true", "false", "null"})
# Words allowed as names of fields, but not of variables and functions.
RESERVED: Final = frozenset(
    ["as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let",
     "loop", "package", "namespace", "null", "return", "true", "var", "void", "while"]
)  # fmt: skip

# The readable part of a token that is never completed; the next character is part of the error.
_UNFINISHED: Final = re.compile(
    rf'[rR]?"(?:(?<=[rR]")[^"\n\r]*|(?:{_ESCAPE}|[^\\"\n\r])*)'
    rf"|[rR]?'(?:(?<=[rR]')[^'\n\r]*|(?:{_ESCAPE}|[^\\'\n\r])*)"
    r"|`[A-Za-z0-9_.\-/ ]*|&|\||="
)
_UNFINISHED_ESCAPE: Final = re.compile(r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?")


def tokenize(source: str, issues: Issues) -> list[Token]:
    """All tokens of the source, ended by EOF. Characters that are no tokens are reported."""
    tokens: list[Token] = []
    append, match = tokens.append, _TOKENS.match
    pos, end = 0, len(source)
    while pos < end:
        found = match(source, pos)
        if found is None:
            pos = _report_unfinished(source, pos, issues)
            continue
        kind, text = found.lastgroup, found.group()
        if kind == "IDENT":
            append(Token(text if text in KEYWORDS else "IDENT", text, pos))
        elif kind == "SYMBOL":
            append(Token(text, text, pos))
        elif kind != "SKIP":
            append(Token(kind or "", text, pos))
        pos = found.end()
    append(Token("EOF", "<EOF>", end))
    return tokens


def _report_unfinished(source: str, pos: int, issues: Issues) -> int:
    """Report the unreadable text at `pos`; return the offset at which to continue."""
    begun = _UNFINISHED.match(source, pos)
    stop = begun.end() if begun else pos
    if begun and source[stop : stop + 1] == "\\" and source[pos] in "\"'":
        escape = _UNFINISHED_ESCAPE.match(source, stop)
        stop = escape.end() if escape else stop
    issues.report(pos, f"Syntax error: token recognition error at: '{source[pos : stop + 1]}'")
    issues.skipped.append((pos, stop + 1))
    return stop + 1
