"""OpenAPI 2 documents of several servers made one, by the rules of kube-openapi's aggregator.

A path belongs to whoever is there first. A definition or parameter of a name that is taken by another gets a name with
a number (`_v2`, `_v3` …); one that says the same is shared, and names the kinds of both. Descriptions do not count in
that: kubedra's are its own sentences, so that every server made with Kubernetes' libraries would bring all it shares
with this one a second time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final

import orjson

from apiserver.api.objects import Json

__all__ = ["below", "merged"]


_REFERENCE: Final = re.compile(rb'"\$ref":"#/(definitions|parameters)/([^"]+)"')
_KINDS: Final = "x-kubernetes-group-version-kind"
_PARTS: Final = ("definitions", "parameters")


def below(document: Json, prefix: str) -> Json:
    """What of a document is about paths that begin so, with the definitions that they lead to, and those to which no
    path ever led.
    """
    paths = document.get("paths") or {}
    return _with_paths(document, {path: item for path, item in paths.items() if path.startswith(prefix)})


def merged(document: Json, others: Iterable[Json]) -> Json:
    """A document with the paths, definitions and parameters of others, which are in the order of their precedence.
    What is not changed is the same object in both.
    """
    made = document | {part: dict(document.get(part) or {}) for part in ("paths", *_PARTS)}
    for other in others:
        _merge(made, other)
    for part in ("paths", *_PARTS):
        made[part] = dict(sorted(made[part].items()))
    if not made["parameters"]:
        del made["parameters"]
    return made


def _merge(made: Json, other: Json) -> None:
    paths = {path: item for path, item in (other.get("paths") or {}).items() if path not in made["paths"]}
    if not paths:
        return
    if len(paths) < len(other["paths"]):
        other = _with_paths(other, paths)
    names: dict[str, str] = {}
    for part, same in zip(_PARTS, (_same_definition, _same), strict=True):
        found = _new_names(made[part], other.get(part) or {}, same)
        names |= {f"#/{part}/{old}": f"#/{part}/{new}" for old, new in found.items()}
    for part in _PARTS:
        for name, item in (other.get(part) or {}).items():
            name = names.get(f"#/{part}/{name}", f"#/{part}/{name}").removeprefix(f"#/{part}/")
            item = _renamed(item, names)
            made[part][name] = _of_both(made[part][name], item) if name in made[part] else item
    made["paths"] |= _renamed(paths, names)


def _with_paths(document: Json, paths: Json) -> Json:
    before, after = _used(document, document.get("paths") or {}), _used(document, paths)
    definitions = {
        name: item
        for name, item in (document.get("definitions") or {}).items()
        if ("definitions", name) in after or ("definitions", name) not in before
    }
    return document | {"paths": paths, "definitions": definitions}


def _used(document: Json, paths: Json) -> set[tuple[str, str]]:
    """The definitions and parameters that paths lead to: part and name."""
    found: set[tuple[str, str]] = set()
    todo = _references(paths)
    while todo:
        part, name = todo.pop()
        found.add((part, name))
        todo |= _references((document.get(part) or {}).get(name)) - found
    return found


def _references(value: Any) -> set[tuple[str, str]]:
    return {(part.decode(), name.decode()) for part, name in _REFERENCE.findall(orjson.dumps(value))}


def _new_names(here: Json, there: Json, same: Callable[[Any, Any], bool]) -> dict[str, str]:
    """Names for what would stand in the place of something else."""
    names: dict[str, str] = {}
    taken = {*here, *there}
    for name, item in there.items():
        if name not in here or same(here[name], item):
            continue
        for number in count(2):
            new = f"{name}_v{number}"
            if (new in here and same(here[new], item)) or new not in taken:
                break
        names[name] = new
        taken.add(new)
    return names


def _same(one: Any, other: Any) -> bool:
    return bool(_without_words(one) == _without_words(other))


def _same_definition(one: Json, other: Json) -> bool:
    return _same({**one, _KINDS: None}, {**other, _KINDS: None})


def _without_words(value: Any) -> Any:
    """Without descriptions. A property may have that name, but is no text."""
    if isinstance(value, dict):
        return {
            key: _without_words(item)
            for key, item in value.items()
            if key != "description" or not isinstance(item, str)
        }
    return [_without_words(item) for item in value] if isinstance(value, list) else value


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """With references to the new names."""
    if not names:
        return value
    if isinstance(value, dict):
        return {
            key: names.get(item, item) if key == "$ref" and isinstance(item, str) else _renamed(item, names)
            for key, item in value.items()
        }
    return [_renamed(item, names) for item in value] if isinstance(value, list) else value


def _of_both(one: Json, other: Json) -> Json:
    """A definition that two servers share, with the kinds of both."""
    known, more = one.get(_KINDS) or [], other.get(_KINDS) or []
    new = [kind for kind in more if kind not in known]
    if not new:
        return one
    return one | {_KINDS: sorted([*known, *new], key=_written)}


def _written(kind: Json) -> str:
    return f"{kind.get('group')}/{kind.get('version')}.{kind.get('kind')}"
