r"""Sets of field paths: a manager's fields, and the changed fields of a write.

A set is the nested dict that managedFields have on the wire, so decoding costs nothing:

    {"f:data": {".": {}, "f:a": {}}, "f:spec": {"f:items": {"k:{\"name\":\"x\"}": {...}}}}

An element of a path is `f:` a field or map key, `k:` the keys of a list item, `v:` the value of a set item. A node is a
member if it is empty (a leaf) or has ".". A node that is neither a member nor a parent does not exist. The root's empty
dict is the empty set. Sets are values: every operation returns a set that may share parts with its operands, and
changes none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = [
    "FieldSet",
    "contains",
    "difference",
    "intersection",
    "of_paths",
    "ordered",
    "paths",
    "render_element",
    "union",
    "union_of",
    "without",
]

FieldSet = dict[str, Any]


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the paths in either set."""
    if not a or not b:
        return a or b
    out = dict(a)
    for element, node in b.items():
        have = out.get(element)
        if have and node:
            out[element] = union(have, node)
        elif have is None:
            out[element] = node
        else:  # One of the two is a leaf, and so a member.
            other = have or node
            out[element] = {".": {}, **other} if other and "." not in other else other
    return out


def union_of(sets: Sequence[FieldSet]) -> FieldSet:
    """Return the paths in any of the sets."""
    if len(sets) == 1:
        return sets[0]
    nodes: dict[str, list[FieldSet]] = {}
    for each in sets:
        for element, node in each.items():
            nodes.setdefault(element, []).append(node)
    out: FieldSet = {}
    for element, found in nodes.items():
        whole = out[element] = union_of([node for node in found if node] or [{}])
        if whole and "." not in whole and not all(found):  # A leaf, and so a member.
            out[element] = {".": {}, **whole}
    return out


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the paths in both sets."""
    out: FieldSet = {}
    for element, node in a.items():
        other = b.get(element)
        if other is not None:
            both = _intersect_nodes(node, other)
            if both is not None:
                out[element] = both
    return out


def _intersect_nodes(a: FieldSet, b: FieldSet) -> FieldSet | None:
    children = intersection(a, b) if a and b else {}
    children.pop(".", None)
    if (not a or "." in a) and (not b or "." in b):
        return {".": {}, **children} if children else {}
    return children or None


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the paths of `a` that are not in `b`. A path below one of `b` stays."""
    out: FieldSet = {}
    for element, node in a.items():
        other = b.get(element)
        if other is None:
            out[element] = node
        elif element == ".":
            continue
        elif not node:
            if other and "." not in other:
                out[element] = node
        else:
            rest = difference(node, other) if other else {name: node[name] for name in node if name != "."}
            if rest:
                out[element] = {} if len(rest) == 1 and "." in rest else rest
    return out


def without(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the paths of `a` that are neither in `b` nor below a path of `b`."""
    out: FieldSet = {}
    for element, node in a.items():
        other = b.get(element)
        if other is None:
            out[element] = node
        elif other and "." not in other:
            rest = without(node, other) if node else node
            if rest or not node:  # A member without children is empty.
                out[element] = {} if len(rest) == 1 and "." in rest else rest
    return out


def contains(node: FieldSet, *elements: str) -> bool:
    """Return whether the path of these elements is in the set."""
    for element in elements:
        below = node.get(element)
        if below is None:
            return False
        node = below
    return not node or "." in node


def of_paths(*dotted: str) -> FieldSet:
    """Return a set of plain field paths: `of_paths("status", "metadata.labels")`."""
    out: FieldSet = {}
    for path in dotted:
        node: FieldSet = {}
        for name in reversed(path.split(".")):
            node = {"f:" + name: node}
        out = union(out, node)
    return out


def of_elements(elements: Sequence[str]) -> FieldSet:
    """Return the set of one path, given by its elements (`f:spec`, `f:replicas`)."""
    node: FieldSet = {}
    for element in reversed(elements):
        node = {element: node}
    return node


def paths(node: FieldSet, prefix: str = "") -> list[str]:
    """Return all paths in upstream's form and order.

    A path looks like `.data.a` or `.spec.containers[name="c"].image`. The members of a level precede the paths below
    them.
    """
    elements = sorted(element for element in node if element != ".")
    out = [prefix + render_element(element) for element in elements if not node[element] or "." in node[element]]
    for element in elements:
        if node[element]:
            out += paths(node[element], prefix + render_element(element))
    return out


def render_element(element: str) -> str:
    """Render an element of a path as upstream prints it."""
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return "." + text
    if kind == "k:":
        keys = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in json.loads(text).items())
        return "[" + ",".join(keys) + "]"
    return f"[={text}]" if kind == "v:" else f"[{text}]"


def ordered(node: FieldSet) -> FieldSet:
    """Return the set with its elements in upstream's order: "." first, then by text."""
    return {element: ordered(node[element]) if node[element] else node[element] for element in sorted(node)}
