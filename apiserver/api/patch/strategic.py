"""Strategic merge patch: merging by the merge keys and strategies of the schema.

    map     merged field by field; `$patch: replace|delete` replaces or empties it, `$retainKeys` drops unlisted fields
    list    strategy "merge": elements with the same merge key are merged, `$patch: delete` removes one, `$patch:
            replace` all;
            lists of scalars become sets, `$deleteFromPrimitiveList/x` removes from them; `$setElementOrder/x` orders
            the result. Without that strategy a list is replaced.

Elements of the patch precede elements that only the server has, unless the server's order decides otherwise.
"""

from __future__ import annotations

from heapq import heappop, heappush
from operator import is_
from typing import Any, Final

from apiserver.api.objects import Json
from apiserver.api.patch.errors import PatchError
from apiserver.api.patch.goformat import go_format, go_text, go_type
from apiserver.api.patch.ordering import element_key, identity, ordered, same, split_by_presence
from apiserver.api.schema.language import Field, ListOf, MapOf, Scalar, Struct, Type, go_name

__all__ = ["strategic_merge_patch"]


DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_FROM_LIST: Final = "$deleteFromPrimitiveList"
ELEMENT_ORDER: Final = "$setElementOrder"

_BAD_RETAIN_KEYS: Final = "invalid patch format of retainKeys"
_BAD_ELEMENT_ORDER: Final = "invalid patch format of setElementOrder list"
_BAD_PRIMITIVE_LIST: Final = "invalid patch format of primitive list"


def strategic_merge_patch(schema: Struct, document: Json, patch: Any) -> Json:
    """Return the merged document. Raise PatchError."""
    if not isinstance(patch, dict):
        raise PatchError("invalid JSON document", 400)
    return _merge_map(document, patch, schema)


def _merge_map(original: Json, patch: Json, schema: Type) -> Json:
    """Return the merged map.

    An unchanged map is returned itself, so that callers detect unchanged parts by identity.
    """
    if DIRECTIVE in patch:
        return _whole(patch)
    out, changed = dict(original), False
    if any(key.startswith((RETAIN_KEYS, ELEMENT_ORDER)) for key in patch):
        patch, changed = dict(patch), True
        out = _retain_keys(out, patch)
        _apply_orders(out, patch, schema)
    for key, value in patch.items():
        removing = key.startswith(DELETE_FROM_LIST)
        name = _subject(key, DELETE_FROM_LIST, _BAD_PRIMITIVE_LIST) if removing else key
        present: Any = out.get(name)
        if value is None:
            changed |= name in out
            out.pop(name, None)
        elif type(present) is not type(value):
            if not removing:
                changed = True
                _set_member(out, name, _drop_nulls(value))
        elif isinstance(value, dict):
            field = _field(schema, name)
            out[name] = value if _strategy(field) == "replace" else _merge_map(present, value, field.type)
            changed |= out[name] is not present
        elif isinstance(value, list):
            item, strategy, key_name = _list_rules(schema, name)
            merging = strategy == "merge" or removing
            out[name] = _merge_list(present, value, item, key_name, removing) if merging else value
            changed |= out[name] is not present
        elif value != present or isinstance(value, float):  # 0.0 and -0.0 are equal
            out[name] = value
            changed = True
    return out if changed else original


def _whole(patch: Json) -> Json:
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _unknown_directive(directive: Any, patch: Json) -> PatchError:
    return PatchError(f"unknown patch type: {go_text(directive)} in map: {go_format(patch)}", 500)


def _retain_keys(original: Json, patch: Json) -> Json:
    """Drop fields missing in `$retainKeys`. Raise PatchError if the patch sets an unlisted field."""
    if RETAIN_KEYS not in patch:
        return original
    keys = patch.pop(RETAIN_KEYS)
    if not isinstance(keys, list):
        raise PatchError(_BAD_RETAIN_KEYS, 400)
    kept = {key for key in keys if isinstance(key, str)}
    for key, value in patch.items():
        if value is not None and not key.startswith((DELETE_FROM_LIST, ELEMENT_ORDER)) and key not in kept:
            raise PatchError(_BAD_RETAIN_KEYS, 400)
    return {key: value for key, value in original.items() if key in kept}


def _apply_orders(out: Json, patch: Json, type: Type) -> None:
    """Merge and order the lists with a `$setElementOrder`, and remove them from the patch."""
    for directive in [key for key in patch if key.startswith(ELEMENT_ORDER)]:
        order = _list(patch.pop(directive))
        name = _subject(directive, ELEMENT_ORDER, _BAD_ELEMENT_ORDER)
        current = _list(out[name]) if name in out else None
        change = _list(patch[name]) if name in patch else None
        item, strategy, key_name = _list_rules(type, name)
        _check_order(change or [], order, key_name)
        if current is None and change is None:
            continue
        if current is None:
            merged = _drop_directives(change)
        elif change is None:
            merged = current
        else:
            merged = _merge_list(current, change, item, key_name, removing=False) if strategy == "merge" else change
        ours, theirs = split_by_presence(merged, order, key_name)
        keyed = _element_type(current or [], change or []) == "map[string]interface {}"
        out[name] = ordered(ours, theirs, order, current or [], key_name if keyed else "", keyed=keyed)
        patch.pop(name, None)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PatchError(f"expected a []interface {{}}, but received a {go_type(value)}", 500)
    return value


def _check_order(change: list[Any], order: list[Any], key_name: str) -> None:
    """Raise PatchError if added elements are not in the order that the patch requires."""
    if not order or not change:
        return
    added = change
    if key_name:
        added = [item for item in map(_map, change) if item.get(DIRECTIVE) != "delete"]
    at, found = 0, 0
    while found < len(added) and at < len(order):
        if isinstance(added[found], dict) and DIRECTIVE in added[found]:
            found += 1
            continue
        if same(element_key(added[found], key_name), element_key(order[at], key_name)):
            found += 1
        at += 1
    if found < len(added) and at >= len(order):
        text = (
            f"The order in patch list:\n{go_format(change)}\n doesn't match {ELEMENT_ORDER} list:\n{go_format(order)}\n"
        )
        raise PatchError(text, 500)


def _map(value: Any) -> Json:
    if not isinstance(value, dict):
        raise PatchError(f"expected a map[string]interface {{}}, but received a {go_type(value)}", 500)
    return value


def _merge_list(original: list[Any], patch: list[Any], item: Type, key_name: str, removing: bool) -> list[Any]:
    if not original and not patch:
        return original
    if key_name and not removing and (plain := _merge_plain(original, patch, item, key_name)) is not None:
        return plain
    keyed = _element_type(original, patch) == "map[string]interface {}"
    if not keyed:
        if removing:
            gone = {(type(value), value) for value in patch}
            return [value for value in original if (type(value), value) not in gone]
        merged = _distinct([*original, *patch])
    else:
        if not key_name:
            raise PatchError(
                f"cannot merge lists without merge key for {'struct' if isinstance(item, Struct) else 'map'}", 500
            )
        original, patch = _special_elements(original, patch, key_name)
        merged = _merge_elements(original, patch, item, key_name)
    ours, theirs = split_by_presence(merged, patch, key_name)
    return ordered(ours, theirs, patch, original, key_name, keyed=keyed)


def _merge_plain(original: list[Any], patch: list[Any], item: Type, key_name: str) -> list[Any] | None:
    """Merge lists of maps without directives, each with a distinct string as merge key: nearly all lists.

    The result equals that of the general rules. Return None for other lists.
    """
    known, brought = _by_name(original, key_name), _by_name(patch, key_name)
    if known is None or brought is None:
        return None
    places = {name: place for place, name in enumerate(known)}
    others = [place for name, place in places.items() if name not in brought]
    out: list[Any] = []
    left = 0
    for name, element in brought.items():
        place = places.get(name, -1)
        while left < len(others) and others[left] < place:
            out.append(original[others[left]])
            left += 1
        out.append(element if place < 0 else _merge_map(known[name], element, item))
    out += [original[place] for place in others[left:]]
    return original if len(out) == len(original) and all(map(is_, out, original)) else out


def _by_name(elements: list[Any], key_name: str) -> dict[str, Json] | None:
    """Return maps by merge key. Return None if a key is no string or repeated, or an element has a directive."""
    found: dict[str, Json] = {}
    for element in elements:
        name = element.get(key_name) if type(element) is dict else None
        if type(name) is not str or name in found or DIRECTIVE in element:
            return None
        found[name] = element
    return found


def _special_elements(original: list[Any], patch: list[Any], key_name: str) -> tuple[list[Any], list[Any]]:
    """Apply the elements with a directive. Return the rest of both lists."""
    plain: list[Any] = []
    gone = set()
    replace = False
    for element in patch:
        if DIRECTIVE not in element:
            plain.append(element)
            continue
        directive = element[DIRECTIVE]
        if directive == "delete":
            gone.add(identity(element_key(element, key_name)))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch", 500)
        else:
            raise _unknown_directive(directive, element)
    if gone:
        original = [item for item in original if not (key_name in _element(item) and identity(item[key_name]) in gone)]
    return (plain, []) if replace else (original, plain)


def _element(value: Any) -> Json:
    if not isinstance(value, dict):
        raise PatchError("value for key 0 is not a map", 500)
    return value


def _merge_elements(original: list[Any], patch: list[Any], item: Type, key_name: str) -> list[Any]:
    out = list(original)
    places: dict[Any, int] = {}
    for at, other in enumerate(out):
        if key_name in _element(other):
            places.setdefault(identity(other[key_name]), at)
    for element in patch:
        at = places.setdefault(identity(element_key(element, key_name)), len(out))
        if at == len(out):
            out.append(element)
        else:
            out[at] = _merge_map(out[at], element, item)
    return out


def _distinct(values: list[Any]) -> list[Any]:
    """Return each scalar once. The list's last element replaces a repeated one, as in upstream's algorithm."""
    values = list(values)
    places: dict[Any, list[int]] = {}
    for at, value in enumerate(values):
        places.setdefault(identity(value), []).append(at)  # a heap: positions ascend
    first = 0
    while first < len(values):
        known = identity(values[first])
        heap = places[known]
        while heap:
            at = heappop(heap)
            if at <= first or at >= len(values) or identity(values[at]) != known:
                continue  # already moved
            last = values.pop()
            if at < len(values):
                values[at] = last
                heappush(places[identity(last)], at)
        first += 1
    return values


def _element_type(*lists: list[Any]) -> str:
    found = ""
    for values in lists:
        for value in values:
            name = go_type(value)
            if not found and isinstance(value, list):
                raise PatchError("lists of lists are not supported", 422)
            if found and name != found:
                raise PatchError(f"list element types are not identical: {go_format(list(lists))}", 500)
            found = name
    if not found:
        raise PatchError("no elements in any of the given slices", 500)
    return found


def _set_member(out: Json, name: str, value: Any) -> None:
    """Set a value that has no counterpart to merge with. Skip a value that consists only of a directive."""
    if _is_directive(value):
        out.pop(name, None)
    else:
        out[name] = _drop_directives(value)


def _drop_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _drop_directives(item) for key, item in value.items() if not _is_directive(item)}
    return [_drop_directives(item) for item in value if not _is_directive(item)] if isinstance(value, list) else value


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and DIRECTIVE in value


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _drop_nulls(item) for key, item in value.items() if item is not None}
    return [_drop_nulls(item) for item in value] if isinstance(value, list) else value


def _subject(key: str, prefix: str, error: str) -> str:
    """Return the field that `$prefix/field` refers to."""
    head, slash, name = key.partition("/")
    if not slash or head != prefix:
        raise PatchError(error, 400)
    return name


# Merge rules of a field in the schema


def _field(type: Type, name: str) -> Field:
    if not isinstance(type, Struct):
        kind = "slice" if isinstance(type, ListOf) else "map" if isinstance(type, MapOf) else _reflect_kind(type)
        raise PatchError(f"merging an object in json but data type is not struct, instead is: {kind}", 500)
    field = type.fields.get(name) or next(
        (item for known, item in type.fields.items() if known.casefold() == name.casefold()), None
    )
    if field is None:
        raise PatchError(f'unable to find api field in struct {type.kind} for the json field "{name}"', 500)
    return field


def _reflect_kind(type: Type) -> str:
    if isinstance(type, Scalar) and type.name in (
        "time",
        "microTime",
        "quantity",
        "intOrString",
        "raw",
        "fieldsV1",
        "duration",
    ):
        return "struct"
    return "interface" if isinstance(type, Scalar) and type.name == "any" else go_name(type)


def _strategy(field: Field) -> str:
    """Return the strategy without retainKeys, which the patch itself contains."""
    strategies = (field.type.strategy if isinstance(field.type, ListOf) else field.strategy).split(",")
    return next((name for name in strategies if name != "retainKeys"), "")


def _list_rules(type: Type, name: str) -> tuple[Type, str, str]:
    """Return element type, strategy and merge key of a list field."""
    field = _field(type, name)
    if not isinstance(field.type, ListOf):
        raise PatchError("expected slice or array type, but got: struct", 500)
    return field.type.item, _strategy(field), field.type.merge_key or ""
