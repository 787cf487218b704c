"""A scheduler extender that decides by the labels of pods and the names of nodes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from apiserver.api.objects import Json


class FakeExtender:
    """Records and answers calls.

    The labels `off` and `never` of a pod name nodes that it must not go to, separated by dots. For those of `never`
    preemption does not help. The label `broken` makes the call fail.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, Json]] = []
        self.url = ""

    def answer(self, verb: str, body: Json) -> Any:
        self.calls.append((verb, body))
        if verb == "bind":
            return {"Error": "taken" if body["PodName"] == "taken" else ""}
        labels = body["Pod"]["metadata"].get("labels") or {}
        names = body.get("NodeNames") or [node["metadata"]["name"] for node in body["Nodes"]["items"]]
        if verb == "prioritize":
            return [{"Host": name, "Score": int(name[-1])} for name in names]
        if labels.get("broken"):
            return {"Error": "broken"}
        off, never = labels.get("off", "").split("."), labels.get("never", "").split(".")
        left = [name for name in names if name not in (*off, *never)]
        found: Json = {
            "FailedNodes": {name: "not there" for name in names if name in off},
            "FailedAndUnresolvableNodes": {name: "never there" for name in names if name in never},
        }
        if body.get("NodeNames"):
            return {**found, "NodeNames": left}
        return {**found, "Nodes": {"items": [{"metadata": {"name": name}} for name in left]}}


@contextmanager
def extender() -> Iterator[FakeExtender]:
    """Serve an extender on a free port."""
    served = FakeExtender()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            verb = self.path.rpartition("/")[2]
            content = json.dumps(served.answer(verb, body)).encode()
            self.send_response(404 if verb == "missing" else 200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served.url = f"http://127.0.0.1:{server.server_port}/extend"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
