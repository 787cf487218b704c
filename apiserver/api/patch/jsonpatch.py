"""JSON patch (RFC 6902) with the deviations of upstream's library.

Replacing or testing a missing key of an object works on null, `add` without a value adds null, negative indices count
from the end, and a pointer's first segment is ignored.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from apiserver.api.codec.codec import copy_json
from apiserver.api.errors.field_errors import go_quote
from apiserver.api.objects import Json
from apiserver.api.patch.errors import PatchError
from apiserver.api.values.depth import TOO_DEEP, is_too_deep
from apiserver.api.values.go_json import unmarshal_error

__all__ = ["json_patch"]

Container = dict[str, Any] | list[Any]

#: Most bytes that all copies of one patch together may add.
COPY_LIMIT: Final = 3 * 1024 * 1024
_MISSING: Final = "missing value"
_INVALID_INDEX: Final = "invalid index referenced"
_TEST_FAILED: Final = "test failed"


def json_patch(document: Any, operations: list[Any]) -> Any:
    """Return the document after all operations. Raise PatchError at the first failure."""
    for operation in operations:
        if operation is not None and not isinstance(operation, dict):
            raise PatchError(unmarshal_error(operation, "jsonpatch.Operation"), 400)
    # Operations work in place, so they get a copy.
    patcher = _Patcher(copy_json(document))
    for operation in operations:
        patcher.apply(operation or {})
    if is_too_deep(patcher.root):
        raise PatchError(f"the patched object is {TOO_DEEP}", 400)
    return patcher.root


class _Patcher:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.copy_json = 0

    def apply(self, operation: Json) -> None:
        kind = operation.get("op")
        run = {
            "add": self.add,
            "remove": self.remove,
            "replace": self.replace,
            "move": self.move,
            "test": self.test,
            "copy": self.copy,
        }.get(kind if isinstance(kind, str) else "")
        if run is None:
            raise PatchError(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
        run(operation)

    def find(self, path: str) -> tuple[Container | None, str]:
        """Return the container that a pointer's last segment is in, and that segment."""
        segments = path.split("/")
        if len(segments) < 2 or not isinstance(self.root, dict | list):
            return None, ""
        at: Any = self.root
        for segment in segments[1:-1]:
            try:
                at = _get(at, _unescape(segment))
            except _PathError:
                return None, ""
            if not isinstance(at, dict | list):
                return None, ""
        return at, _unescape(segments[-1])

    def add(self, operation: Json) -> None:
        path = _text(operation, "path")
        if path is None:
            raise PatchError(f"add operation failed to decode path: {_MISSING}")
        container, key = self.find(path)
        if container is None:
            raise PatchError(f'add operation does not apply: doc is missing path: "{path}": {_MISSING}')
        try:
            _add(container, key, _copy(operation.get("value")))
        except _PathError as error:
            raise PatchError(f"error in add for path: '{path}': {error}") from None

    def remove(self, operation: Json) -> None:
        path = _text(operation, "path")
        if path is None:
            raise PatchError(f"remove operation failed to decode path: {_MISSING}")
        container, key = self.find(path)
        if container is None:
            raise PatchError(f'remove operation does not apply: doc is missing path: "{path}": {_MISSING}')
        try:
            _remove(container, key)
        except _PathError as error:
            raise PatchError(f"error in remove for path: '{path}': {error}") from None

    def replace(self, operation: Json) -> None:
        path = _required(operation, "path", "replace operation failed to decode path: operation missing path field")
        value = _copy(operation.get("value"))
        if path == "":
            if not isinstance(value, dict | list):
                raise PatchError("replace operation value must be object or array: %!w(<nil>)")
            self.root = value
            return
        container, key = self.find(path)
        if container is None:
            raise PatchError(f"replace operation does not apply: doc is missing path: {path}: {_MISSING}")
        try:
            _get(container, key)
        except _PathError:
            raise PatchError(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}") from None
        if isinstance(container, dict):
            container[key] = value
        else:
            container[_index(key)] = value

    def move(self, operation: Json) -> None:
        source = _required(operation, "from", "move operation failed to decode from: operation, missing from field")
        container, key = self.find(source)
        if container is None:
            raise PatchError(f"move operation does not apply: doc is missing from path: {source}: {_MISSING}")
        try:
            value = _get(container, key)
            _remove(container, key)
        except _PathError as error:
            raise PatchError(f"error in move for path: '{key}': {error}") from None
        path = _required(operation, "path", "move operation failed to decode path: operation missing path field")
        container, key = self.find(path)
        if container is None:
            raise PatchError(f"move operation does not apply: doc is missing destination path: {path}: {_MISSING}")
        try:
            _add(container, key, value)
        except _PathError as error:
            raise PatchError(f"error in move for path: '{path}': {error}") from None

    def test(self, operation: Json) -> None:
        path = _required(operation, "path", "test operation failed to decode path: operation missing path field")
        wanted = operation.get("value")
        if path == "":
            value = self.root
        else:
            container, key = self.find(path)
            if container is None:
                raise PatchError(f"test operation does not apply: is missing path: {path}: {_MISSING}")
            try:
                value = _get(container, key)
            except _PathError as error:
                raise PatchError(f"error in test for path: '{path}': {error}") from None
        if not _equal(value, wanted):
            raise PatchError(f"testing value {path} failed: {_TEST_FAILED}")

    def copy(self, operation: Json) -> None:
        source = _required(operation, "from", "copy operation failed to decode from: operation, missing from field")
        container, key = self.find(source)
        if container is None:
            raise PatchError(f"copy operation does not apply: doc is missing from path: {source}: {_MISSING}")
        try:
            value = _get(container, key)
        except _PathError as error:
            raise PatchError(f"error in copy for from: '{source}': {error}") from None
        path = _text(operation, "path")
        if path is None:
            raise PatchError(f"copy operation failed to decode path: {_MISSING}")
        container, key = self.find(path)
        if container is None:
            raise PatchError(f"copy operation does not apply: doc is missing destination path: {path}: {_MISSING}")
        if is_too_deep(value):
            raise PatchError(f"the patched object is {TOO_DEEP}", 400)
        encoded = orjson.dumps(value)
        self.copy_json += len(encoded) if value is not None else 0
        if self.copy_json > COPY_LIMIT:
            text = (
                f"Unable to complete the copy, the accumulated size increase of copy is {self.copy_json}, exceeding the"
                f" limit {COPY_LIMIT}"
            )
            raise PatchError(text)
        try:
            _add(container, key, copy_json(value))
        except _PathError as error:
            raise PatchError(f"error while adding value during copy: {error}") from None


class _PathError(ValueError):
    """A key or index that does not exist."""


def _text(operation: Json, name: str) -> str | None:
    value = operation.get(name)
    return value if isinstance(value, str) else None


def _required(operation: Json, name: str, missing: str) -> str:
    value = operation.get(name)
    if value is None:
        raise PatchError(f"{missing}: {_MISSING}")
    if not isinstance(value, str):
        raise PatchError(f"{missing.partition(': ')[0]}: {unmarshal_error(value, 'string')}")
    return value


def _unescape(segment: str) -> str:
    if "~" not in segment:
        return segment
    # Both escapes in one pass: "~01" is "~1", not "/".
    out, rest = "", segment
    while (at := rest.find("~")) >= 0:
        pair = rest[at : at + 2]
        out += rest[:at] + {"~0": "~", "~1": "/"}.get(pair, "~")
        rest = rest[at + (2 if pair in ("~0", "~1") else 1) :]
    return out + rest


def _copy(value: Any) -> Any:
    return copy_json(value) if isinstance(value, dict | list) else value


def _index(key: str) -> int:
    digits = key[1:] if key[:1] in ("+", "-") else key
    if not (digits.isascii() and digits.isdigit()):
        raise _PathError(f"strconv.Atoi: parsing {go_quote(key)}: invalid syntax")
    number = int(key)
    if not -(2**63) <= number < 2**63:
        raise _PathError(f"strconv.Atoi: parsing {go_quote(key)}: value out of range")
    return number


def _check_index(key: str, low: int, high: int) -> int:
    number = _index(key)
    if not low <= number < high:
        raise _PathError(f"Unable to access invalid index: {number}: {_INVALID_INDEX}")
    return number


def _get(container: Container, key: str) -> Any:
    """Return a member of a container; null for a missing key of an object."""
    if isinstance(container, dict):
        return container.get(key)
    return container[_check_index(key, -len(container), len(container))]


def _add(container: Container, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        size = len(container) + 1
        try:
            _index(key)
        except _PathError as error:
            raise _PathError(f"value was not a proper array index: '{key}': {error}") from None
        number = _check_index(key, -size, size)
        container.insert(number + size if number < 0 else number, value)


def _remove(container: Container, key: str) -> None:
    if isinstance(container, dict):
        if key not in container:
            raise _PathError(f"Unable to remove nonexistent key: {key}: {_MISSING}")
        del container[key]
    else:
        del container[_check_index(key, -len(container), len(container))]


def _equal(left: Any, right: Any) -> bool:
    """Return whether JSON values are equal; 1, 1.0 and true differ. Not recursive, because patches may nest deeply."""
    todo = [(left, right)]
    while todo:
        left, right = todo.pop()
        if isinstance(left, dict):
            if not isinstance(right, dict) or left.keys() != right.keys():
                return False
            todo += [(item, right[key]) for key, item in left.items()]
        elif isinstance(left, list):
            if not isinstance(right, list) or len(left) != len(right):
                return False
            todo += zip(left, right, strict=True)
        elif type(left) is not type(right) or left != right:
            return False
    return True
