"""Kubeconfigs: where a server is, whom to trust for it, and how whoever asks shows who that is.

Understood of a user: token, tokenFile, username with password, client-certificate(-data) with client-key(-data); of a
cluster: server, certificate-authority(-data), insecure-skip-tls-verify, tls-server-name. Anything that would need a
program or a login flow is refused in one line. Facts: client-go (tools/clientcmd).
"""

from __future__ import annotations

import os
import ssl
import tempfile
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["NOBODY", "Credentials", "Kubeconfig", "KubeconfigError", "load_chain", "read_kubeconfig", "read_users"]

Json = dict[str, Any]


class KubeconfigError(ValueError):
    """A kubeconfig that cannot be used, in one line."""


class Credentials(NamedTuple):
    """What is shown with a request, in PEM what belongs to TLS. `server_name` is the name that the other's certificate
    has to be for, if not its host; `insecure` takes any certificate.
    """

    token: str = ""
    token_file: str = ""
    user: str = ""
    password: str = ""
    certificate: bytes = b""
    key: bytes = b""
    server_name: str = ""
    insecure: bool = False

    def headers(self) -> dict[str, str]:
        token = self.token
        if self.token_file:
            # Whoever renews it writes it anew.
            token = Path(self.token_file).read_text().strip()
        if token:
            return {"authorization": f"Bearer {token}"}
        if self.user:
            return {"authorization": "Basic " + b64encode(f"{self.user}:{self.password}".encode()).decode()}
        return {}

    def show(self, trust: ssl.SSLContext) -> None:
        """Put into a context what belongs to TLS."""
        if self.insecure:
            trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        if self.certificate:
            load_chain(trust, self.certificate, self.key)


def load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Has a context show a certificate, in PEM as its key. Raises OSError, ssl.SSLError."""
    # `ssl` reads certificates from files alone: a private one, removed at once.
    handle, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate + b"\n" + key)
        # With a password, even none, an encrypted key is refused; without, somebody would be asked for it.
        context.load_cert_chain(name, password="")
    finally:
        Path(name).unlink()


NOBODY: Final = Credentials()


class Kubeconfig(NamedTuple):
    """What the current context of a kubeconfig says: the server's URL, whom to trust for it, who asks."""

    server: str
    authority: bytes
    credentials: Credentials


def read_kubeconfig(path: Path) -> Kubeconfig:
    """What the current context of a file says. Raises KubeconfigError."""
    found = _document(path)
    if not isinstance(found, dict) or not found.get("current-context"):
        raise KubeconfigError(f"{path}: no current-context")
    context = _named(path, found, "context", found["current-context"])
    cluster = _named(path, found, "cluster", context.get("cluster", ""))
    user = _named(path, found, "user", context["user"]) if context.get("user") else {}
    if not cluster.get("server"):
        raise KubeconfigError(f"{path}: the cluster of its current context has no server")
    return Kubeconfig(
        str(cluster["server"]),
        _pem(path, cluster, "certificate-authority"),
        _credentials(path, str(context.get("user") or ""), user, cluster),
    )


def read_users(path: Path) -> dict[str, Credentials]:
    """What each user of a file shows. Raises KubeconfigError."""
    found = _document(path)
    users = (found.get("users") or []) if isinstance(found, dict) else []
    named = isinstance(users, list) and all(isinstance(each, dict) and each.get("name") for each in users)
    if not named:
        raise KubeconfigError(f"{path}: users has to be a list of users with names")
    names = [str(each["name"]) for each in users]
    return {name: _credentials(path, name, _named(path, found, "user", name), {}) for name in names}


def _document(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise KubeconfigError(f"{path}: {' '.join(str(error).split())}") from error


def _credentials(path: Path, name: str, user: Json, cluster: Json) -> Credentials:
    """What a user of a kubeconfig shows, and what its cluster asks of certificates. Raises KubeconfigError."""
    for field in ("exec", "auth-provider"):
        if user.get(field):
            raise KubeconfigError(
                f"{path}: user {name!r}: {field} is not supported; use a token or a client certificate"
            )
    token_file = str(user.get("tokenFile") or "")
    found = Credentials(
        token=str(user.get("token") or ""),
        token_file=str(path.parent / token_file) if token_file else "",
        user=str(user.get("username") or ""),
        password=str(user.get("password") or ""),
        certificate=_pem(path, user, "client-certificate"),
        key=_pem(path, user, "client-key"),
        server_name=str(cluster.get("tls-server-name") or ""),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
    )
    try:
        found.headers()
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{path}: tokenFile: {error}") from error
    try:
        found.show(ssl.create_default_context())
    except (OSError, ssl.SSLError) as error:
        raise KubeconfigError(f"{path}: the certificate of user {name!r} cannot be used: {error}") from error
    return found


def _named(path: Path, config: Json, kind: str, name: str) -> Json:
    listed = config.get(f"{kind}s")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and each.get("name") == name:
            found: Json = each.get(kind) or {}
            if not isinstance(found, dict):
                raise KubeconfigError(f"{path}: the {kind} {name!r} is no mapping")
            return found
    raise KubeconfigError(f"{path}: {kind}s has no {name!r}")


def _pem(path: Path, section: Json, field: str) -> bytes:
    if data := section.get(f"{field}-data"):
        try:
            return b64decode("".join(data.split()), validate=True)
        except (AttributeError, ValueError) as error:
            raise KubeconfigError(f"{path}: {field}-data: {error}") from error
    if file := section.get(field):
        try:
            return (path.parent / str(file)).read_bytes()
        except OSError as error:
            raise KubeconfigError(f"{path}: {field}: {error}") from error
    return b""
