"""A client connection to the server."""

from __future__ import annotations

import socket

from tests.support.patience import Deadline
from tools.fuzz import rules


class Connection:
    """A connection that reopens after it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._data = b""

    def ask(self, data: bytes, *, bodiless: bool = False) -> rules.Answer | None:
        """Send a request; return the answer, or None if the server closes the connection.

        Raises:
            ValueError: the bytes are no HTTP response.
            TimeoutError: no answer in time.
        """
        self.send(data)
        return self.answer(bodiless=bodiless)

    @property
    def open(self) -> bool:
        """Whether the connection remains open after the last answer."""
        return self._socket is not None

    def send(self, data: bytes) -> None:
        """Send requests."""
        if self._socket is None:
            self._socket, self._data = connect(self._port), b""
        try:
            self._socket.sendall(data)
        except ConnectionError:
            pass  # what it has answered can be read all the same
        except TimeoutError:
            self.close()
            raise

    def answer(self, *, bodiless: bool = False) -> rules.Answer | None:
        """Read the next answer; as `ask`."""
        assert self._socket is not None, "something was sent"
        try:
            made = rules.read(self._data, bodiless=bodiless)
            while made is None or made.status == 100:
                if made is not None:
                    self._data = self._data[made.end :]
                elif part := receive(self._socket):
                    self._data += part
                else:
                    made = rules.read(self._data, bodiless=bodiless)  # one that its connection ends
                    self.close()
                    return made
                made = rules.read(self._data, bodiless=bodiless)
        except (ConnectionError, ValueError, TimeoutError):
            self.close()
            raise
        self._data = self._data[made.end :]
        if made.body is None or made.last:
            self.close()
        return made

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def connect(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.settimeout(0.5)
    return made


def receive(connection: socket.socket) -> bytes:
    """Return the next bytes; b"" at the end. Raise TimeoutError after fair seconds."""
    deadline = Deadline()
    while True:
        try:
            return connection.recv(1 << 20)
        except TimeoutError:
            if deadline.passed:
                raise TimeoutError("no answer") from None
