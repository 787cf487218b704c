"""Write what upstream declares of each kind, for `tests/resources/test_declarations.py`.

    python -m tools.fuzz.declared CHECKOUT

The releases come from a checkout of Kubernetes, the rest from a kube-apiserver on PATH, with etcd.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

from apiserver.api.objects import Json
from apiserver.resources import CATALOG
from tests.support.wire import ROOT
from tools.fuzz.beside import ALL_GATES, FLAGS, TOKEN, RealServer

_TABLE: Final = ROOT / "tests" / "resources" / "declared.json"
_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_LIFE: Final = re.compile(
    r"func \(in \*(\w+)\) APILifecycle(Introduced|Deprecated|Removed)\(\) \(major, minor int\) \{\s*return (\d+), (\d+)"
)
#: Directories of groups with another name than the first part of the group.
_DIRECTORIES: Final = {"": "core", "internal.apiserver.k8s.io": "apiserverinternal"}
#: Facts that upstream states only in warnings.
_WARNED: Final = {"/v1/endpoints": {"deprecated": [1, 33]}}


def lives(checkout: Path) -> dict[tuple[str, str, str], Json]:
    """Return the releases of types by the group's directory, version and kind."""
    found: dict[tuple[str, str, str], Json] = {}
    for file in (checkout / "staging" / "src" / "k8s.io").rglob("zz_generated.prerelease-lifecycle.go"):
        for kind, what, major, minor in _LIFE.findall(file.read_text()):
            key = (file.parts[-3], file.parts[-2], kind)
            found.setdefault(key, {})[what.lower()] = [int(major), int(minor)]
    return found


def discovered(*flags: str) -> dict[str, Json]:
    """Return a server's discovery of each resource, by GROUP/VERSION/PLURAL."""
    found: dict[str, Json] = {}
    with tempfile.TemporaryDirectory() as directory:
        tokens = Path(directory) / "tokens.csv"
        tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        with (
            RealServer(Path(directory), *FLAGS, f"--token-auth-file={tokens}", *flags) as real,
            contextlib.closing(real.server()) as server,
        ):
            for root in ("/api", "/apis"):
                for group in json.loads(server.exchange("GET", root, None, accept=_DISCOVERY)[1])["items"]:
                    for version in group["versions"]:
                        for resource in version["resources"]:
                            name = f"{group['metadata'].get('name', '')}/{version['version']}/{resource['resource']}"
                            found[name] = resource
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz.declared", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkout", type=Path)
    given = parser.parse_args()
    releases, default, everything = lives(given.checkout), discovered(), discovered(*ALL_GATES)
    lines = []
    for resource in CATALOG:
        directory = _DIRECTORIES.get(resource.group, resource.group.split(".")[0])
        for version in resource.versions:
            name = f"{resource.group}/{version.name}/{resource.plural}"
            life = releases.get((directory, version.name, resource.kind), {}) | _WARNED.get(name, {})
            declared = {
                **{what: life.get(what) for what in ("introduced", "deprecated", "removed")},
                "by_default": name in default,
                "discovery": everything.get(name),
            }
            lines.append(f"{json.dumps(name)}: {json.dumps(declared)}")
    _TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
