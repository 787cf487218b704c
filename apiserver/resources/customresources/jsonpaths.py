r"""Evaluate simple JSON paths in columns and selectable fields of custom resources.

Examples: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`, `.metadata.labels.a\.b`,
`.spec.items[0].name`, `.spec.items[*].name`.

Facts: client-go, util/jsonpath, with missing keys allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

__all__ = ["JsonPathError", "compile_path", "shown"]

Step = Callable[[Any], Iterator[Any]]

_NAME: Final = re.compile(r"\.((?:\\.|[^.\[\]\\])+)")
_KEY: Final = re.compile(r"\[(?:'((?:\\.|[^'])*)'|\"((?:\\.|[^\"])*)\")\]")
_SLICE: Final = re.compile(r"\[(-?\d*)(:)?(-?\d*)(?::(-?\d*))?\]")
_FILTER: Final = re.compile(r"\[\?\(\s*@((?:\.(?:\\.|[^.\s=!<>)\[\]])+)*)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?))?\s*\)\]")


class JsonPathError(ValueError):
    """The path is invalid or has an unsupported form."""


def compile_path(text: str) -> Callable[[Any], list[Any]]:
    """Compile a path. Return a function that finds all its values. Raise JsonPathError."""
    steps = list(_steps(text))

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [item for each in found for item in step(each)]
        return found

    return find


def _steps(text: str) -> Iterator[Step]:
    at = 0
    while at < len(text):
        if text.startswith(("[*]", ".*"), at):
            yield _every
            at += 3 if text[at] == "[" else 2
            continue
        for pattern, make in ((_NAME, _name), (_KEY, _key), (_FILTER, _filter), (_SLICE, _slice)):
            match = pattern.match(text, at)
            if match is not None:
                yield make(match)
                at = match.end()
                break
        else:
            raise JsonPathError(f"unrecognized part of a JSON path: {text[at:]}")


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from (value[key] for key in sorted(value))


def _member(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _name(match: re.Match[str]) -> Step:
    return _member(re.sub(r"\\(.)", r"\1", match[1]))


def _key(match: re.Match[str]) -> Step:
    return _member(re.sub(r"\\(.)", r"\1", match[1] if match[1] is not None else match[2]))


def _slice(match: re.Match[str]) -> Step:
    first, colon, last, stride = match.groups()
    if not colon and not first:
        raise JsonPathError(f"unrecognized part of a JSON path: {match[0]}")

    def step(value: Any) -> Iterator[Any]:
        if not isinstance(value, list):
            return
        if colon:
            yield from value[int(first) if first else None : int(last) if last else None : int(stride or 1)]
        elif -len(value) <= int(first) < len(value):
            yield value[int(first)]

    return step


def _filter(match: re.Match[str]) -> Step:
    left, operator, text = compile_path(match[1]), match[2], match[3]
    right = _literal(text) if operator else None

    def holds(item: Any) -> bool:
        found = left(item)
        if not operator:
            return bool(found)
        return any(_compare(operator, value, right) for value in found)

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if holds(item))

    return step


def _literal(text: str) -> Any:
    if text[:1] == "'" and text[-1:] == "'":
        return text[1:-1]
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise JsonPathError(f"unrecognized literal in a JSON path: {text}") from None


def _compare(operator: str, left: Any, right: Any) -> bool:
    if operator in ("==", "!="):
        return (left == right) is (operator == "==")
    numbers = (int, float)
    if isinstance(left, str) is not isinstance(right, str) or not isinstance(left, (str, *numbers)):
        return False
    match operator:
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
    return bool(left >= right)


def shown(value: Any) -> str:
    """Format a value as Go prints it in a cell of type string: composite values as JSON."""
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return "true" if value else "false"
    if value is None:
        return "<no value>"
    return orjson.dumps(value).decode()
