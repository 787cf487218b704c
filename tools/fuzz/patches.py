"""Build patches of objects: parts of them for merge patches, and JSON patch operations."""

from __future__ import annotations

from random import Random
from typing import Any

from apiserver.api.objects import Json
from apiserver.api.schema.language import Struct
from tools.fuzz import values


def part(random: Random, obj: Any, *, strategic: bool) -> Any:
    """Build a part of an object, with nulls and directives."""
    if isinstance(obj, list):
        made_list = [part(random, item, strategic=strategic) for item in obj if random.random() < 0.8]
        if strategic and random.random() < 0.15:
            made_list.insert(
                0,
                random.choice(
                    (
                        {"$patch": "replace"},
                        {"$patch": "delete", "name": "c"},
                        {"$patch": "x"},
                        {"$patch": "delete"},
                    )
                ),
            )
        return made_list
    if not isinstance(obj, dict):
        return obj
    made = {
        key: None if random.random() < 0.1 else part(random, value, strategic=strategic)
        for key, value in obj.items()
        if random.random() < 0.6
    }
    if strategic and random.random() < 0.2 and obj:
        key = random.choice(tuple(obj))
        directive = random.choice(
            ("$patch", "$retainKeys", f"$setElementOrder/{key}", f"$deleteFromPrimitiveList/{key}")
        )
        made[directive] = random.choice(
            ("replace", "delete", "merge", ["a"], [{"name": "c"}], [None], 1, None, list(obj))
        )
    return made


def operations(random: Random, obj: Any, schema: Struct) -> Any:
    """Build JSON patch operations, most of them at existing paths."""
    found = values.paths(obj) or ["/a"]
    made = []
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        path = random.choice(found)
        if random.random() < 0.2:
            path += random.choice(("/-", "/0", "/99", "/~", "/a", "/", "/-1", "/00"))
        operation: Json = {
            "op": random.choice(("add", "remove", "replace", "test", "copy", "move", "x")),
            "path": path,
        }
        if operation["op"] in ("copy", "move"):
            operation["from"] = random.choice(found)
        elif random.random() < 0.95:
            operation["value"] = values.junk(random) if random.random() < 0.4 else values.struct(random, schema, 4)
        made.append(operation)
    return made if random.random() < 0.97 else values.junk(random)
