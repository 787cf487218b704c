"""The kubeconfig that a server writes for its clients.

A file that kubedra did not write is not overwritten.
"""

from __future__ import annotations

import base64
from pathlib import Path

from kubedra.kubeconfig.reader import KubeconfigError
from kubedra.runtime import private_files as private

_MARK = "# Written by kubedra; it will be overwritten."


def check(path: Path) -> None:
    """Raise KubeconfigError if another program wrote `path`."""
    try:
        mine = not path.exists() or path.read_text(errors="replace").startswith(_MARK)
    except OSError as error:
        raise KubeconfigError(f"--kubeconfig {path}: {error.strerror}") from error
    if not mine:
        raise KubeconfigError(f"--kubeconfig {path}: kubedra did not write this file and will not overwrite it")


def write(path: Path, server: str, *, token: str = "", ca: bytes = b"", insecure: bool = False) -> None:
    """Write the file atomically; only its owner can read it."""
    check(path)
    cluster = [f"    server: {server}"]
    if ca:
        cluster.append(f"    certificate-authority-data: {base64.b64encode(ca).decode()}")
    elif insecure or server.startswith("http:"):
        # There is no certificate to verify; npm's client requires this flag.
        cluster.append("    insecure-skip-tls-verify: true")
    user = f"{{token: {_quote(token)}}}" if token else "{}"
    lines = [
        _MARK,
        "apiVersion: v1",
        "kind: Config",
        "current-context: kubedra",
        "clusters:",
        "- name: kubedra",
        "  cluster:",
        *cluster,
        "contexts:",
        "- name: kubedra",
        "  context: {cluster: kubedra, user: kubedra}",
        "users:",
        "- name: kubedra",
        f"  user: {user}",
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        private.write(path, "\n".join(lines) + "\n")
    except OSError as error:
        raise KubeconfigError(f"--kubeconfig {path}: {error.strerror}") from error


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
