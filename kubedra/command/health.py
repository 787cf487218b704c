"""`kubedra health`: check whether a server or the controllers are ready.

It runs often, so it imports only the standard library.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from kubedra.command.arguments import Parser
from kubedra.kubeconfig.reader import Cluster, read_kubeconfig


def health(args: Sequence[str]) -> int:
    """Run `kubedra health`. Return 0 if the server is ready, else 1."""
    parser = Parser(
        prog="kubedra health", description="Check whether a server or the controllers are ready.", allow_abbrev=False
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("url", nargs="?", metavar="URL", help="URL to check, such as http://127.0.0.1:10257/readyz")
    where.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="check /readyz of the server in this kubeconfig, with its credentials and CA (default: $KUBECONFIG,"
        " .kubedra/kubeconfig)",
    )
    parser.add_argument("--timeout", type=float, default=5.0, metavar="SECONDS", help="timeout in seconds (default 5)")
    options = parser.parse_args(args)
    url = options.url
    try:
        cluster = Cluster(server=url) if url else read_kubeconfig(options.kubeconfig)
        url = url or f"{cluster.server.rstrip('/')}/readyz"
        status, text = _get(cluster, url, options.timeout)
    except (OSError, ValueError, HTTPException) as error:
        print(f"{url}: {error}" if url else error)
        return 1
    if status != HTTPStatus.OK:
        print(f"{url}: {status} {text}")
        return 1
    print(text)
    return 0


def _get(cluster: Cluster, url: str, timeout: float) -> tuple[int, str]:
    """Return the status and the text of a response. Raises OSError, ValueError, HTTPException."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError("not an http:// or https:// address")
    context = cluster.tls_context()
    connection = (
        HTTPConnection(parts.netloc, timeout=timeout)
        if context is None
        else HTTPSConnection(parts.netloc, timeout=timeout, context=context)
    )
    try:
        connection.putrequest("GET", f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}")
        for name, value in cluster.headers():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read(500).decode(errors="replace")
    finally:
        connection.close()
