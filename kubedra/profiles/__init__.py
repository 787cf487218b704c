"""Hardware that you do not have: what real drivers publish for it, as data files.

A profile is a YAML file, beside this one or of your own (`capture` makes one): `description`, `classes` (name → CEL
expression, or the spec of a DeviceClass) and `drivers` (name → groups). A group is repeated (`repeat`, `i` counts from
0); it has `counters` (counter sets) and `devices`, which may be repeated too (`j`). In their texts `{i}`, `{j}`,
`{node}` and `{uuid}` (of the node and `i`, always the same) are filled in as by `str.format`; where an `int` is meant
the text becomes one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from kubedra.profiles.pools import Pool, split

Json = dict[str, Any]
_HERE = Path(__file__).parent
#: How large a profile of one's own may be: it is kept in an annotation.
MOST_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of node."""

    name: str
    description: str
    content: Json

    def classes(self) -> list[Json]:
        """The DeviceClasses that its drivers come with."""
        return [
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": name},
                "spec": {"selectors": [{"cel": {"expression": said}}]} if isinstance(said, str) else said,
            }
            for name, said in (self.content.get("classes") or {}).items()
        ]

    def pools(self, node: str) -> dict[str, Pool]:
        """By driver the node's pool; counter sets stand in slices of their own, before the devices."""
        return {driver: _pool(groups, node) for driver, groups in self.content["drivers"].items()}


def names() -> list[str]:
    """The profiles that there are."""
    return sorted(path.stem for path in _HERE.glob("*.yaml"))


def named(text: str) -> str:
    """What a Node's annotation says of a profile: the name of one that there is, or the content of a file as JSON.
    Raises ValueError and OSError.
    """
    if text in names() or not text.endswith((".yaml", ".yml", ".json")):
        return load(text).name
    import json

    import yaml

    content = json.dumps(yaml.safe_load(Path(text).read_text()), separators=(",", ":"))
    if len(content) > MOST_BYTES:
        raise ValueError(f"{text}: a profile has at most {MOST_BYTES} bytes, this one has {len(content)}")
    try:
        load(content).pools("n")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"{text}: not a profile: {error}") from error
    return content


@lru_cache
def load(name: str) -> Profile:
    """The profile of a name, or of what `named` made of a file. Raises ValueError where there is no such profile."""
    import yaml

    if name.startswith("{"):
        return _read(yaml.safe_load(name))
    if name not in names():
        raise ValueError(f"there is no profile {name!r}; there are {', '.join(names())}")
    content = yaml.safe_load((_HERE / f"{name}.yaml").read_text())
    return Profile(name, content["description"], content)


def _read(content: Any) -> Profile:
    """A profile of somebody's own. Raises ValueError."""
    if not isinstance(content, dict) or not isinstance(content.get("drivers"), dict):
        raise ValueError("a profile has drivers: a mapping from their names to groups of devices")
    return Profile("", str(content.get("description", "")), content)


def _pool(groups: list[Json], node: str) -> Pool:
    counters: list[Json] = []
    devices: list[Json] = []
    for group in groups:
        for number in range(group.get("repeat", 1)):
            uuid = uuid5(NAMESPACE_DNS, f"{number}.{node}")
            words = {"i": number, "node": node, "uuid": uuid}
            counters += [_filled(item, words) for item in group.get("counters") or ()]
            devices += _repeated(group.get("devices") or [], words)
    slices: list[Json] = [{"sharedCounters": counters[at : at + 8]} for at in range(0, len(counters), 8)]
    return Pool((*slices, *({"devices": part} for part in split(devices))))


def _repeated(devices: list[Json], words: Json) -> Iterator[Json]:
    """Devices of a group; one with `repeat` of its own counts in `j`."""
    for device in devices:
        plain = {key: value for key, value in device.items() if key != "repeat"}
        for number in range(device.get("repeat", 1)):
            yield _filled(plain, {**words, "j": number})


def _filled(value: Any, words: Json) -> Any:
    if isinstance(value, dict):
        filled = {key: _filled(item, words) for key, item in value.items()}
        return {"int": int(filled["int"])} if set(filled) == {"int"} else filled
    if isinstance(value, list):
        return [_filled(item, words) for item in value]
    return value.format(**words) if isinstance(value, str) else value
