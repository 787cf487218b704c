"""`kubedra docs`: the documentation of the installed release, in the terminal."""

from __future__ import annotations

import pydoc
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kubedra.command.arguments import Parser
from kubedra.runtime import process

#: Folders with pages for users, in the order of the list.
_FOLDERS = ("", "tutorial", "howto", "reference", "reference/kinds")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def show(arguments: Sequence[str]) -> int:
    """Run `kubedra docs`. Return 0, or 2 if no page has the name or the words."""
    parser = Parser(prog="kubedra docs", description="Read the documentation of this release.")
    parser.add_argument("page", nargs="?", help="name of a page, such as webhooks; without it, list all pages")
    parser.add_argument("-s", "--search", metavar="WORDS", help="print the lines that have all of these words")
    options = parser.parse_args(arguments)
    pages = dict(find_pages(process.server_root() / "docs"))
    if options.search:
        lines = list(search(pages, options.search))
        print("\n".join(lines) or f"kubedra docs: no line has {options.search!r}", file=None if lines else sys.stderr)
        return 0 if lines else 2
    if not options.page:
        width = max(map(len, pages))
        print("\n".join(f"{name:{width}}  {_title(text)}" for name, text in pages.items()))
        return 0
    found = [name for name in pages if options.page in (name, name.rpartition("/")[2])]
    if not found:
        print(f"kubedra docs: no page {options.page!r}; see kubedra docs, or kubedra docs --search", file=sys.stderr)
        return 2
    pydoc.pager(pages[found[0]])
    return 0


def find_pages(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page for users: `howto/webhooks`."""
    for folder in _FOLDERS:
        for file in sorted((directory / folder).glob("*.md")):
            yield file.relative_to(directory).with_suffix("").as_posix(), file.read_text(encoding="utf-8")


def search(pages: dict[str, str], words: str) -> Iterator[str]:
    """Yield `PAGE:LINE: TEXT` of each line that has all words, in any case."""
    wanted = words.lower().split()
    for name, text in pages.items():
        for number, line in enumerate(text.splitlines(), 1):
            if all(word in line.lower() for word in wanted):
                yield f"{name}:{number}: {line.strip()}"


def _title(text: str) -> str:
    found = _TITLE.search(text)
    return found[1] if found else ""
