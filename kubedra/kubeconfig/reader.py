"""Kubeconfigs: the address of a server, its CA, and the user's credentials.

Supported fields of a user: token, tokenFile, username with password, client-certificate(-data) with client-key(-data),
exec, as, as-uid, as-groups and as-user-extra. Of a cluster: server, certificate-authority(-data),
insecure-skip-tls-verify and tls-server-name. auth-provider and proxy-url raise an error. Facts: client-go
(tools/clientcmd).
"""

from __future__ import annotations

import os
import ssl
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any, NamedTuple

from kubedra.kubeconfig.credentials import NO_CREDENTIALS, Credentials, Headers, KubeconfigError, Plugin, escape_header
from kubedra.runtime.failures import describe_failure
from kubedra.runtime.objects import Json
from kubedra.runtime.user_settings import data_dir

__all__ = ["Cluster", "KubeconfigError", "default_files", "read_kubeconfig", "read_users"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One server, its CA in PEM (empty: the system's CAs), and the credentials for it."""

    server: str
    authority: bytes = b""
    credentials: Credentials = NO_CREDENTIALS
    namespace: str = "default"

    def headers(self) -> Headers:
        return self.credentials.headers()

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None for plain HTTP. Raises OSError and ValueError."""
        if not self.server.startswith("https:"):
            return None
        context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
        context.server_name = self.credentials.server_name
        # As in Go, any certificate of a bundle may be the server's.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self.authority:
            context.load_verify_locations(cadata=self.authority.decode())
        elif not self.credentials.insecure:
            context.load_default_certs()
        self.credentials.show(context)
        return context


class _NamedContext(ssl.SSLContext):
    """A client context that expects a fixed server name, if set, instead of the host."""

    server_name = ""

    def wrap_socket(
        self,
        sock: socket,
        server_side: bool = False,
        do_handshake_on_connect: bool = True,
        suppress_ragged_eofs: bool = True,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLSocket:
        name = self.server_name or server_hostname
        return super().wrap_socket(sock, server_side, do_handshake_on_connect, suppress_ragged_eofs, name, session)

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side, self.server_name or server_hostname, session)


def default_files() -> tuple[Path, ...]:
    """Return the default kubeconfig files of commands.

    These are the existing files of `$KUBECONFIG`, or the file of a server in the working directory.
    """
    paths = tuple(Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part)
    return tuple(path for path in paths if path.exists()) or paths[:1] or (data_dir() / "kubeconfig",)


def read_kubeconfig(path: Path | None = None, context_name: str = "") -> Cluster:
    """Return the cluster of a context of a file, or of the merged `default_files()`; by default the current context.

    Raises KubeconfigError.
    """
    config = _Config((path,) if path else default_files())
    context = config.find("context", context_name or config.current_context())
    cluster = config.find("cluster", context.text("cluster"))
    user = config.find("user", context.text("user")) if context.text("user") else _Section(context.path, "user", "", {})
    if not cluster.text("server"):
        raise cluster.error("has no server")
    if cluster.text("proxy-url"):
        raise cluster.error("proxy-url is not supported")
    authority = cluster.pem("certificate-authority")
    if authority and cluster.fields.get("insecure-skip-tls-verify"):
        raise cluster.error("has a certificate authority and insecure-skip-tls-verify; only one is allowed")
    _check_authority(cluster, authority)
    return Cluster(
        server=cluster.text("server"),
        authority=authority,
        credentials=_credentials(user, cluster),
        namespace=context.text("namespace") or "default",
    )


def read_users(path: Path) -> dict[str, Credentials]:
    """Return the credentials of each user of a file. Raises KubeconfigError."""
    users = _document(path).get("users") or []
    if not isinstance(users, list) or not all(isinstance(each, dict) and each.get("name") for each in users):
        raise KubeconfigError(f"{path}: users must be a list of users with names")
    config, nowhere = _Config((path,)), _Section(path, "cluster", "", {})
    names = [str(each["name"]) for each in users]
    return {name: _credentials(config.find("user", name), nowhere) for name in names}


class _Section(NamedTuple):
    """A context, cluster or user, with its file. Relative paths are relative to that file."""

    path: Path
    kind: str
    name: str
    fields: Json

    def error(self, text: str) -> KubeconfigError:
        return KubeconfigError(f"{self.path}: {self.kind} {self.name!r}: {text}")

    def text(self, field: str) -> str:
        return str(self.fields.get(field) or "")

    def items(self, field: str) -> list[Any]:
        """Return the items of a list, none if the field is empty. Raises KubeconfigError."""
        found = self.fields.get(field) or []
        if not isinstance(found, list):
            raise self.error(f"{field} is not a list")
        return found

    def file(self, field: str) -> Path | None:
        return self.path.parent / self.text(field) if self.text(field) else None

    def pem(self, field: str) -> bytes:
        if data := self.fields.get(f"{field}-data"):
            try:
                return b64decode("".join(data.split()), validate=True)
            except (AttributeError, ValueError) as error:
                raise KubeconfigError(f"{self.path}: {field}-data: {error}") from error
        try:
            file = self.file(field)
            return file.read_bytes() if file else b""
        except OSError as error:
            raise KubeconfigError(f"{self.path}: {field}: {error}") from error


class _Config:
    """Kubeconfig files, merged as in client-go: the first file that has an entry wins."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._documents = [(path, _document(path)) for path in files]
        self._name = os.pathsep.join(str(path) for path, _ in self._documents)

    def current_context(self) -> str:
        for _, document in self._documents:
            if document.get("current-context"):
                return str(document["current-context"])
        raise KubeconfigError(f"{self._name}: no current-context")

    def find(self, kind: str, name: str) -> _Section:
        for path, entry in self._entries(f"{kind}s"):
            if isinstance(entry, dict) and entry.get("name") == name:
                fields = entry.get(kind) or {}
                if not isinstance(fields, dict):
                    raise KubeconfigError(f"{path}: the {kind} {name!r} is not a mapping")
                return _Section(path, kind, name, fields)
        raise KubeconfigError(f"{self._name}: {kind}s has no {name!r}")

    def _entries(self, field: str) -> Iterator[tuple[Path, Any]]:
        for path, document in self._documents:
            listed = document.get(field)
            yield from ((path, entry) for entry in (listed if isinstance(listed, list) else ()))


def _document(path: Path) -> Json:
    import yaml

    try:
        found = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        hint = ""
        if isinstance(error, FileNotFoundError) and path == data_dir() / "kubeconfig":
            hint = "; start a server with `kubedra up`, or set --kubeconfig or $KUBECONFIG"
        raise KubeconfigError(f"{path}: {describe_failure(error)}{hint}") from error
    return found if isinstance(found, dict) else {}


def _check_authority(cluster: _Section, authority: bytes) -> None:
    if not authority:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authority.decode())
    except (OSError, ValueError) as error:
        raise cluster.error(f"certificate-authority: not a usable certificate: {error}") from error


def _credentials(user: _Section, cluster: _Section) -> Credentials:
    """Return the credentials of a user, with its cluster's TLS settings. Raises KubeconfigError."""
    if user.fields.get("auth-provider"):
        raise user.error(
            "auth-provider is not supported, because Kubernetes removed it; use exec, a token or a client certificate"
        )
    found = Credentials(
        token=user.text("token"),
        token_file=str(user.file("tokenFile") or ""),
        user=user.text("username"),
        password=user.text("password"),
        certificate=user.pem("client-certificate"),
        key=user.pem("client-key"),
        server_name=cluster.text("tls-server-name"),
        insecure=bool(cluster.fields.get("insecure-skip-tls-verify")),
        impersonation=_impersonation(user),
    )
    if found.user and (found.token or found.token_file):
        raise user.error("has a token and a username; only one is allowed")
    if bool(found.certificate) != bool(found.key):
        raise user.error("client-certificate and client-key need each other")
    try:
        found.headers()
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{user.path}: tokenFile: {error}") from error
    try:
        found.show(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    except OSError as error:
        raise KubeconfigError(f"{user.path}: the certificate of user {user.name!r} cannot be used: {error}") from error
    if user.fields.get("exec"):
        return found._replace(plugin=_plugin(user, cluster))
    return found


def _plugin(user: _Section, cluster: _Section) -> Plugin:
    from kubedra.kubeconfig.exec_plugin import ExecPlugin

    spec = user.fields["exec"]
    if not isinstance(spec, dict):
        raise user.error("exec is not a mapping")
    info: Json = {"server": cluster.text("server")}
    if name := cluster.text("tls-server-name"):
        info["tls-server-name"] = name
    if cluster.fields.get("insecure-skip-tls-verify"):
        info["insecure-skip-tls-verify"] = True
    if authority := cluster.pem("certificate-authority"):
        info["certificate-authority-data"] = b64encode(authority).decode()
    for extension in cluster.items("extensions"):
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return ExecPlugin(f"{user.path}: user {user.name!r}: exec", spec, user.path.parent, info)


def _impersonation(user: _Section) -> Headers:
    """Return the impersonation headers of a user. Raises KubeconfigError."""
    name, uid = user.text("as"), user.text("as-uid")
    groups, extra = user.items("as-groups"), user.fields.get("as-user-extra") or {}
    if not isinstance(extra, dict) or not all(isinstance(values, list) for values in extra.values()):
        raise user.error("as-user-extra is not a mapping of lists")
    if not name:
        if uid or groups or extra:
            raise user.error("as-uid, as-groups and as-user-extra need as")
        return ()
    return (
        ("impersonate-user", name),
        *((("impersonate-uid", uid),) if uid else ()),
        *(("impersonate-group", str(group)) for group in groups),
        *(
            (f"impersonate-extra-{escape_header(str(key))}", str(value))
            for key, values in extra.items()
            for value in values
        ),
    )
