"""Start the real control plane and ours: API server and controllers, without scheduler and nodes."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.support.patience import ended
from tests.support.wire import Child
from tools.fuzz.beside import TOKEN, RealServer, Server

BINARIES: Final = ("kube-apiserver", "kube-controller-manager", "etcd")
#: Flags of both API servers.
_FLAGS: Final = ("--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/16")
#: Controllers of neither plane, and why.
_WITHOUT: Final = {
    "service-ca-certificate-publisher-controller": "a distribution's own, which ours lacks",
    "root-ca-certificate-publisher-controller": "our server has no certificate",
    "certificatesigningrequest-signing-controller": "has no authority to sign with",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plane:
    """A running control plane: its name, a kubeconfig, and a client factory for raw requests."""

    name: str
    kubeconfig: Path
    url: str

    def server(self) -> Server:
        parts = urlsplit(self.url)
        if parts.scheme == "http":
            return Server(http.client.HTTPConnection(parts.netloc, timeout=60))
        return Server(RealServer.connection(parts.netloc))


@contextlib.contextmanager
def start_planes(
    directory: Path, *, twice_ours: bool = False, controllers: bool = True
) -> Iterator[tuple[Plane, Plane]]:
    """Start both; yield the real one and ours.

    Args:
        directory: the directory for data, logs and kubeconfigs.
        twice_ours: start kubedra in place of the real one, to find differences between two runs.
        controllers: start the controllers, too.
    """
    # Without controllers no namespace has accounts for pods.
    without = () if controllers else ("--disable-admission-plugins=ServiceAccount",)
    flags = (*common_flags(directory), *without)
    with contextlib.ExitStack() as stack:
        start = _ours if twice_ours else start_real
        theirs = start(stack, directory, "theirs", flags, controllers)
        yield theirs, _ours(stack, directory, "ours", flags, controllers)


def common_flags(directory: Path) -> tuple[str, ...]:
    """Return flags of both API servers, one of which names the administrator's token."""
    tokens = directory / "tokens.csv"
    tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    return (*_FLAGS, f"--token-auth-file={tokens}")


def _ours(stack: contextlib.ExitStack, directory: Path, name: str, flags: tuple[str, ...], controllers: bool) -> Plane:
    (directory / name).mkdir()
    without = ",".join(("*", *(f"-{each}" for each in (*_WITHOUT, "scheduler", "node-agent"))))
    chosen = (f"--controllers={without}", "--nodes=0", "--devices=none") if controllers else ()
    child = stack.enter_context(Child(directory / name, "--tls", *chosen, *flags))
    return _plane(directory, name, child.url)


def start_real(
    stack: contextlib.ExitStack, directory: Path, name: str, flags: tuple[str, ...], controllers: bool = True
) -> Plane:
    real = stack.enter_context(RealServer(directory, *flags))
    plane = _plane(directory, name, real.url)
    if not controllers:
        return plane
    binary = shutil.which("kube-controller-manager")
    assert binary is not None, "kube-controller-manager is not on PATH"
    log = stack.enter_context((directory / "kube-controller-manager.log").open("w"))
    given = (
        f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false", "--secure-port=0", "--kube-api-qps=5000", "--kube-api-burst=5000",
        f"--service-account-private-key-file={directory}/sa.key", "--concurrent-gc-syncs=20",
        f"--controllers=*,{','.join(f'-{each}' for each in _WITHOUT)}",
    )  # fmt: skip
    # Hashes of times in pod templates include the local zone: as in upstream's image, there is none.
    child = subprocess.Popen([binary, *given], stdout=log, stderr=log, env={**os.environ, "TZ": ""})
    stack.callback(ended, child)
    stack.callback(child.terminate)
    return plane


def _plane(directory: Path, name: str, url: str) -> Plane:
    config: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url, **({"insecure-skip-tls-verify": True} if url.startswith("https") else {})}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    file = directory / f"{name}.conf"
    file.write_text(json.dumps(config))
    return Plane(name, file, url)
