"""The recorded answers of a real kube-apiserver to single fields and to lives of objects.

A record is the status and a digest of the normalized answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

from apiserver.api.objects import Json
from tests.conformance.commonform import CommonForm, dig
from tests.support.wire import ROOT
from tools.fuzz.beside import Server, normalize
from tools.fuzz.lives import Life, Step, sent

_DIRECTORY: Final = ROOT / "tests" / "fuzz" / "recorded"
_LIVES: Final = _DIRECTORY / "lives.jsonl"
#: By profile, kind and "METHOD FIELD": pairs of the field's value and its answer.
Fields = dict[str, dict[str, dict[str, list[tuple[Any, str]]]]]


def digest(answer: Json) -> str:
    """Return `CODE DIGEST` of a normalized answer."""
    text = json.dumps(answer, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return f"{answer['status']} {hashlib.sha256(text).hexdigest()[:8]}"


def play_life(server: Server, life: Life) -> Iterator[Json]:
    """Play a life; yield the normalized answers.

    Field managers that wrote in the same second are sorted by name.
    """
    names, last = CommonForm("\0"), ""
    if life.namespace:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": life.namespace}}
        server.ask("POST", "/api/v1/namespaces", namespace)
    for step in life.steps:
        answer, raw = server.exchange(step.method, step.target, sent(step, last), step.media, step.accept)
        shown = normalize(answer, raw, names)
        if answer.status < 300 and (found := _version(raw)):
            last = found
        yield _managers_in_order(shown)


def _version(raw: bytes) -> str:
    """Return the resourceVersion of the answered object; "" for a list or a table."""
    body = json.loads(raw)
    found = "" if str(body.get("kind", "")).endswith(("List", "Table")) else dig(body, "metadata.resourceVersion")
    return found or ""


def _managers_in_order(value: Any) -> Any:
    if isinstance(value, list):
        for item in value:
            _managers_in_order(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "managedFields" and isinstance(item, list):
                item.sort(key=lambda manager: json.dumps(manager, sort_keys=True))
            else:
                _managers_in_order(item)
    return value


def write_fields(fields: Fields) -> None:
    for profile, kinds in fields.items():
        lines = [f"{json.dumps(kind)}: {json.dumps(found)}" for kind, found in kinds.items()]
        (_DIRECTORY / f"fields-{profile}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read_fields(profile: str) -> dict[str, dict[str, list[tuple[Any, str]]]]:
    found: dict[str, dict[str, list[tuple[Any, str]]]] = json.loads((_DIRECTORY / f"fields-{profile}.json").read_text())
    return found


def write_lives(found: list[tuple[Life, list[str]]]) -> None:
    """Write lives with the answers to their first steps."""
    with _LIVES.open("w") as file:
        for life, answers in found:
            steps = [
                [step.method, step.target, step.media, step.accept, step.body, answer]
                for step, answer in zip(life.steps, answers, strict=False)
            ]
            file.write(json.dumps([life.of, life.number, life.namespace, steps]) + "\n")


def read_lives() -> list[tuple[Life, list[str]]]:
    found = []
    for line in _LIVES.read_text().splitlines():
        of, number, namespace, steps = json.loads(line)
        made = tuple(Step(method, target, body, media, accept) for method, target, media, accept, body, _ in steps)
        found.append((Life(of, number, namespace, made), [step[-1] for step in steps]))
    return found
