"""docs/reference/clients.md: which client in which version went through which step."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.clients.play import Played
from tests.clients.table import STEPS, Client

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "clients.md"
Row = tuple[str, str]
_HEAD = """\
# Clients

Written by `./dev run python -m tests.clients` from a run of each against `kubedra`; the suite holds it current and tries again whatever is installed.

Each takes the kubeconfig that the server writes, as it is. ✓ worked, ✗ did not, – the library has nothing of the kind.

"""
_FOOT = """
## What each step is

| step | is |
|---|---|
{steps}
## Notes

- Clients that know no `resource.k8s.io/v1` (the Python client up to 32) need `--runtime-config=resource.k8s.io/v1beta1=true`: the API's older versions are off by default, as upstream has them.
- `kubernetes_asyncio`: server-side apply through its dynamic client answers a conflict with the Status instead of an exception; its typed methods raise.
- `kr8s` warns of servers that are newer than the releases it knows: `--emulated-version` is what it sees.
- `kopf` makes no objects: its handlers, patches and finalizers are tried. Its election is peering, whose CustomResourceDefinition is applied first, as on any cluster.
- `@kubernetes/client-node` 2 needs Node 22; 1.4 is the newest for Node 20.
"""


def plain(name: str) -> str:
    """A client's name without the file that was run."""
    return re.sub(r" \(/.*\)", "", name)


def marks(client: Client, played: Played) -> tuple[str, ...]:
    return tuple(
        "–" if step.name in client.lacks else "✓" if played.saw.get(step.name) == step.sees else "✗" for step in STEPS
    )


def rows() -> dict[Row, tuple[str, ...]]:
    """The page's marks, by client and version."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|") and re.search(r"[✓✗]", line)
    ]
    return {(name.strip("`"), version): tuple(found) for name, version, *found in cells}


def text(found: Iterable[tuple[Client, Played]]) -> str:
    table = {(plain(client.name), played.version): marks(client, played) for client, played in found}
    header = ["client", "version", *(step.name for step in STEPS)]
    lines = [header, ["---"] * len(header), *([f"`{name}`", version, *said] for (name, version), said in table.items())]
    steps = "".join(f"| {step.name} | {step.means} |\n" for step in STEPS)
    return _HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines) + _FOOT.format(steps=steps)
