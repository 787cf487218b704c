"""Writes docs/reference: flags.md from the server's own parser and its table of feature gates, kinds/ (see kinds.py)
from the schemas, and client.md (see clientpage.py) from the signatures of the Python client.

python docs/reference/generate.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path(__file__).with_name("flags.md")
_HEAD = """\
# Flags of the server

Written by `python docs/reference/generate.py` from the server's parser; a test holds it current.

`kubedra serve` takes these flags and is the API server alone. `kubedra up` takes the same ones and adds `--controllers=* --nodes=2
--storage-class=standard`; flags given after it win. With `--detach` both go to the background when all is ready: `kubedra status`, `kubedra logs` and
`kubedra down` are for it. Flags with kube-apiserver's names have kube-apiserver's meaning. A list may be given in one flag,
separated by commas, or in several.

What is wrong with a flag is one line on standard error and exit code 2. What a flag asks for and is not built yet is one warning at start
(docs/fidelity.md).
"""
_GATES = """
## Feature gates

`--feature-gates NAME=true` switches a gate of the emulated release; `AllAlpha` and `AllBeta` switch a stage. The table has the gates that change
anything here: stage and default in each release, 🔒 where it cannot be switched any more. Other names are accepted, with a warning.
"""


def page() -> str:
    """The whole page."""
    from apiserver.options.flags import parser

    flags = parser()
    parts = [_HEAD]
    for group in flags._action_groups:
        actions = [action for action in group._group_actions if action.dest != "help"]
        if actions:
            parts.append(f"\n## {(group.title or '').capitalize()}\n\n| flag | meaning |\n|---|---|\n")
            parts += [_row(action) for action in actions]
    return "".join([*parts, _GATES, *_gates()])


def _row(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or '|'.join(map(str, action.choices or ()))}"
    name = f"{', '.join(action.option_strings)}{value}".replace("|", "\\|")
    return f"| `{name}` | {(action.help or '').replace('|', chr(92) + '|')} |\n"


def _gates() -> list[str]:
    from apiserver.api.features.gates import GATES, RELEASES

    rows = [
        "\n| gate | "
        + " | ".join(f"{major}.{minor}" for major, minor in RELEASES)
        + " |\n|---"
        + "|---" * len(RELEASES)
        + "|\n"
    ]
    for name, gate in GATES.items():
        cells = []
        for release in RELEASES:
            stage = gate.at(release)
            cells.append(
                "" if stage is None else f"{stage.name} {'on' if stage.on else 'off'}{' 🔒' if stage.locked else ''}"
            )
        rows.append(f"| {name} | {' | '.join(cells)} |\n")
    return rows


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(page())
    import clientpage
    import kinds

    clientpage.PAGE.write_text(clientpage.page())
    kinds.DIRECTORY.mkdir(exist_ok=True)
    for file in kinds.DIRECTORY.glob("*.md"):
        file.unlink()
    for name, text in kinds.pages().items():
        (kinds.DIRECTORY / name).write_text(text)
