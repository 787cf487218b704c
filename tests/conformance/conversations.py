"""Holds conversations with kubedra, or with any server, and shows what differs.

    python -m tests.conformance.conversations                          all that are recorded, in memory
    python -m tests.conformance.conversations --written --only claim/   our own, those whose title matches
    python -m tests.conformance.conversations -v --storage postgres --only ': watch/'
    python -m tests.conformance.conversations --url http://127.0.0.1:8001 --only dra/claim
    python -m tests.conformance.conversations --record --only machinery/crd --reason 'machinery/crd=not built'

The last line is `N passed, N failed`. `--record` keeps the results in docs/data/conformance.json and rewrites the tables
of docs/data/fidelity/conversations.md; a conversation that differs needs a reason there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.conformance import fidelity, recordings, written
from tests.conformance.conversation import Conversation
from tests.conformance.ledger import FILE, Ledger
from tests.conformance.player import Elsewhere, Outcome, Speaker, play
from tests.conformance.servers import STORAGES, Servers
from tests.support.patience import PATIENCE
from tests.support.postgres import Database


def main(argv: Sequence[str] | None = None) -> int:
    """0 when all are equal."""
    options = _options(argv)
    tokens, conversations = _chosen(options)
    if tokens is None:
        print(recordings.MISSING, file=sys.stderr)
        return 2
    results: dict[str, Outcome] = {}
    with _servers(tokens, options) as server_for:
        for conversation in sorted(conversations, key=lambda c: (c.profile, c.file)):
            outcome = play(server_for(conversation), conversation, patience=options.patience)
            results[conversation.title] = outcome
            if not outcome.passed:
                lines = outcome.differences if options.verbose else outcome.differences[:1]
                print(f"FAIL {conversation.title} ({outcome.equal}/{outcome.steps} steps)", *lines, sep="\n   ")
    if options.json:
        options.json.write_text(json.dumps({title: _row(outcome) for title, outcome in results.items()}, indent=1))
    if options.record:
        record(results, dict(reason.split("=", 1) for reason in options.reason))
    passed = sum(outcome.passed for outcome in results.values())
    print(f"{passed} passed, {len(results) - passed} failed")
    return 0 if passed == len(results) else 1


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.conversations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--written", action="store_true", help="our own conversations instead of the recorded ones")
    parser.add_argument("--only", default="", metavar="REGEX", help="conversations whose title matches")
    parser.add_argument("--storage", choices=STORAGES, default="memory")
    parser.add_argument("--url", default="", help="a server that runs, instead of one for each profile")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds for each `until` at most")
    parser.add_argument("-v", "--verbose", action="store_true", help="every difference, not only the first")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument("--record", action="store_true", help="keep the results as what is expected from now on")
    parser.add_argument("--reason", action="append", default=[], metavar="TITLE=TEXT", help="why such ones differ")
    options = parser.parse_args(argv)
    if options.record and (options.written or options.url or options.storage != "memory"):
        parser.error("--record is for recorded conversations in memory")
    return options


def _chosen(options: argparse.Namespace) -> tuple[Path | None, list[Conversation]]:
    """Return the file of the users' tokens, and the conversations to hold."""
    folder = None if options.written else recordings.folder()
    tokens = written.TOKENS if options.written else folder and folder / "tokens.csv"
    conversations = written.load() if options.written else recordings.conversations()
    return tokens, [c for c in conversations if re.search(options.only, c.title)]


@contextlib.contextmanager
def _servers(tokens: Path, options: argparse.Namespace) -> Iterator[Callable[[Conversation], Speaker]]:
    """Yield the function that returns a server for a conversation."""
    if options.url:
        yield lambda _: Elsewhere(options.url)
        return
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(Database()) if options.storage == "postgres" else None
        servers = stack.enter_context(Servers(tokens, lambda: database.url if database else ""))
        yield lambda conversation: servers.get(conversation.profile, options.storage)


def record(results: Mapping[str, Outcome], reasons: Mapping[str, str], file: Path = FILE) -> None:
    """Put results on the list of what is expected. Raises SystemExit where one that differs would have no reason."""
    ledger = Ledger.read(file)
    ledger.reasons |= reasons
    ledger.equal |= {title: outcome.passed for title, outcome in results.items()}
    unexplained = [title for title, equal in ledger.equal.items() if not equal and not ledger.reason(title)]
    if unexplained:
        raise SystemExit(f"say why with --reason TITLE=TEXT (the beginning of a title does): {', '.join(unexplained)}")
    ledger.drop_unused_reasons()
    ledger.write(file)
    if file == FILE:
        fidelity.PAGE.write_text(fidelity.page(fidelity.PAGE.read_text(), ledger))


def _row(outcome: Outcome) -> dict[str, object]:
    return {"steps": outcome.steps, "ok": outcome.equal, "diffs": outcome.differences}


if __name__ == "__main__":
    sys.exit(main())
