"""Hardware profiles: the devices that real drivers publish, as data files.

A profile is a YAML file in this directory or the user's own (`capture` writes one). It has a `description`, `classes`
(name → CEL expression, or the spec of a DeviceClass) and `drivers` (name → groups). A group has `counters` (counter
sets) and `devices`. It is repeated `repeat` times with the index `i`; a device can be repeated with the index `j`.
Texts are formatted with `{i}`, `{j}`, `{node}` and `{uuid}` by `str.format`; the UUID depends only on the node and `i`.
The text of an `int` is converted to an integer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from kubedra.profiles.pools import Pool, split
from kubedra.runtime.objects import Json

_HERE = Path(__file__).parent
#: Maximum size of a user's profile in bytes, because it is stored in an annotation.
MOST_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class Profile:
    """The hardware of one kind of node."""

    name: str
    description: str
    content: Json

    def classes(self) -> list[Json]:
        """Return the DeviceClasses of its drivers."""
        return [
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": name},
                "spec": {"selectors": [{"cel": {"expression": spec}}]} if isinstance(spec, str) else spec,
            }
            for name, spec in (self.content.get("classes") or {}).items()
        ]

    def pools(self, node: str) -> dict[str, Pool]:
        """Return the node's pool per driver. Counter sets are in their own slices, before the devices."""
        return {driver: _pool(groups, node) for driver, groups in self.content["drivers"].items()}


def names() -> list[str]:
    """Return the names of the built-in profiles."""
    return sorted(path.stem for path in _HERE.glob("*.yaml"))


def annotation_value(text: str) -> str:
    """Return the value of a Node's profile annotation: a built-in name, or the content of a file as JSON.

    Raises ValueError and OSError.
    """
    if text in names() or not text.endswith((".yaml", ".yml", ".json")):
        return load(text).name
    import json

    import yaml

    content = json.dumps(yaml.safe_load(Path(text).read_text()), separators=(",", ":"))
    if len(content) > MOST_BYTES:
        raise ValueError(f"{text}: the profile has {len(content)} bytes; the maximum is {MOST_BYTES}")
    try:
        load(content).pools("n")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"{text}: not a profile: {error}") from error
    return content


@lru_cache
def load(name: str) -> Profile:
    """Return a built-in profile, or parse the JSON that `annotation_value` returned. Raises ValueError."""
    import yaml

    if name.startswith("{"):
        return _parse(yaml.safe_load(name))
    if name not in names():
        raise ValueError(f"no profile {name!r}; use one of {', '.join(names())}")
    content = yaml.safe_load((_HERE / f"{name}.yaml").read_text())
    return Profile(name, content["description"], content)


def _parse(content: Any) -> Profile:
    """Parse a user's profile. Raises ValueError."""
    if not isinstance(content, dict) or not isinstance(content.get("drivers"), dict):
        raise ValueError("drivers is required: a mapping from driver names to groups of devices")
    return Profile("", str(content.get("description", "")), content)


def _pool(groups: list[Json], node: str) -> Pool:
    counters: list[Json] = []
    devices: list[Json] = []
    for group in groups:
        for number in range(group.get("repeat", 1)):
            uuid = uuid5(NAMESPACE_DNS, f"{number}.{node}")
            words = {"i": number, "node": node, "uuid": uuid}
            counters += [_fill(item, words) for item in group.get("counters") or ()]
            devices += _repeat(group.get("devices") or [], words)
    slices: list[Json] = [{"sharedCounters": counters[at : at + 8]} for at in range(0, len(counters), 8)]
    return Pool((*slices, *({"devices": part} for part in split(devices))))


def _repeat(devices: list[Json], words: Json) -> Iterator[Json]:
    """Yield the devices of a group. A device with its own `repeat` counts in `j`."""
    for device in devices:
        plain = {key: value for key, value in device.items() if key != "repeat"}
        for number in range(device.get("repeat", 1)):
            yield _fill(plain, {**words, "j": number})


def _fill(value: Any, words: Json) -> Any:
    if isinstance(value, dict):
        filled = {key: _fill(item, words) for key, item in value.items()}
        return {"int": int(filled["int"])} if set(filled) == {"int"} else filled
    if isinstance(value, list):
        return [_fill(item, words) for item in value]
    return value.format(**words) if isinstance(value, str) else value
