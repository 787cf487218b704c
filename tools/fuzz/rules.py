"""Rules for every answer and for the server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import orjson

#: Answers above 499 that upstream gives as well, by status and a part of the text, and one that is kubedra's own.
UPSTREAM: Final = tuple(
    (code, re.compile(pattern.encode()))
    for code, pattern in (
        (504, "Too large resource version"),  # storage.NewTooLargeResourceVersionError
        (500, r"strconv\.ParseUint: parsing "),  # a version that is no number, where the watch cache reads it
        (500, "resourceVersion should not be set on objects to be created"),  # generic registry, Create
        (500, r"target\.name: Required value"),  # pods/binding
        (500, "resource name may not be empty"),  # the plugin of RuntimeClass gets the pod's class over HTTP
        (500, "invalid resource name "),
        (500, "unsupported role reference kind: "),  # bindings of RBAC, GetRoleReferenceRules
        # apimachinery: strategicpatch and mergepatch
        (500, "unknown patch type: "),
        (500, "unable to find api field in struct "),
        (500, "merging an object in json but data type is not struct"),
        (500, r"expected a \S+( \{\})?, but received a "),
        (500, "does not contain declared merge key: "),
        (500, "no elements in any of the given slices"),
        (500, "expected slice or array type, but got: "),
        (500, "list element types are not identical: "),
        (500, "The order in patch list:"),
        (500, "cannot merge lists without merge key for "),
        (500, "failed to allocate a serviceIP"),  # no ServiceCIDR is left
        (500, "failed to allocate requested HealthCheck NodePort "),
        (500, "merging lists cannot yet be specified in the patch"),
        # structured-merge-diff and managedfields, about a configuration that is applied
        (500, r"failed to create typed patch object \("),
        (500, "failed to convert (new|old) object"),
        (500, "failed to prune fields: "),
        (500, "failed to create manager for existing fields: "),
        (503, "no endpoints available for service "),  # services/proxy
        # Go's server
        (501, "^Unsupported transfer encoding$"),
        (505, "^505 HTTP Version Not Supported: unsupported protocol version$"),
        (501, "kubedra emulates nodes: "),  # docs/data/fidelity/missing.md
    )
)
#: The longest work of the loop, in seconds, for which other clients may wait.
STALL: Final = 0.1
_HEAD: Final = re.compile(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*\r\n((?:[!-9;-~]+: [^\r\n]*\r\n)*)\r\n")
_LENGTH: Final = re.compile(rb"(?i)^content-length: (\d+)\r$", re.MULTILINE)
_TYPE: Final = re.compile(rb"(?i)^content-type: ([^;\r]*)", re.MULTILINE)
_CLOSES: Final = re.compile(rb"(?i)^connection: close", re.MULTILINE)
_CHUNKED: Final = re.compile(rb"(?i)^transfer-encoding: chunked", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer.

    `body` is None for a stream without an end; `end` is the offset behind the answer in the input. `last`: the server
    closes the connection after it.
    """

    status: int
    media: str
    body: bytes | None
    end: int
    last: bool = False


def read(data: bytes, at: int = 0, *, bodiless: bool = False) -> Answer | None:
    """Parse the answer at an offset. Return None if it is incomplete; raise ValueError if it is no HTTP response."""
    head = _HEAD.match(data, at)
    if head is None:
        if b"\r\n\r\n" in data[at:]:
            raise ValueError(f"this is no answer: {data[at : at + 200]!r}")
        return None
    status, fields = int(head[1]), head[2]
    media = _TYPE.search(fields)
    name = media[1].decode() if media else ""
    if _CHUNKED.search(fields):
        return Answer(status, name, None, len(data))
    length = _LENGTH.search(fields)
    size = 0 if bodiless or status in (100, 204, 304) or length is None else int(length[1])
    if length is None and status not in (100, 204, 304):
        return Answer(status, name, None, len(data))  # until the connection ends (HTTP/1.0)
    if head.end() + size > len(data):
        return None
    end = head.end() + size
    return Answer(status, name, data[head.end() : end], end, last=_CLOSES.search(fields) is not None)


def find_violation(answer: Answer) -> str:
    """Return the violation of an answer, or ""."""
    body = answer.body
    if body and answer.media == "application/json":
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            return f"the answer is no JSON: {error}: {body[:200]!r}"
        failure = isinstance(found, dict) and found.get("kind") == "Status" and found.get("status") == "Failure"
        if failure and found.get("code") != answer.status:
            return f"a Status of {found.get('code')} came with {answer.status}"
    if answer.status >= 500 and not any(
        code == answer.status and text.search(b" ".join((body or b"").split())) for code, text in UPSTREAM
    ):
        return f"{answer.status}: {(body or b'')[:500].decode(errors='replace')}"
    return ""
