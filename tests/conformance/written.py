"""Conversations that are written by hand: tests/conversations/**/*.yaml. They become steps as the player takes them.

The format has a page of its own, docs/howto/contributing/add-a-conversation.md: what is here is only how it is read.
Every mistake in a file is a ValueError that names the file, the conversation and the key.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import yaml

from apiserver.api.objects import Json
from tests.conformance.conversation import Conversation, Profile
from tests.support.wire import ROOT

FOLDER: Final = ROOT / "tests" / "conversations"
TOKENS: Final = FOLDER / "tokens.csv"

_FILE_KEYS: Final = {"about", "profile", "variables", "objects", "conversations"}
_CONVERSATION_KEYS: Final = {"name", "rule", "profile", "steps"}
_SENT: Final = {"as", "headers", "save", "where", "ignore"}
_STEP_KEYS: Final = {
    "do": _SENT | {"do", "body", "with", "raw", "status", "has", "fails", "text", "answer_headers"},
    "each": _SENT | {"each", "body", "refused", "accepted", "status"},
    "watch": {"watch", "path", "as", "headers", "status"},
    "read": {"read", "sees", "bookmarks", "save"},
    "close": {"close"},
    "pass": {"pass"},
}
#: What a conversation begins with that mentions its namespace.
_NAMESPACE: Final[Json] = {"do": "POST /api/v1/namespaces", "body": {"metadata": {"name": "$ns"}}}
_MERGE: Final = "tag:yaml.org,2002:merge"
_FAILURE = re.compile(r"(\d{3}) (\w*): (.*)", re.DOTALL)
#: How the text of an error begins, for each of the reasons that a cause may have.
_CAUSES: Final = {
    "Duplicate value": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "Internal error": "InternalError",
    "Invalid value": "FieldValueInvalid",
    "Not found": "FieldValueNotFound",
    "Required value": "FieldValueRequired",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Unsupported value": "FieldValueNotSupported",
}


def load(root: Path = FOLDER) -> list[Conversation]:
    """All conversations of a folder. Raises ValueError."""
    return [conversation for file in sorted(root.rglob("*.yaml")) for conversation in load_file(file, root)]


def load_file(path: Path, root: Path = FOLDER) -> Iterator[Conversation]:
    """Load the conversations of one file. Raise ValueError if it is malformed."""
    title = path.relative_to(root).with_suffix("").as_posix()
    try:
        given = yaml.load(path.read_text(), _Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"{title}: {error}") from error
    _known(given, _FILE_KEYS, title)
    for conversation in given["conversations"]:
        where = f"{title}: {conversation.get('name')}"
        _known(conversation, _CONVERSATION_KEYS, where)
        _required(conversation, ("name", "rule", "steps"), where)
        expansion = _Expansion(given.get("objects", {}), given.get("variables", {}), where)
        profile = Profile.read({**given.get("profile", {}), **conversation.get("profile", {})})
        steps = [step for written in conversation["steps"] for step in expansion.steps(written)]
        if any("$ns" in step.get("do", "") + step.get("path", "") for step in steps):
            steps.insert(0, _NAMESPACE)
        yield Conversation(title, conversation["name"], profile, tuple(steps))


class _Expansion:
    """Makes a written step what the player takes. One for each conversation."""

    def __init__(self, objects: Mapping[str, Json], variables: Mapping[str, str], where: str) -> None:
        self._objects, self._variables, self._where = objects, variables, where

    def steps(self, written: Json) -> Iterator[Json]:
        kind = next((key for key in _STEP_KEYS if key in written), "")
        if not kind:
            raise ValueError(f"{self._where}: a step is one of {', '.join(_STEP_KEYS)}: {written}")
        _known(written, _STEP_KEYS[kind], f"{self._where}: {written[kind]}")
        step = self._replaced(written)
        match kind:
            case "do":
                yield self._request(step)
            case "each":
                yield from self._cases(step)
            case "watch":
                yield {**step, "expect": {"status": step.pop("status", 200)}}
            case "read":
                yield _reading(step)
            case "pass":
                yield {"sleep": step["pass"], "virtual": True}
            case _:
                yield step

    def _replaced(self, value: Any) -> Any:
        """Fill the file's own variables; the others belong to the conversation."""
        match value:
            case str():
                return re.sub(r"\$(\w+)", lambda found: self._variables.get(found[1], found[0]), value)
            case list():
                return [self._replaced(item) for item in value]
            case dict():
                return {self._replaced(key): self._replaced(item) for key, item in value.items()}
        return value

    def _body(self, named: Any, changes: Mapping[str, Any]) -> Any:
        """Return the object of that name, or the body itself, with these paths changed."""
        if isinstance(named, str):
            if named not in self._objects:
                raise ValueError(f"{self._where}: no object {named!r}; there are {', '.join(self._objects)}")
            named = self._replaced(self._objects[named])
        body = copy.deepcopy(named)
        for path, value in changes.items():
            try:
                put(body, path, value)
            except (LookupError, TypeError, ValueError) as error:
                raise ValueError(f"{self._where}: nothing can be put at {path}: {error}") from error
        return body

    def _request(self, written: Json) -> Json:
        step = {key: written[key] for key in (_SENT | {"do", "raw"}) & written.keys()} | {"written": True}
        if "body" in written:
            step["body"] = self._body(written["body"], written.get("with", {}))
        headers = written.get("answer_headers", {})
        step["answer_headers"] = list(headers)
        expect: Json = {"headers": {name: text for name, text in headers.items() if text is not None}}
        has = dict(written.get("has", {}))
        if "fails" in written:
            found = _FAILURE.fullmatch(written["fails"])
            if not found:
                raise ValueError(f"{self._where}: `fails` is 'CODE REASON: MESSAGE', not {written['fails']!r}")
            expect["status"] = int(found[1])
            has |= {"kind": "Status", "status": "Failure", "code": int(found[1]), "message": found[3]}
            has |= {"reason": found[2] or None}
        else:
            _required(written, ("status",), f"{self._where}: {written['do']}")
            expect["status"] = written["status"]
        if "text" in written:
            expect["body"] = written["text"]
        else:
            step["only"], expect["body"] = list(has), has
        return {**step, "expect": expect}

    def _cases(self, written: Json) -> Iterator[Json]:
        """One request for each case: `refused` with these causes and no others, `accepted` with these values."""
        sent = {key: written[key] for key in _SENT & written.keys()}
        for case in written.get("refused", ()):
            causes = [_cause(line, self._where) for line in case["causes"]]
            has = {"reason": "Invalid", "details.causes": causes}
            step = {**sent, "do": written["each"], "body": written["body"], "status": 422, "has": has}
            yield self._request(step | {key: case[key] for key in ("with",) if key in case})
        for case in written.get("accepted", ()):
            step = {**sent, "do": written["each"], "body": written["body"], "status": written.get("status", 201)}
            yield self._request(step | {key: case[key] for key in ("with", "has") if key in case})


def _reading(written: Json) -> Json:
    events = written.pop("sees")
    step = {**written, "events": len(events), "written": True, "event_paths": [list(event) for event in events]}
    return {**step, "expect": {"events": events}}


def _cause(line: str, where: str) -> Json:
    """`FIELD: MESSAGE` as a cause of a Status."""
    field, _, message = line.partition(": ")
    reason = next((reason for beginning, reason in _CAUSES.items() if message.startswith(beginning)), "")
    if not reason:
        raise ValueError(f"{where}: a cause is 'FIELD: KIND: TEXT', its kind one of {', '.join(_CAUSES)}: {line}")
    return {"reason": reason, "message": message, "field": field}


def put(value: Any, path: str, item: Any) -> None:
    """Set what is at a path `a.b.0.c`; None removes it. The next number after a list's last appends. `~` is a dot.

    Raises LookupError, TypeError, ValueError.
    """
    head, _, rest = path.partition(".")
    key: Any = int(head) if isinstance(value, list) else head.replace("~", ".")
    if rest:
        if isinstance(value, dict):
            value.setdefault(key, [] if rest.partition(".")[0].isdigit() else {})
        elif key == len(value):
            value.append({})
        put(value[key], rest, item)
    elif item is None:
        del value[key]
    elif isinstance(value, list) and key == len(value):
        value.append(item)
    else:
        value[key] = item


def _known(given: Mapping[str, Any], keys: set[str], where: str) -> None:
    unknown = given.keys() - keys
    if unknown:
        raise ValueError(f"{where}: unknown {', '.join(sorted(unknown))}; known are {', '.join(sorted(keys))}")


def _required(given: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    missing = [key for key in keys if key not in given]
    if missing:
        raise ValueError(f"{where}: {', '.join(missing)} missing")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # written in C, where it is
    """YAML with JSON's meaning of plain words: no dates, no `yes`, no octal numbers.

    A duplicate key is an error.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value if key.tag != _MERGE]
        repeated = {key for key in keys if keys.count(key) > 1}
        if repeated:
            raise ValueError(f"{node.start_mark}: {', '.join(map(str, repeated))} given twice")
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:null", r"null|", ["n", ""]),
    ("tag:yaml.org,2002:bool", r"true|false", list("tf")),
    ("tag:yaml.org,2002:int", r"-?(0|[1-9][0-9]*)", list("-0123456789")),
    ("tag:yaml.org,2002:float", r"-?[0-9]+(\.[0-9]+([eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)", list("-0123456789")),
    (_MERGE, r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), _first)
