"""Plays one client's steps in the order of the suite: a line of JSON for what each saw.

A program beside this file is one client. It gives `play` its library's version and a function for every step that the
library can do; what a step is and what it must see stands in `tests/clients/steps.py`. Nothing here imports anything of
kubedra's or of the suite's: a program runs with its own library's packages.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import queue
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

NAMESPACE = os.environ.get("NAMESPACE", "default")
#: The kubeconfig of a server with TLS and tokens; $KUBECONFIG is that of one without.
SECURE = os.environ.get("SECURE_KUBECONFIG", "")
ORDER = (
    "create",
    "list",
    "watch",
    "merge",
    "json",
    "strategic",
    "apply",
    "informer",
    "election",
    "devices",
    "tls",
    "delete",
)

NAME, WATCHED, FOLLOWED = "settings", "watched", "followed"
MERGE = {"data": {"b": "2"}}
JSON = [{"op": "add", "path": "/data/c", "value": "3"}]
STRATEGIC = {"data": {"d": "4"}}


def config_map(name: str = NAME, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


#: What another manager applies: a field that belongs to the client's create.
APPLIED = config_map(a="9")
MANAGER = "script"


def claim(version: str = "v1") -> dict[str, Any]:
    """Make a claim for one GPU, in a version of resource.k8s.io."""
    asked = {"deviceClassName": "gpu.example.com"}
    request = {"name": "gpu", **(asked if version == "v1beta1" else {"exactly": asked})}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "one-gpu"},
        "spec": {"devices": {"requests": [request]}},
    }


def play(version: str, steps: Mapping[str, Callable[[], Any]]) -> None:
    """Coroutine functions all run in one event loop. A step that fails does not keep the others from being tried."""

    async def run() -> None:
        print(json.dumps({"version": version}), flush=True)
        for name in [name for name in ORDER if name in steps]:
            try:
                saw = steps[name]()
                said = {"step": name, "saw": await saw if inspect.isawaitable(saw) else saw}
            except (Exception, SystemExit) as error:  # noqa: BLE001 whatever a library raises
                traceback.print_exc()
                said = {"step": name, "error": f"{type(error).__name__}: {error}"}
            print(json.dumps(said), flush=True)

    asyncio.run(run())
    # Threads of libraries that never end on their own.
    os._exit(0)


def live(events: Iterable[str], changes: Iterable[Callable[[], Any]]) -> list[str]:
    """Return the event that follows each change; wait for it before the next change is made."""
    seen: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for event in events:
            seen.put(event)

    threading.Thread(target=read, daemon=True).start()
    return [seen.get() for change in changes if change() is not seen]
