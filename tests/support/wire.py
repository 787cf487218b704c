"""A server as a child process, and a client that sees every byte: status line, headers, chunks."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from apiserver.api.objects import Json
from tests.support.patience import CLOCK, ended, run_command

ROOT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    """Return a child's environment, in which this repository's packages come first."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path}


def command(*flags: str) -> list[str]:
    return [sys.executable, "-P", "-m", "apiserver", *flags]


def refused(*flags: str) -> tuple[int, str]:
    """Return the exit code and stderr of a start that is expected to fail."""
    done = run_command(command(*flags), env=environment(), text=True)
    return done.returncode, done.stderr


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `headers` has lower-case names; repeated ones are in `all_headers`."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    all_headers: tuple[tuple[str, str], ...] = ()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def message(self) -> str:
        """The message of a Status."""
        return str(self.json["message"])

    @property
    def reason(self) -> str:
        """The reason of a Status."""
        return str(self.json["reason"])

    @property
    def refusal(self) -> tuple[int, str]:
        """The code and the message of a Status."""
        return self.status, self.message

    @property
    def failure(self) -> tuple[int, str]:
        """The code and the reason of a Status."""
        return self.status, self.reason


#: Media types of patches by the names that `Wire.patch` knows them by.
PATCHES: Final = {
    "apply": "application/apply-patch+yaml",
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class Wire:
    """A client of a server, with one token."""

    def __init__(self, url: str, token: str = "", ca: str = "") -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.url, self._token, self._host, self._port, self._ca = url, token, parts.hostname, parts.port, ca

    def user(self, token: str) -> Wire:
        """Return a client of the same server with another token."""
        return Wire(self.url, token, self._ca)

    def _connect(self) -> http.client.HTTPConnection:
        if self.url.startswith("https"):
            context = ssl.create_default_context(cadata=self._ca)
            return http.client.HTTPSConnection(self._host, self._port, context=context)
        return http.client.HTTPConnection(self._host, self._port)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        sent = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        connection.request(method, path, body, {**sent, **headers})
        return connection.getresponse()

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send one request on its own connection. A body that is not bytes is sent as JSON."""
        given = dict(headers or {})
        data: bytes | None = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        connection = self._connect()
        try:
            answer = self._send(connection, method, path, data, given)
            pairs = tuple((name.lower(), value) for name, value in answer.getheaders())
            return Answer(answer.status, dict(pairs), answer.read(), pairs)
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        """Send a GET; header names are given with underscores."""
        return self.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.request("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})

    def put(self, path: str, body: Any) -> Answer:
        return self.request("PUT", path, body)

    def delete(self, path: str, body: Any = None) -> Answer:
        return self.request("DELETE", path, body)

    def patch(self, path: str, body: Any, form: str = "merge", **headers: str) -> Answer:
        """Send a patch of a form in `PATCHES`."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("PATCH", path, body, {"Content-Type": PATCHES[form], **given})

    def create(self, path: str, body: Any) -> Json:
        """Create an object; return it as the server answers it."""
        made = self.post(path, body)
        assert made.status == 201, made.text
        return dict(made.json)

    def create_config_map(self, name: str, namespace: str = "default", **data: str) -> Json:
        return self.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": name}, "data": data})

    @contextmanager
    def watch(self, path: str, **headers: str) -> Iterator[Watch]:
        connection = self._connect()
        try:
            answer = self._send(
                connection, "GET", path, None, {name.replace("_", "-"): value for name, value in headers.items()}
            )
            yield Watch(answer)
        finally:
            connection.close()

    def open_watches(self) -> int:
        """Return how many watches are open according to the metrics."""
        lines = self.get("/metrics").text.splitlines()
        return sum(
            int(float(line.rpartition(" ")[2])) for line in lines if line.startswith("apiserver_longrunning_requests{")
        )


class Watch:
    """An open stream of events."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        self._answer = answer

    def line(self) -> bytes:
        """Return the next line as sent; b"" at the end."""
        return self._answer.readline()

    def event(self) -> Json:
        return dict(json.loads(self.line()))

    def read(self, size: int) -> bytes:
        """Return so many bytes."""
        return self._answer.read(size)

    def rest(self) -> bytes:
        """Return everything until the server ends the stream."""
        return self._answer.read()


class Child:
    """A server in its own process; ready when entered."""

    def __init__(self, directory: Path, *flags: str, before: Sequence[str] = ()) -> None:
        """Prepare the command line.

        Args:
            directory: the data directory; the log is beside it.
            flags: further flags of the server.
            before: a command that runs the server's command line, such as `strace -f`.
        """
        self._before = list(before)
        self._flags = ["--announce", "--attached", "--port=0", f"--data-dir={directory}", *flags]
        if not any(flag.startswith("--storage") for flag in flags):
            self._flags.append("--storage=memory")
        self.directory = directory

    def __enter__(self) -> Self:
        self._log = (self.directory.parent / f"{self.directory.name}.log").open("w+")
        self.process = subprocess.Popen(
            [*self._before, *command(*self._flags)],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log()
        self.announced: Json = json.loads(line)
        return self

    @property
    def url(self) -> str:
        return str(self.announced["url"])

    def wire(self, token: str = "", ca: str = "") -> Wire:
        return Wire(self.url, token, ca)

    def log(self) -> str:
        """Return what the child wrote to stderr."""
        self._log.flush()
        return Path(self._log.name).read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Send a signal; return the exit code and the fair seconds until the exit."""
        started = CLOCK.seconds
        self.process.send_signal(number)
        code = ended(self.process, "the server has ended")
        return code, CLOCK.seconds - started

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._log.close()
