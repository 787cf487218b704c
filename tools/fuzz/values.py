"""Build random values, typed and untyped, and make small changes of whole objects.

Every choice comes from one `random.Random`, so that a seed repeats its values. A kind is known only by its schema.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.schema.language import ListOf, MapOf, Scalar, Struct, Type
from tools.fuzz.texts import expression, text

#: The depth of built and changed objects. Tests of the decoders cover deeper ones.
DEPTH: Final = 9
#: The maximum length of a list.
LONG: Final = 400

_TIMES: Final = (
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00.5+02:00",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2026-02-30T00:00:00Z",
    "",
)
_QUANTITIES: Final = (
    "0", "1", "-1", "100m", "1.5Gi", "1e3", "1e400", "9" * 40, "1n", "0.0000000001", "5Ei", "+1", "1E", "Ki", "", 5,
    1.5,
)  # fmt: skip
_NUMBERS: Final = (
    0, 1, 2, -1, 3, 7, 100, 255, 65535, 65536, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64,
    10**30, 1.0, 0.5, -0.0, 1e300,
)  # fmt: skip
_JUNK: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1.5, "", "a", [], {}, [None], [[]], {"": ""}, {"a": {"b": [1]}}, 2**63, "\u0000",
    "\ud7ff", "é" * 40,
)  # fmt: skip


def junk(random: Random) -> Any:
    """Return a value of no particular type."""
    return deepcopy(random.choice(_JUNK)) if random.random() < 0.8 else text(random)


def of_type(random: Random, type: Type, depth: int = DEPTH, name: str = "") -> Any:
    """Build a value of a type, or rarely of another; `name` is the field's."""
    if random.random() < 0.02:
        return junk(random)
    if isinstance(type, Scalar):
        return expression(random) if name == "expression" and type.name == "string" else _scalar(random, type)
    if depth <= 0:
        return None
    if isinstance(type, ListOf):
        item = type.item
        return [of_type(random, item, depth - 1, name) for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3)))]
    if isinstance(type, MapOf):
        return {text(random): of_type(random, type.value, depth - 1) for _ in range(random.choice((0, 1, 1, 2, 3)))}
    return struct(random, type, depth)


def struct(random: Random, type: Struct, depth: int = DEPTH) -> Json:
    """Build a struct: nearly always its required fields, and fewer of the others at greater depth."""
    made: Json = {}
    chance = 0.6 if depth >= DEPTH - 1 else min(0.5, 3 / (len(type.fields) or 1)) * depth / DEPTH
    for name, field in type.fields.items():
        needed = field.required or (field.limits is not None and field.limits.required)
        if random.random() < (0.95 if needed else chance) and name not in ("kind", "apiVersion", "metadata"):
            made[name] = of_type(random, field.type, depth - 1, name)
    return made


def _scalar(random: Random, type: Scalar) -> Any:
    if type.enum and random.random() < 0.8:
        return random.choice(type.enum)
    return _SCALARS.get(type.name, junk)(random)


def _number(random: Random) -> Any:
    return random.randrange(-2, 300) if random.random() < 0.5 else random.choice(_NUMBERS)


def _fields(random: Random) -> Any:
    keys = ("f:spec", "f:metadata", "f:a", 'k:{"name":"c"}', 'v:"x"', "i:0", ".", "f:", "k:{", "v:", "x:y", "")
    found: Any = {random.choice(keys): {}}
    for _ in range(random.randrange(4)):
        found = {random.choice(keys): found}
    return found


_SCALARS: Final[dict[str, Callable[[Random], Any]]] = {
    "string": text,
    "bool": lambda random: random.random() < 0.5,
    "int32": _number,
    "int64": _number,
    "float64": _number,
    "bytes": lambda random: random.choice(("", "AA==", "AA", "====", base64.b64encode(random.randbytes(9)).decode())),
    "time": lambda random: random.choice(_TIMES),
    "microTime": lambda random: random.choice(_TIMES),
    "duration": lambda random: random.choice(("1s", "0s", "-1h", "1d", "", "9999999h")),
    "quantity": lambda random: random.choice(_QUANTITIES),
    "intOrString": lambda random: random.choice((0, 1, 80, -1, 70000, "50%", "http", "101%", "", 2**40)),
    "raw": lambda random: random.choice(({"a": [1, {"b": None}]}, [], "text", 1, None, {"": {}}, {"kind": "Pod"})),
    "fieldsV1": _fields,
}


def metadata(random: Random, name: str, namespace: str) -> Json:
    """Build mostly valid metadata."""
    made: Json = {"name": name}
    if random.random() < 0.04:
        made = {"generateName": random.choice(("a-", "", "A_", "x" * 70))}
    if namespace and random.random() < 0.3:
        made["namespace"] = namespace if random.random() < 0.9 else text(random)
    for key, make in _METADATA.items():
        if random.random() < 0.07:
            made[key] = make(random)
    return made


def _owner(random: Random) -> Json:
    return {"apiVersion": random.choice(("v1", "apps/v1", "", "a/b/c")), "kind": random.choice(("Pod", "X", "")),
            "name": "a", "uid": text(random), "controller": random.random() < 0.5}  # fmt: skip


def _managed(random: Random) -> Json:
    return {"manager": text(random), "operation": random.choice(("Apply", "Update", "", "X")),
            "apiVersion": random.choice(("v1", "v2", "resource.k8s.io/v1", "")), "fieldsType": random.choice(("FieldsV1", "", "X")),
            "fieldsV1": _fields(random), "time": random.choice(_TIMES)}  # fmt: skip


_METADATA: Final[dict[str, Callable[[Random], Any]]] = {
    "labels": lambda random: {text(random): text(random) for _ in range(random.randrange(4))},
    "annotations": lambda random: {text(random): text(random) for _ in range(random.randrange(4))},
    "finalizers": lambda random: [text(random) for _ in range(random.randrange(3))],
    "ownerReferences": lambda random: [_owner(random) for _ in range(random.randrange(3))],
    "managedFields": lambda random: [_managed(random) for _ in range(random.randrange(3))],
    "resourceVersion": lambda random: random.choice(("", "0", "1", "7", "x", "-1", 5, "9" * 30)),
    "uid": text,
    "generation": _number,
    "creationTimestamp": lambda random: random.choice(_TIMES),
    "deletionTimestamp": lambda random: random.choice(_TIMES),
    "deletionGracePeriodSeconds": _number,
    "selfLink": text,
}


def change(random: Random, obj: Json, schema: Struct) -> None:
    """Make one small change somewhere in an object."""
    places: list[tuple[Any, Any, Type | None]] = []
    _walk(obj, schema, places)
    container, key, kind = random.choice(places)
    draw = random.random()
    if draw < 0.15 and isinstance(container, dict):
        container.pop(key, None)
    elif draw < 0.25:
        container[key] = junk(random)
    elif draw < 0.27 and isinstance(container, list):
        container.extend(deepcopy(container[key]) for _ in range(random.randrange(2, LONG)))
    elif draw < 0.32 and isinstance(container, list):
        container.append(deepcopy(container[key]))
    elif kind is not None:
        container[key] = of_type(random, kind, DEPTH - 4, key if isinstance(key, str) else "")
    else:
        container[key] = text(random)


def _walk(value: Any, type: Type | None, places: list[tuple[Any, Any, Type | None]]) -> None:
    """Collect every place of a value, present or possible."""
    if isinstance(value, dict):
        fields = type.fields if isinstance(type, Struct) else {}
        for key, part in value.items():
            field = fields.get(key)
            below = field.type if field is not None else type.value if isinstance(type, MapOf) else None
            places.append((value, key, below))
            if isinstance(part, dict | list):
                _walk(part, below, places)
        places.extend((value, name, field.type) for name, field in fields.items() if name not in value)
        if isinstance(type, MapOf) or not fields:
            places.append((value, "new", type.value if isinstance(type, MapOf) else None))
    elif isinstance(value, list):
        below = type.item if isinstance(type, ListOf) else None
        for index, part in enumerate(value):
            places.append((value, index, below))
            if isinstance(part, dict | list):
                _walk(part, below, places)


def paths(value: Any, above: str = "") -> list[str]:
    """Return the JSON pointers of all parts of a value."""
    found = [above] if above else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        found += paths(part, f"{above}/{str(key).replace('~', '~0').replace('/', '~1')}")
    return found
