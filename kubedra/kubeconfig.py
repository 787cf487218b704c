"""Reading a kubeconfig: the current context's server, token and certificate authority."""

from __future__ import annotations

import base64
import os
import ssl
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach a server. `ca` is PEM text, empty for the system's own authorities."""

    server: str
    token: str = ""
    ca: str = ""
    insecure: bool = False
    namespace: str = "default"

    def verify(self) -> bool | ssl.SSLContext:
        """What httpx takes as `verify`."""
        if self.insecure:
            return False
        return ssl.create_default_context(cadata=self.ca) if self.ca else True


def default() -> Path:
    """The kubeconfig of commands that are given none: `$KUBECONFIG` (its first file that there is), else that of a
    server in the working directory.
    """
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return next((path for path in named if path.exists()), named[0] if named else Path(".kubedra") / "kubeconfig")


def read(path: Path) -> Access:
    """The current context of a kubeconfig file; ValueError in one line where it cannot be used."""
    import yaml

    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from error
    try:
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config.get("users") or [], context.get("user", "")).get("user") or {}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a kubeconfig with a current context") from error
    ca = cluster.get("certificate-authority-data", "")
    text = (
        base64.b64decode(ca).decode()
        if ca
        else Path(cluster["certificate-authority"]).read_text()
        if "certificate-authority" in cluster
        else ""
    )
    return Access(
        server=cluster["server"],
        token=user.get("token", ""),
        ca=text,
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        namespace=context.get("namespace") or "default",
    )


def _named(items: list[dict[str, dict[str, str]]], name: str) -> dict[str, dict[str, str]]:
    return next((item for item in items if item["name"] == name), {})  # type: ignore[comparison-overlap]
