"""The schema's merge rules, for server-side apply.

    check    report misfits of an applied object (undeclared fields, repeated items)
    merge    lay the applied object over the live one
    remove   remove the fields of a set from an object
    named    add every declared field with members below it to a set

Values are JSON; ABSENT means no value. Rules and words are those of structured-merge-diff (typed).
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.patch.goformat import go_format
from apiserver.api.schema.language import DEDUCED, Field, ListOf, MapOf, Scalar, Struct, Type
from apiserver.registry.fields.set import FieldSet, render_element
from apiserver.registry.fields.walk import ABSENT, NAMELESS, ListWalker, walker_of

__all__ = ["add_parent_fields", "check", "merge", "remove"]

_NUMBERS: Final = frozenset({"int32", "int64", "float64"})
_TEXTS: Final = frozenset({"string", "bytes"})
_DUPLICATE: Final = "duplicate entries for key"
_UNCHECKED: Final = frozenset({"raw", "any", "fieldsV1", "own"})


def _granular(item: Field) -> Type | None:
    """Return a field's type, or None if the field is owned as a whole."""
    return None if item.atomic else item.type


def _elements(type_: ListOf) -> ListWalker:
    walker = walker_of(type_)
    assert isinstance(walker, ListWalker)
    walker.item  # noqa: B018 - makes the defaults of keys known
    return walker


# Check


def check(type_: Type, value: Any, *, allows_duplicates: bool = False) -> str:
    """Return the error for a value that does not fit its type, in upstream's words; "" if it fits.

    With `allows_duplicates` repeated items are valid, because stored objects may have them.
    """
    found = _misfits(type_, value)
    if allows_duplicates:
        found = [(path, text) for path, text in found if not text.startswith(_DUPLICATE)]
    errors = [f"{path}: {text}" if path else text for path, text in found]
    if len(errors) < 2:
        return errors[0] if errors else ""
    return "errors:\n" + "\n".join("  " + error for error in errors)


def _misfits(type_: Type, value: Any) -> list[tuple[str, str]]:
    """Return the paths and texts of all misfits.

    A path is built while returning, so a value that fits costs none.
    """
    if value is None:
        return []
    if isinstance(type_, Struct | MapOf):
        if not isinstance(value, dict):
            return [("", f"expected map, got &{{{go_format(value)}}}")]
        found = []
        for name, item in value.items():
            if isinstance(type_, MapOf):
                wrong = _misfits(type_.value, item)
            elif name in type_.fields:
                wrong = _misfits(type_.fields[name].type, item)
            else:
                found.append((f".{name}", "field not declared in schema"))
                break  # Upstream stops at an undeclared field.
            if wrong:
                found += [(f".{name}{path}", text) for path, text in wrong]
        return found
    if isinstance(type_, ListOf):
        return (
            _item_misfits(type_, value)
            if isinstance(value, list)
            else [("", f"expected list, got &{{{go_format(value)}}}")]
        )
    text = _wrong_scalar(type_, value)
    return [("", text)] if text else []


def _item_misfits(type_: ListOf, items: list[Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    seen = set()
    for index, item in enumerate(items):
        at = ""
        if type_.kind != "atomic":
            text = _unnamed(type_, item)
            if text:
                return [*found, ("", f"element {index}: {text}")]
            element = _elements(type_).element(item)
            if element in seen:
                found.append(("", f"{_DUPLICATE} {render_element(element)}"))
            seen.add(element)
            at = element
        wrong = _misfits(type_.item, item)
        if wrong:
            prefix = render_element(at) if at else f"[{index}]"
            found += [(prefix + path, text) for path, text in wrong]
    return found


def _unnamed(type_: ListOf, item: Any) -> str:
    """Return the reason why an item of a set or keyed list has no name; "" if it has one."""
    if not type_.keys:
        if isinstance(item, dict):
            return "associative list without keys has an element that's a map type"
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        return "associative list without keys has an element that's an explicit null" if item is None else ""
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if _elements(type_).element(item) == NAMELESS:
        keys = "[" + " ".join(go_quote(key) for key in type_.keys) + "]"
        return (
            f"associative list with keys has an element that omits all key fields {keys} (and doesn't have default"
            " values for any key fields)"
        )
    return ""


def _wrong_scalar(type_: Scalar, value: Any) -> str:
    name = type_.name
    if name in _UNCHECKED:
        return ""
    if name in _NUMBERS:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if fits else f"expected numeric (int or float), got {_go_type(value)}"
    if name in _TEXTS:
        return (
            ""
            if isinstance(value, str)
            else f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        )
    if name == "bool":
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{go_format(value)}}}"
    return f"expected any scalar, got &{{{go_format(value)}}}" if isinstance(value, dict | list) else ""


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    return "map[string]interface {}" if isinstance(value, dict) else "[]interface {}"


def _go_syntax(value: Any) -> str:
    """Render a value as Go's %#v."""
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, dict):
        return (
            "map[string]interface {}{"
            + ", ".join(f"{go_quote(key)}:{_go_syntax(value[key])}" for key in sorted(value))
            + "}"
        )
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_go_syntax, value)) + "}"
    return "interface {}(nil)" if value is None else go_format(value)


# Merge


def merge(type_: Type | None, live: Any, applied: Any) -> Any:
    """Merge the applied value over the live one; ABSENT if nothing is left. A type of None is a leaf."""
    if applied is ABSENT:
        return live
    if live is ABSENT and not isinstance(applied, dict | list):
        return applied
    if isinstance(type_, Struct) and not type_.atomic:
        fields = type_.fields
        return _merge_members(live, applied, lambda name: _granular(fields[name]) if name in fields else None)
    if isinstance(type_, MapOf) and not type_.atomic:
        value_type = type_.value
        return _merge_members(live, applied, lambda _: value_type)
    if isinstance(type_, ListOf) and type_.kind != "atomic":
        return _merge_items(type_, live, applied)
    if type_ is DEDUCED and isinstance(applied, dict) and (live is ABSENT or isinstance(live, dict)):
        return _merge_members(live, applied, lambda _: DEDUCED)
    return applied


def _merge_members(live: Any, applied: Any, type_of: Any) -> Any:
    left, right = (live if live is not ABSENT else None) or {}, applied or {}
    if not left and not right:
        return applied
    out = {}
    for name in {**left, **right}:
        if name not in right:
            out[name] = left[name]
            continue
        made = right[name]
        if type(made) is not str:  # Most members are strings, which need no merge.
            made = merge(type_of(name), left.get(name, ABSENT), made)
        if made is not ABSENT:
            out[name] = made
    return out or ABSENT


def _merge_items(type_: ListOf, live: Any, applied: Any) -> Any:
    left, right = (live if live is not ABSENT else None) or [], applied or []
    if not left and not right:
        return applied
    element = _elements(type_).element
    live_names, applied_names = [element(item) for item in left], [element(item) for item in right]
    live_items: dict[str, list[Any]] = {}
    for name, item in zip(live_names, left, strict=True):
        live_items.setdefault(name, []).append(item)
    applied_items = dict(zip(applied_names, right, strict=True))
    out = []
    for name in _order(live_names, applied_names):
        there, stated = live_items.get(name, ()), applied_items.get(name, ABSENT)
        if stated is ABSENT:  # Repeated live items that are not applied keep their places.
            made = merge(type_.item, live_items[name].pop(0), ABSENT)
        else:
            made = merge(type_.item, there[0] if len(there) == 1 else ABSENT, stated)
        if made is not ABSENT:
            out.append(made)
    return out or ABSENT


def _order(live: list[str], applied: list[str]) -> list[str]:
    """Order the items of a merged list.

    Live and applied items keep their relative order; the applied order wins a conflict. A live item precedes the
    applied items that follow it in the live list.
    """
    in_live, in_applied = set(live), set(applied)
    shared = [name for name in applied if name in in_live]
    out: list[str] = []
    done: set[str] = set()
    at = following = next_shared = 0
    while at < len(live) or following < len(applied):
        if at < len(live):
            name = live[at]
            expected = shared[next_shared] if next_shared < len(shared) else None
            if name not in in_applied:
                out.append(name)
                at += 1
                continue
            if name in done or (
                following < len(applied) and expected is not None and name != expected and name != applied[following]
            ):
                at += 1
                continue
        if following < len(applied):
            name = applied[following]
            if at < len(live) and live[at] == name:
                at += 1
            out.append(name)
            done.add(name)
            following += 1
            if next_shared < len(shared) and shared[next_shared] == name:
                next_shared += 1
    return out


# Remove


def remove(type_: Type | None, value: Any, fields: FieldSet) -> Any:
    """Remove the fields of a set from a value. Emptied containers stay."""
    if not fields or not value:
        return value
    if isinstance(value, dict):
        if isinstance(type_, Struct) and not type_.atomic:
            declared = type_.fields
            return _remove_members(value, fields, lambda name: _granular(declared[name]) if name in declared else None)
        if isinstance(type_, MapOf) and not type_.atomic:
            value_type = type_.value
            return _remove_members(value, fields, lambda _: value_type)
        if type_ is DEDUCED:
            return _remove_members(value, fields, lambda _: DEDUCED)
    if isinstance(value, list) and isinstance(type_, ListOf) and type_.kind != "atomic":
        element = _elements(type_).element
        return [
            remove(type_.item, item, fields.get(element(item), {}))
            for item in value
            if not _member(fields.get(element(item)))
        ]
    return value


def _remove_members(value: dict[str, Any], fields: FieldSet, type_of: Any) -> dict[str, Any]:
    out = {}
    for name, item in value.items():
        node = fields.get("f:" + name)
        if not _member(node):
            out[name] = remove(type_of(name), item, node) if node else item
    return out


def _member(node: FieldSet | None) -> bool:
    return node is not None and (not node or "." in node)


# Named


def add_parent_fields(type_: Type | None, fields: FieldSet) -> FieldSet:
    """Add each declared field with members below it to the set."""
    if isinstance(type_, Struct):
        declared = type_.fields
        out = {}
        for element, node in fields.items():
            item = declared.get(element[2:]) if element[:2] == "f:" else None
            below = add_parent_fields(item.type if item else None, node) if node else node
            out[element] = {".": {}, **below} if below and item is not None and "." not in below else below
        return out
    if isinstance(type_, MapOf | ListOf):
        inner = type_.value if isinstance(type_, MapOf) else type_.item
        return {element: add_parent_fields(inner, node) if node else node for element, node in fields.items()}
    return fields
