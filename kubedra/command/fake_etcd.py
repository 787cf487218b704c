"""A stand-in for etcd in envtest: it reports that it is healthy and stores nothing.

It runs as a file and imports only the standard library, so that it starts quickly.
"""

from __future__ import annotations

import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_HELP = """\
kubedra's stand-in for etcd: it serves /health and /version. kubedra's API server stores its objects itself.

      --listen-client-urls string    address to listen on (default http://127.0.0.1:2379)

Other flags of etcd are accepted and ignored.
"""
_ANSWERS = {
    "/health": b'{"health":"true","reason":""}',
    "/version": b'{"etcdserver":"3.6.0","etcdcluster":"3.6.0"}',
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = _ANSWERS.get(urlsplit(self.path).path, b"404 page not found\n")
        self.send_response(200 if body in _ANSWERS.values() else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def _address(arguments: list[str]) -> tuple[str, int]:
    value = "http://127.0.0.1:2379"
    for at, word in enumerate(arguments):
        name, equals, given = word.partition("=")
        if name.lstrip("-") == "listen-client-urls":
            value = given if equals else arguments[at + 1]
    url = urlsplit(value.split(",", maxsplit=1)[0])
    return url.hostname or "127.0.0.1", url.port or 2379


def main(arguments: list[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        print(_HELP, end="")
        return 0
    try:
        server = _Server(_address(arguments), _Handler)
    except (OSError, ValueError, IndexError) as error:
        print(f"etcd: --listen-client-urls: {error}", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(0.05)
    server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
