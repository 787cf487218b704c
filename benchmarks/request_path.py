"""The path of one request inside the server: files and functions by name, and their cost.

    python -m benchmarks.request_path [--verb patch] [--list] [--requests 2000] [--against DIRECTORY]

The server runs in this process, in memory, without a socket: a request runs from authentication to the bytes of its
answer. Only code of the server is counted. Warm-up requests fill its caches first. --list prints the files, and
the functions with their interpreter instructions. This count is independent of other processes, so two checkouts can be
compared on a busy machine. --requests also measures the processor time of a request, the median of five rounds.
--against measures another checkout of kubedra as well, in alternating rounds of one process each. Each request has its
own object: a patch is the first allocation of a claim.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time_ns
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeAlias

import orjson

from apiserver.app import Server
from apiserver.options.settings import read
from apiserver.request.messages import Request

Install: TypeAlias = Callable[[Server], Awaitable[None]]
TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]

ROUNDS = 5
NAMESPACE = "benchmark"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
MERGE = "application/merge-patch+json"
SPEC = {
    "devices": {
        "requests": [
            {
                "name": "gpu",
                "exactly": {
                    "deviceClassName": "gpu.example.com",
                    "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
                },
            }
        ]
    }
}


def claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "benchmark"}},
        "spec": SPEC,
    }


def status() -> dict[str, Any]:
    return {
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        "allocation": {
            "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d"}]}
        },
    }


def build_request(
    method: str, path: str, body: Any = None, media: str = "application/json", query: str = ""
) -> Request:
    headers = {"user-agent": "kubedra-benchmark/1", "accept": "application/json"}
    if body is not None:
        headers["content-type"] = media
    return Request(method, path, query, headers, b"" if body is None else orjson.dumps(body))


def patch(number: int) -> Request:
    return build_request("PATCH", f"{CLAIMS}/c{number}/status", {"status": status()}, MERGE)


def strategic(number: int) -> Request:
    body = {"metadata": {"labels": {"number": str(number)}}}
    return build_request("PATCH", f"{CLAIMS}/c{number}", body, "application/strategic-merge-patch+json")


def apply(number: int) -> Request:
    body = claim(f"c{number}") | {"metadata": {"name": f"c{number}", "labels": {"number": str(number)}}}
    return build_request(
        "PATCH", f"{CLAIMS}/c{number}", body, "application/apply-patch+yaml", "fieldManager=benchmark&force=true"
    )


def update(number: int) -> Request:
    return build_request("PUT", f"{CLAIMS}/c{number}/status", claim(f"c{number}") | {"status": status()})


def create(number: int) -> Request:
    return build_request("POST", CLAIMS, claim(f"c{number}"))


def delete(number: int) -> Request:
    return build_request("DELETE", f"{CLAIMS}/c{number}")


def get(number: int) -> Request:
    return build_request("GET", f"{CLAIMS}/c{number}")


def list_(_: int) -> Request:
    return build_request("GET", CLAIMS)


VERBS: dict[str, Callable[[int], Request]] = {
    "patch": patch,
    "strategic": strategic,
    "apply": apply,
    "update": update,
    "create": create,
    "delete": delete,
    "get": get,
    "list": list_,
}


async def prepare_server(directory: str, verb: str, requests: int) -> Server:
    """Open a server in memory with the objects that the requests of a verb need."""
    server = await Server.open(read(["--storage=memory", f"--data-dir={directory}"]))
    await send(server, build_request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}))
    for number in range(0 if verb == "create" else 1 if verb == "list" else requests):
        await send(server, create(number))
    return server


async def send(server: Server, request: Request) -> None:
    answer = await server.chain.handle(request)
    if answer.status not in (200, 201):
        raise SystemExit(f"request_path: {request.method} {request.path} was answered {answer.status}: {answer}")


class RequestPath(NamedTuple):
    """The functions that a request calls, in the order of first calls, with counts of calls and instructions."""

    calls: Counter[CodeType]
    instructions: Counter[CodeType]


async def path_of(verb: str, install: Install | None = None) -> RequestPath:
    """Return the path of one request of a verb, with the additions of `install` in the server."""
    with tempfile.TemporaryDirectory() as directory:
        server = await prepare_server(directory, verb, 4)
        if install is not None:
            await install(server)
        for number in range(3):
            await send(server, VERBS[verb](number))
        calls: Counter[CodeType] = Counter()
        instructions: Counter[CodeType] = Counter()
        root = str(Path(sys.modules["apiserver"].__path__[0])) + os.sep

        def executed(frame: FrameType, event: str, _: Any) -> TraceFunction:
            instructions[frame.f_code] += event == "opcode"
            return executed

        def called(frame: FrameType, _: str, __: Any) -> TraceFunction | None:
            if not frame.f_code.co_filename.startswith(root):
                return None
            calls[frame.f_code] += 1
            frame.f_trace_opcodes = True
            return executed

        request = VERBS[verb](3)
        sys.settrace(called)
        try:
            await send(server, request)
        finally:
            sys.settrace(None)
        await server.close()
        return RequestPath(calls, instructions)


async def cost_of(verb: str, requests: int) -> float:
    """Return the processor time of a request in microseconds. Other processes hardly change it."""
    with tempfile.TemporaryDirectory() as directory:
        server = await prepare_server(directory, verb, requests)
        asked_for = [VERBS[verb](number) for number in range(requests)]
        begin = process_time_ns()
        for request in asked_for:
            await send(server, request)
        spent = process_time_ns() - begin
        await server.close()
        return spent / requests / 1000


def measure_median(directory: Path, verb: str, requests: int) -> float:
    """Return the cost in a checkout, measured in a process of its own."""
    command = [
        sys.executable,
        "-P",
        str(Path(__file__).resolve()),
        "--verb",
        verb,
        "--requests",
        str(requests),
        "--bare",
    ]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(directory)}, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def print_path(verb: str, *, listed: bool) -> None:
    found = asyncio.run(path_of(verb))
    codes = [code for code in found.calls if not code.co_name.endswith(("comp>", "genexpr>"))]
    root = Path(sys.modules["apiserver"].__path__[0]).parent
    files = Counter(str(Path(code.co_filename).relative_to(root)) for code in codes)
    total = sum(found.calls[code] for code in codes)
    print(
        f"{verb}: {len(files)} files, {len(codes)} functions, {total} calls, {found.instructions.total()} instructions"
    )
    for file, count in files.items() if listed else ():
        here = [code for code in codes if code.co_filename == str(root / file)]
        shown = ", ".join(f"{code.co_qualname} {found.instructions[code]}" for code in here)
        print(f"  {file} ({count}): {shown}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.request_path", description="List the files and functions that a request executes."
    )
    parser.add_argument("--verb", choices=VERBS, default="patch")
    parser.add_argument("--list", action="store_true", help="print the files and functions")
    parser.add_argument("--requests", type=int, default=0, help="measure the CPU time of this many requests")
    parser.add_argument("--against", type=Path, help="other checkout, measured alternately with this one")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.bare:
        print(asyncio.run(cost_of(args.verb, args.requests)))
        return
    print_path(args.verb, listed=args.list)
    if not args.requests:
        return
    checkouts = [Path(sys.modules["apiserver"].__path__[0]).parent, *([args.against] if args.against else [])]
    rounds = [[measure_median(checkout, args.verb, args.requests) for checkout in checkouts] for _ in range(ROUNDS)]
    for checkout, times in zip(checkouts, zip(*rounds, strict=True), strict=True):
        shown = " ".join(f"{time:.0f}" for time in times)
        print(f"{checkout}: {statistics.median(times):.1f} us per request (rounds: {shown})")


if __name__ == "__main__":
    main()
