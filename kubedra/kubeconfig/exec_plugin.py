"""Credentials from a program: the `exec` users of kubeconfigs.

Facts: client.authentication.k8s.io/v1 and v1beta1; client-go (plugin/pkg/client/auth/exec).
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn
from weakref import WeakSet

from kubedra.kubeconfig.credentials import KubeconfigError, load_chain
from kubedra.runtime.objects import Json

__all__ = ["ExecPlugin"]

_V1: Final = "client.authentication.k8s.io/v1"
_VERSIONS: Final = (_V1, "client.authentication.k8s.io/v1beta1")
_MODES: Final = ("Never", "IfAvailable", "Always")


class _IssuedCredential(NamedTuple):
    """A credential printed by the program."""

    token: str
    certificate: bytes
    key: bytes
    expires: datetime | None


class ExecPlugin:
    """A credential source that runs a program when its last credential has expired.

    `where` names the user entry in errors.
    """

    def __init__(self, where: str, spec: Mapping[str, Any], directory: Path, cluster: Json) -> None:
        """Validate the entry. Raises KubeconfigError.

        `directory` is the directory of the kubeconfig. `cluster` is the cluster information for programs that request
        it.
        """
        self._where, self._version = where, str(spec.get("apiVersion") or "")
        if self._version not in _VERSIONS:
            self._fail(f'apiVersion "{self._version}" is not supported; use {_V1}')
        command = str(spec.get("command") or "")
        if not command:
            self._fail("command is required")
        self._mode = str(spec.get("interactiveMode") or ("" if self._version == _V1 else "IfAvailable"))
        if self._mode not in _MODES:
            self._fail(f"interactiveMode must be one of {', '.join(_MODES)}")
        path = str(directory.absolute() / command) if "/" in command else command
        arguments, variables = spec.get("args") or [], spec.get("env") or []
        if not isinstance(arguments, list):
            self._fail("args must be a list")
        if not isinstance(variables, list) or not all(
            isinstance(each, dict) and each.get("name") for each in variables
        ):
            self._fail("env must be a list of variables with names")
        self._command = [path, *map(str, arguments)]
        self._environment = {
            str(each["name"]): "" if each.get("value") is None else str(each["value"]) for each in variables
        }
        self._hint = str(spec.get("installHint") or "")
        self._cluster = cluster if spec.get("provideClusterInfo") else None
        self._lock = threading.Lock()
        self._issued: _IssuedCredential | None = None
        #: Contexts that have its certificate.
        self._contexts: WeakSet[ssl.SSLContext] = WeakSet()

    def token(self) -> str:
        return self._current().token

    def show(self, trust: ssl.SSLContext) -> None:
        issued = self._current()
        if issued.certificate:
            self._load(trust, issued)
            self._contexts.add(trust)

    def is_current(self) -> bool:
        issued = self._issued
        return issued is not None and (issued.expires is None or datetime.now(UTC) < issued.expires)

    def expire(self) -> None:
        self._issued = None

    def _current(self) -> _IssuedCredential:
        with self._lock:
            issued = self._issued
            if issued is None or not self.is_current():
                issued = self._issued = self._parse(self._run())
                for context in self._contexts:
                    self._load(context, issued)
            return issued

    def _load(self, context: ssl.SSLContext, issued: _IssuedCredential) -> None:
        try:
            load_chain(context, issued.certificate, issued.key)
        except (OSError, ValueError) as error:
            self._fail(f"its certificate cannot be used: {error}")

    def _run(self) -> bytes:
        interactive = self._mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if self._mode == "Always" and not interactive:
            self._fail("interactiveMode is Always, but standard input is not a terminal")
        spec = {"interactive": interactive} | ({} if self._cluster is None else {"cluster": self._cluster})
        info = json.dumps({"apiVersion": self._version, "kind": "ExecCredential", "spec": spec})
        try:
            done = subprocess.run(  # noqa: S603 - the program that the user's kubeconfig names
                self._command,
                env={**os.environ, **self._environment, "KUBERNETES_EXEC_INFO": info},
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                check=False,
            )
        except OSError as error:
            hint = f"; {' '.join(self._hint.split())}" if self._hint else ""
            self._fail(f"{self._command[0]}: {error.strerror}{hint}")
        if done.returncode:
            self._fail(f"{self._command[0]} failed with exit code {done.returncode}")
        return done.stdout

    def _parse(self, printed: bytes) -> _IssuedCredential:
        try:
            found = json.loads(printed)
            kind, version, status = found.get("kind"), found.get("apiVersion"), found.get("status")
        except (ValueError, AttributeError):
            self._fail(f"{self._command[0]} printed no ExecCredential in JSON")
        if (kind, version) != ("ExecCredential", self._version):
            self._fail(f"{self._command[0]} printed {kind} of {version}, not ExecCredential of {self._version}")
        status = status if isinstance(status, dict) else {}
        token, certificate, key = (
            str(status.get(field) or "") for field in ("token", "clientCertificateData", "clientKeyData")
        )
        if bool(certificate) != bool(key) or not (token or certificate):
            self._fail(f"{self._command[0]} returned neither a token nor a certificate with its key")
        try:
            expires = status.get("expirationTimestamp")
            until = datetime.fromisoformat(expires) if expires else None
            if until is not None and until.tzinfo is None:
                raise ValueError("no time zone")
        except (TypeError, ValueError):
            self._fail(f"{self._command[0]} returned an invalid expirationTimestamp: {expires}")
        return _IssuedCredential(token, certificate.encode(), key.encode(), until)

    def _fail(self, text: str) -> NoReturn:
        raise KubeconfigError(f"{self._where}: {text}") from None
