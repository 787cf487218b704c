"""Tries every client that is here and writes docs/reference/clients.md.

./dev run python -m tests.clients
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.clients import page
from tests.clients.play import play, servers
from tests.clients.table import CLIENTS


def main() -> int:
    found, missing = [], []
    with tempfile.TemporaryDirectory() as directory, servers(Path(directory)) as running:
        for number, client in enumerate(CLIENTS):
            program = client.find()
            if program is None:
                missing.append(client)
                continue
            home = Path(directory) / str(number)
            home.mkdir()
            played = play(client, program, running, home)
            print(client.name, played.version, *page.marks(client, played))
            if "✗" in page.marks(client, played):
                print(played.saw, played.errors, sep="\n", file=sys.stderr)
            found.append((client, played))
    if missing:
        for client in missing:
            print(
                f"clients: {client.name} is not there ({client.comes_with}): the page is left as it was",
                file=sys.stderr,
            )
        return 1
    page.PAGE.write_text(page.text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
