"""Cost of encoding and decoding messages, compared with JSON.

    python -m benchmarks.protobuf [--rounds 200]

The messages are a small claim, a slice of 16 devices with 8 attributes each, and a list of 3300 claims. The list is
encoded twice: the first answer fills caches that the second one uses. JSON in is parsing and normal form. JSON out is
the work of a handler for an object that it holds as a dict.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from statistics import median
from time import perf_counter

import orjson

from apiserver.api import protobuf
from apiserver.api.codec.codec import decode, loads
from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from apiserver.app import Server
from apiserver.authentication.authenticator import ADMIN
from apiserver.http.formats.negotiation import JSON, PROTOBUF
from apiserver.options.settings import read
from apiserver.request import messages
from apiserver.resources import CATALOG
from benchmarks.server import CLAIMS, NAMESPACE, claim

MANY = 3300


def schema(plural: str) -> Struct:
    return next(resource for resource in CATALOG if resource.plural == plural).versions[0].schema


def stored_claim(name: str) -> Json:
    """Build a claim as a server returns it, with the fields set on creation."""
    owned: Json = {
        "f:spec": {
            "f:devices": {
                "f:requests": {".": {}, 'k:{"name":"gpu"}': {".": {}, "f:exactly": {".": {}, "f:deviceClassName": {}}}}
            }
        }
    }
    manager: Json = {
        "manager": "bench",
        "operation": "Update",
        "apiVersion": "resource.k8s.io/v1",
        "time": "2025-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
    }
    obj = claim(name)
    obj["metadata"] |= {
        "namespace": NAMESPACE,
        "uid": "a9e0a6ab-6d21-4b0b-8bd4-2f2e8f1f1f52",
        "resourceVersion": "12345",
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "managedFields": [{**manager, "fieldsV1": owned}],
    }
    return obj


def slice_of(devices: int) -> Json:
    """Build a slice of devices with attributes and capacities."""
    attributes: Json = {f"attribute{number}": {"string": f"value-{number}"} for number in range(5)}
    attributes |= {"index": {"int": 7}, "healthy": {"bool": True}, "driverVersion": {"version": "1.2.3"}}
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    made = [
        {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}
        for number in range(devices)
    ]
    return {
        "metadata": {"name": "slice"},
        "spec": {"driver": "gpu.example.com", "nodeName": "node-1", "pool": pool, "devices": made},
    }


def cost(work: Callable[[], object], rounds: int) -> float:
    """Return the microseconds of a call, the median of several runs."""
    times = []
    for _ in range(rounds):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return median(times) * 1e6


def measure(name: str, kind: Struct, obj: Json, rounds: int) -> None:
    normal = decode(kind, obj).obj
    text, message = orjson.dumps(normal), protobuf.encode(kind, normal)
    print(f"{name}: {len(text)} bytes of JSON, {len(message)} of protobuf")
    for label, work in (
        ("  encode protobuf", lambda: protobuf.encode(kind, normal)),
        ("  encode JSON", lambda: orjson.dumps(normal)),
        ("  decode protobuf", lambda: protobuf.decode(kind, message)),
        ("  … into normal form", lambda: decode(kind, protobuf.decode(kind, message))),
        ("  decode JSON into normal form", lambda: decode(kind, (body := loads(text)).value, body)),
    ):
        print(f"{label:34}{cost(work, rounds):10.1f} µs")


async def lists() -> None:
    with tempfile.TemporaryDirectory() as directory:
        server = await Server.open(
            read(["--storage=memory", f"--data-dir={directory}", "--runtime-config=api/all=true"])
        )
        try:
            bodies = [
                ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
                *((CLAIMS, claim(f"c{number}")) for number in range(MANY)),
            ]
            for path, body in bodies:
                answer = await server.chain.handle(
                    messages.Request("POST", path, "", {"content-type": JSON}, orjson.dumps(body), ADMIN)
                )
                assert answer.status == 201, answer
            for label, accept in (
                ("JSON", JSON),
                ("JSON again", JSON),
                ("protobuf", PROTOBUF),
                ("protobuf again", PROTOBUF),
            ):
                started = perf_counter()
                answer = await server.chain.handle(messages.Request("GET", CLAIMS, "", {"accept": accept}, b"", ADMIN))
                took = perf_counter() - started
                assert isinstance(answer, messages.Response)
                print(f"list of {MANY} claims, {label:16}{took * 1e6:10.0f} µs   {len(answer.body)} bytes")
        finally:
            await server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    measure("claim", schema("resourceclaims"), stored_claim("c"), rounds)
    measure("slice of 16 devices", schema("resourceslices"), slice_of(16), rounds)
    asyncio.run(lists())


if __name__ == "__main__":
    main()
