"""A copy of a running control plane: a forked process with an address and a state of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kubedra.client.paths import join_path

if TYPE_CHECKING:
    from kubedra.client.client import AsyncClient, Client

__all__ = ["Fork"]


class Fork:
    """A copy of a control plane, made by `ControlPlane.fork`. It ends with `stop`, or with the original."""

    def __init__(self, original: Client, described: Mapping[str, Any], *, virtual: bool, jobs_exit_after: str) -> None:
        self._original, self._described = original, described
        self.virtual, self.jobs_exit_after = virtual, jobs_exit_after
        self._stopped = False

    @property
    def name(self) -> str:
        """Its name among the copies of the original."""
        return str(self._described["name"])

    @property
    def url(self) -> str:
        """The address of its server."""
        return str(self._described["url"])

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for its server."""
        return Path(self._described["kubeconfig"])

    @property
    def data_dir(self) -> Path:
        """Its directory."""
        return self.kubeconfig.parent

    @property
    def pid(self) -> int:
        """Its process id."""
        return int(self._described["pid"])

    def __repr__(self) -> str:
        return f"<kubedra.Fork {self.name} {self.url}>"

    def client(self) -> Client:
        """Return a client of its server. Close it, or use it in a `with`."""
        from kubedra.client.client import Client

        return Client.from_kubeconfig(self.kubeconfig)

    def async_client(self) -> AsyncClient:
        """Return a client of its server for an event loop."""
        from kubedra.client.client import AsyncClient

        return AsyncClient.from_kubeconfig(self.kubeconfig)

    @property
    def log_file(self) -> Path:
        """The log file of its server."""
        return self.data_dir / "server.log"

    def log_size(self) -> int:
        """Return the size of its server's output so far, in bytes."""
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def log(self, begin: int = 0) -> str:
        """Return its server's output so far, without its first `begin` bytes."""
        return self.log_file.read_bytes()[begin:].decode(errors="replace") if self.log_file.exists() else ""

    def fork(self, name: str = "") -> Fork:
        """Return a copy of this copy; see `ControlPlane.fork`."""
        return fork_of(self.client(), name, virtual=self.virtual, jobs_exit_after=self.jobs_exit_after)

    def reset(self) -> None:
        """Delete all objects except the built-in ones and the nodes that were created at start."""
        with self.client() as client:
            client.request("POST", "/-/reset")

    def stop(self) -> None:
        """End its process. Stopping twice is allowed."""
        if self._stopped:
            return
        self._stopped = True
        import httpx

        from kubedra.client.client import ApiError

        with self._original, contextlib.suppress(ApiError, ConnectionError, httpx.HTTPError):
            # Without the original it has ended, too.
            self._original.request("DELETE", join_path("-", "clusters", self.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def fork_of(client: Client, name: str, *, virtual: bool, jobs_exit_after: str, snapshot: str = "") -> Fork:
    """Copy the server of a client, which the copy keeps. Raise ApiError."""
    import secrets

    body = {"name": name or f"fork-{secrets.token_hex(4)}", "snapshot": snapshot}
    try:
        described = client.request("POST", "/-/clusters", body)
    except BaseException:
        client.close()
        raise
    return Fork(client, described, virtual=virtual, jobs_exit_after=jobs_exit_after)
