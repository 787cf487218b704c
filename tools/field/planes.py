"""The servers of a run: binaries for envtest, and control planes with one node."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kubedra import Client
from tests.support.patience import ended
from tools.fuzz.kubectl.planes import common_flags, start_real

#: Programs of the real control plane.
REAL: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_KUBEDRA: Final = (sys.executable, "-m", "kubedra")


def envtest_assets(directory: Path, server: str) -> Path:
    """Return a directory for KUBEBUILDER_ASSETS."""
    if server == "kubedra":
        found = subprocess.run([*_KUBEDRA, "envtest-assets", directory], check=True, capture_output=True, text=True)
        return Path(found.stdout.strip())
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("etcd", "kube-apiserver", "kubectl"):
        link, binary = directory / name, shutil.which(name)
        if binary is not None and not link.exists():
            link.symlink_to(binary)
    return directory


@contextlib.contextmanager
def control_plane(directory: Path, server: str) -> Iterator[Path]:
    """Start a control plane with one node that runs commands; yield its kubeconfig."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        start = _start_kubedra if server == "kubedra" else _start_real
        config = start(stack, directory)
        with Client.from_kubeconfig(config) as client:
            client.wait("node/node-1", "condition=Ready")
        yield config


def _start_kubedra(stack: contextlib.ExitStack, directory: Path) -> Path:
    data = directory / "data"
    stack.callback(subprocess.run, [*_KUBEDRA, "down", f"--data-dir={data}"], check=False, stdout=subprocess.DEVNULL)
    flags = (
        "--detach",
        f"--data-dir={data}",
        "--port=0",
        "--tls",
        "--nodes=1",
        "--run",
        "--devices=none",
        *common_flags(directory),
    )
    subprocess.run([*_KUBEDRA, "up", *flags], check=True, stdout=subprocess.DEVNULL)
    return data / "kubeconfig"


def _start_real(stack: contextlib.ExitStack, directory: Path) -> Path:
    """Start the real programs, and kubedra's kubelet on their server."""
    plane = start_real(stack, directory, "real", common_flags(directory))
    config = json.loads(plane.kubeconfig.read_text())
    config["clusters"][0]["cluster"] = {
        "server": plane.url,
        "certificate-authority": f"{directory}/certs/apiserver.crt",
    }
    plane.kubeconfig.write_text(json.dumps(config))
    commands = {
        "kube-scheduler": ("kube-scheduler", f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false", "--secure-port=0"),
        "node": (*_KUBEDRA, "node", "run", "node-1", f"--kubeconfig={plane.kubeconfig}", f"--plugin-dir={directory}/node", "--run"),
    }  # fmt: skip
    for name, command in commands.items():
        log = stack.enter_context((directory / f"{name}.log").open("w"))
        child = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
        stack.callback(ended, child)
        stack.callback(child.terminate)
    return plane.kubeconfig
