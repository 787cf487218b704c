"""Cost of a Kubernetes request by the part of FastAPI on its path (docs/adr/0003-dispatcher.md).

    python -m benchmarks.dispatcher [--requests 20000] [--socket]

    as built     our own protocol between uvicorn's socket and the chain of handlers (docs/adr/0009-wire-protocol.md);
                 all others use uvicorn's, behind ASGI
    in front     the chain answers before FastAPI is called
    mounted      FastAPI's middleware and router come first; the chain is mounted behind its routes
    catch-all    one FastAPI path operation serves every Kubernetes path
    by resource  a route for each resource, subresource and scope, matched one by one, the chain behind each

Each is measured with a GET of one small claim, by an ASGI call without a socket and, with --socket, over 16 keep-alive
connections.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.routing import Route

from apiserver.app import Server
from apiserver.authentication.authenticator import ADMIN
from apiserver.http.handlers.chain import HandlerChain
from apiserver.http.server.web import Web
from apiserver.options.settings import read
from apiserver.request import messages
from apiserver.resources import CATALOG
from benchmarks.server import CLAIMS, NAMESPACE, claim
from benchmarks.wire import request, run

Message = MutableMapping[str, Any]
Asgi = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
VARIANTS = ("as built", "in front", "mounted", "catch-all", "by resource")


async def open_server(directory: str) -> Server:
    """Open a server in memory that holds one claim."""
    server = await Server.open(read(["--storage=memory", f"--data-dir={directory}", "--runtime-config=api/all=true"]))
    kind = {"content-type": "application/json"}
    for path, body in (("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}), (CLAIMS, claim("c"))):
        answer = await server.chain.handle(messages.Request("POST", path, "", kind, orjson.dumps(body), ADMIN))
        assert answer.status == 201, answer
    return server


def variant(name: str, server: Server) -> Asgi:
    """Build the application with the chain in one of the positions."""
    kubernetes = ChainAsAsgi(server.chain)
    if name == "in front":
        return kubernetes
    app = FastAPI()
    if name == "mounted":
        app.mount("/", kubernetes)
    elif name == "catch-all":

        @app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
        async def everything(asked: Request) -> Response:
            answer = await answer_of(server.chain, asked.scope, await asked.body())
            return Response(answer.body, answer.status, media_type=answer.content_type)

    else:
        for path in patterns():
            app.router.routes.append(Route(path, kubernetes, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]))
    return app


async def answer_of(chain: HandlerChain, scope: Message, body: bytes) -> messages.Response:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = scope["query_string"].decode("latin-1")
    answer = await chain.handle(messages.Request(scope["method"], scope["path"], query, headers, body))
    assert isinstance(answer, messages.Response)
    return answer


class ChainAsAsgi:
    """The chain as an ASGI application object. Starlette's Route would wrap a function."""

    def __init__(self, chain: HandlerChain) -> None:
        self._chain = chain

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        answer = await answer_of(self._chain, scope, (await receive()).get("body", b""))
        headers = [(b"content-length", b"%d" % len(answer.body)), (b"content-type", answer.content_type.encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


def patterns() -> Iterator[str]:
    """Yield a path for each resource, object and subresource in each version and scope."""
    for resource in CATALOG:
        for version in resource.versions:
            root = f"/apis/{resource.group}/{version.name}" if resource.group else f"/api/{version.name}"
            yield f"{root}/{resource.plural}"
            scoped = (
                f"{root}/namespaces/{{namespace}}/{resource.plural}"
                if resource.namespaced
                else f"{root}/{resource.plural}"
            )
            if resource.namespaced:
                yield scoped
            yield f"{scoped}/{{name}}"
            for subresource in resource.subresources:
                yield f"{scoped}/{{name}}/{subresource.name}"


async def without_socket(app: Asgi, requests: int) -> float:
    """Return the microseconds of one GET."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "http",
        "method": "GET",
        "root_path": "",
        "path": f"{CLAIMS}/c",
        "raw_path": f"{CLAIMS}/c".encode(),
        "query_string": b"",
        "headers": [(b"host", b"kubedra"), (b"accept", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8001),
    }
    answers = set()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        answers.add(message.get("status", 200))

    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(requests // 5):
            await app(dict(scope), receive, send)
        best = min(best, (time.perf_counter() - begin) / (requests // 5))
    assert answers == {200}, answers
    return best * 1e6


@contextmanager
def child(name: str) -> Iterator[str]:
    """Serve one of the variants in a process of its own. Yield its address."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.dispatcher", "--serve", name], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


async def serve(name: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with tempfile.TemporaryDirectory() as directory:
        server = await open_server(directory)
        if name == "as built":
            web: uvicorn.Server = Web(server.front)
        else:
            application: Any = variant(name, server)
            web = uvicorn.Server(
                uvicorn.Config(application, loop="none", http="httptools", lifespan="off", log_level=40)
            )
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        await web.serve(sockets=[listener])


async def measure(requests: int, *, over_socket: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        server = await open_server(directory)
        print(f"{len(list(patterns()))} paths by resource")
        for name in VARIANTS[1:]:
            app = variant(name, server)
            print(f"{name:12} {await without_socket(app, requests):8.1f} us per GET without a socket", flush=True)
        await server.close()
    if over_socket:
        raw = request("GET", f"{CLAIMS}/c")
        for name in VARIANTS:
            with child(name) as url:
                await run(url, requests // 10, 16, lambda _: raw)
                print(f"{name:12} {await run(url, requests, 16, lambda _: raw)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dispatcher", description="Cost of a request by position of the dispatcher."
    )
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--socket", action="store_true", help="also measure over 16 connections to a separate process")
    parser.add_argument("--serve", choices=VARIANTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    import uvloop

    uvloop.run(serve(args.serve) if args.serve else measure(args.requests, over_socket=args.socket))


if __name__ == "__main__":
    main()
