"""npm's @kubernetes/client-node takes the kubeconfig as it is. The package is found among npm's global ones, or in the
`node_modules` that $KUBEDRA_NODE_MODULES names.
"""

import json
import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from apiserver import kubeconfig
from tests.support.patience import run_command

SCRIPT = Path(__file__).with_name("client-node.mjs")


@cache
def modules() -> Path | None:
    """The directory that holds the package; None where there is none."""
    npm = shutil.which("npm")
    if shutil.which("node") is None or npm is None:
        return None
    said = os.environ.get("KUBEDRA_NODE_MODULES") or run_command([npm, "root", "-g"], text=True).stdout.strip()
    return Path(said) if (Path(said) / "@kubernetes" / "client-node").is_dir() else None


@pytest.mark.parametrize(
    ("server", "ca", "insecure"),
    [("http://127.0.0.1:1", b"", True), ("https://127.0.0.1:1", b"", False), ("https://127.0.0.1:1", b"ca", False)],
    ids=["plain", "system's authorities", "own authority"],
)
def test_a_kubeconfig_skips_verification_only_where_there_is_nothing_to_verify(tmp_path, server, ca, insecure):
    kubeconfig.write(tmp_path / "kubeconfig", server, ca=ca)
    assert ("insecure-skip-tls-verify: true" in (tmp_path / "kubeconfig").read_text()) is insecure


@pytest.mark.parametrize("flags", [(), ("--tls",)], ids=["http", "https"])
def test_it_lists_watches_patches_and_applies(tmp_path, flags):
    from kubedra import ControlPlane

    found = modules()
    if found is None:
        pytest.skip("node or the package @kubernetes/client-node is missing")
    (tmp_path / "node_modules").symlink_to(found)
    shutil.copy(SCRIPT, tmp_path)
    with ControlPlane(args=flags) as plane:
        environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
        done = run_command(["node", SCRIPT.name], cwd=tmp_path, env=environment, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "seen": ["add settings", "update a,b", "update a,b,c", "update a,b,c,d", "update a,b,c,d", "delete settings"],
        "conflict": 409,
        "data": {"a": "9", "b": "2", "c": "3", "d": "4"},
        "listed": ["settings"],
    }
