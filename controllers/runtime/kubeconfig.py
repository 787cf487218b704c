"""Where a server is and how to speak to it: a URL, or a kubeconfig file's current context.

Understood: server, certificate-authority(-data), insecure-skip-tls-verify; token, tokenFile, client-certificate(-data)
with client-key(-data). Anything that would need a program or a login flow is refused in one line.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class KubeconfigError(Exception):
    """The file cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One server and the credentials for it. Certificates are PEM."""

    server: str
    authority: bytes = b""
    insecure: bool = False
    token: str = ""
    certificate: bytes = b""
    key: bytes = b""

    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def tls_context(self) -> ssl.SSLContext | None:
        """The context for https, or None for plain http."""
        if not self.server.startswith("https:"):
            return None
        context = ssl.create_default_context(cadata=self.authority.decode() if self.authority else None)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            _load_identity(context, self.certificate, self.key)
        return context


def _load_identity(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """`ssl` reads certificates from files only: a private one, removed at once."""
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate + b"\n" + key)
        # With a password, even none, an encrypted key is refused; without, somebody would be asked for it.
        context.load_cert_chain(name, password="")
    finally:
        Path(name).unlink()


def load_kubeconfig(path: Path) -> Cluster:
    """The current context of a kubeconfig file. Raises KubeconfigError."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise KubeconfigError(f"{path}: {error}") from error
    if not isinstance(document, dict) or not document.get("current-context"):
        raise KubeconfigError(f"{path}: no current-context")
    context = _named(path, document, "contexts", "context", document["current-context"])
    cluster = _named(path, document, "clusters", "cluster", context.get("cluster"))
    user = _named(path, document, "users", "user", context["user"]) if context.get("user") else {}
    for field in ("exec", "auth-provider", "username"):
        if user.get(field):
            raise KubeconfigError(
                f"{path}: user {context['user']!r}: {field} is not supported; use a token or a client certificate"
            )
    if not cluster.get("server"):
        raise KubeconfigError(f"{path}: cluster {context.get('cluster')!r} has no server")
    token = user.get("token") or ""
    if not token and user.get("tokenFile"):
        try:
            token = (path.parent / user["tokenFile"]).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise KubeconfigError(f"{path}: tokenFile: {error}") from error
    return Cluster(
        server=cluster["server"].rstrip("/"),
        authority=_pem(path, cluster, "certificate-authority"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        token=token,
        certificate=_pem(path, user, "client-certificate"),
        key=_pem(path, user, "client-key"),
    )


def _named(path: Path, document: dict[str, Any], group: str, field: str, name: object) -> dict[str, Any]:
    for entry in document.get(group) or ():
        if entry.get("name") == name:
            found: dict[str, Any] = entry.get(field) or {}
            return found
    raise KubeconfigError(f"{path}: {group} has no {name!r}")


def _pem(path: Path, section: dict[str, Any], field: str) -> bytes:
    if data := section.get(f"{field}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except ValueError as error:
            # Read leniently, an authority that is none would mean those of the system.
            raise KubeconfigError(f"{path}: {field}-data: {error}") from error
    if file := section.get(field):
        try:
            return (path.parent / str(file)).read_bytes()
        except OSError as error:
            raise KubeconfigError(f"{path}: {field}: {error}") from error
    return b""
