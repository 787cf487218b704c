"""`kubedra health`: whether a server or the controllers answer that they are ready; for health checks. Standard library
only: it runs often.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from kubedra.arguments import Parser


def health(args: Sequence[str]) -> int:
    """Exit code 0 if it is ready, 1 if it is not."""
    parser = Parser(
        prog="kubedra health", description="Ask a server or the controllers whether they are ready.", allow_abbrev=False
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("url", nargs="?", metavar="URL", help="as http://127.0.0.1:10257/readyz")
    where.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="/readyz of its server, with its token; the certificate is checked (default: $KUBECONFIG,"
        " .kubedra/kubeconfig)",
    )
    parser.add_argument("--timeout", type=float, default=5.0, metavar="SECONDS", help="default 5")
    options = parser.parse_args(args)
    context: ssl.SSLContext | None = None
    url, headers = options.url, {}
    try:
        if not url:
            from kubedra import kubeconfig

            options.kubeconfig = options.kubeconfig or kubeconfig.default()
            access = kubeconfig.read(options.kubeconfig)
            url = f"{access.server.rstrip('/')}/readyz"
            headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
            verify = access.verify() if url.startswith("https:") else None
            context = verify if isinstance(verify, ssl.SSLContext) else None
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(urllib.request.Request(url, headers=headers), timeout=options.timeout) as answer:  # noqa: S310 - the user's own URL
            print(answer.read(200).decode(errors="replace"))
    except urllib.error.HTTPError as error:
        print(f"{url}: {error.code} {error.read(500).decode(errors='replace')}")
        return 1
    except (OSError, ValueError) as error:
        print(f"{url or options.kubeconfig}: {getattr(error, 'reason', None) or error}")
        return 1
    return 0
