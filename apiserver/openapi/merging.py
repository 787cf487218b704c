"""Merge OpenAPI 2 documents of several servers by the rules of kube-openapi's aggregator.

The first document with a path wins. A definition or parameter whose name is taken by a different one gets a numbered
name (`_v2`, `_v3` …). An equal one is shared and lists the kinds of both. Descriptions are not compared: kubedra's are
its own sentences, so every server built with Kubernetes' libraries would duplicate all types shared with this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final

import orjson

from apiserver.api.objects import Json

__all__ = ["merge_documents", "select_paths"]


_REFERENCE: Final = re.compile(rb'"\$ref":"#/(definitions|parameters)/([^"]+)"')
_KINDS: Final = "x-kubernetes-group-version-kind"
_PARTS: Final = ("definitions", "parameters")


def select_paths(document: Json, prefix: str) -> Json:
    """Return the part of a document about paths with a prefix.

    It keeps the definitions reachable from these paths, and those that no path ever referenced.
    """
    paths = document.get("paths") or {}
    return _with_paths(document, {path: item for path, item in paths.items() if path.startswith(prefix)})


def merge_documents(document: Json, others: Iterable[Json]) -> Json:
    """Return a document extended by the paths, definitions and parameters of others, in the order of their precedence.

    Unchanged parts are the same objects in both.
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
    for part, same in zip(_PARTS, (_is_same_definition, _is_same), strict=True):
        found = _new_names(made[part], other.get(part) or {}, same)
        names |= {f"#/{part}/{old}": f"#/{part}/{new}" for old, new in found.items()}
    for part in _PARTS:
        for name, item in (other.get(part) or {}).items():
            name = names.get(f"#/{part}/{name}", f"#/{part}/{name}").removeprefix(f"#/{part}/")
            item = _rename_references(item, names)
            made[part][name] = _combine(made[part][name], item) if name in made[part] else item
    made["paths"] |= _rename_references(paths, names)


def _with_paths(document: Json, paths: Json) -> Json:
    before, after = _reachable(document, document.get("paths") or {}), _reachable(document, paths)
    definitions = {
        name: item
        for name, item in (document.get("definitions") or {}).items()
        if ("definitions", name) in after or ("definitions", name) not in before
    }
    return document | {"paths": paths, "definitions": definitions}


def _reachable(document: Json, paths: Json) -> set[tuple[str, str]]:
    """Return the definitions and parameters reachable from paths, as (part, name)."""
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
    """Return new names for the parts whose name is taken by a different one."""
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


def _is_same(one: Any, other: Any) -> bool:
    return bool(_without_descriptions(one) == _without_descriptions(other))


def _is_same_definition(one: Json, other: Json) -> bool:
    return _is_same({**one, _KINDS: None}, {**other, _KINDS: None})


def _without_descriptions(value: Any) -> Any:
    """Remove descriptions, but not properties of that name."""
    if isinstance(value, dict):
        return {
            key: _without_descriptions(item)
            for key, item in value.items()
            if key != "description" or not isinstance(item, str)
        }
    return [_without_descriptions(item) for item in value] if isinstance(value, list) else value


def _rename_references(value: Any, names: Mapping[str, str]) -> Any:
    """Replace references by the new names."""
    if not names:
        return value
    if isinstance(value, dict):
        return {
            key: names.get(item, item) if key == "$ref" and isinstance(item, str) else _rename_references(item, names)
            for key, item in value.items()
        }
    return [_rename_references(item, names) for item in value] if isinstance(value, list) else value


def _combine(one: Json, other: Json) -> Json:
    """Return a definition that two servers share, with the kinds of both."""
    known, more = one.get(_KINDS) or [], other.get(_KINDS) or []
    new = [kind for kind in more if kind not in known]
    if not new:
        return one
    return one | {_KINDS: sorted([*known, *new], key=_format_kind)}


def _format_kind(kind: Json) -> str:
    return f"{kind.get('group')}/{kind.get('version')}.{kind.get('kind')}"
