"""The common form of outputs and objects: what differs from run to run, or on purpose, is replaced or left out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from apiserver.api.objects import Json
from tools.fuzz.kubectl.program import Output

#: Texts of one run, in the order in which they are replaced.
_VARYING: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"https?://127\.0\.0\.1:\d+", "<server>"),
        (r"127\.0\.0\.1:\d+", "<address>"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d| \+0000 UTC)?", "<time>"),
        (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "<time>"),
        (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
        (r"(resourceVersion\\?\"?: ?\\?\"?)\d+", r"\1<rv>"),
        (r"(resource version to be \d+, was )\d+", r"\1<rv>"),
        (r"(Resource Version: +)\d+", r"\1<rv>"),
        (r"\.[0-9a-f]{16}\b", ".<event>"),
        (r"\b10\.0\.\d{1,3}\.\d{1,3}\b", "<ip>"),
        (r"\b3[012]\d{3}\b", "<port>"),
        (r" \(x\d+ over [\w.]+\)", ""),
        (r"(?<=[-.])[bcdfghjklmnpqrstvwxz2456789]{5}\b", "*"),
        (r"-\d{8}(?=\b|-)", "-<minute>"),
        (r"/[\w./-]+/(LIVE|MERGED)-\d+", r"<\1>"),
        (r"<time> \+0000", "<time>"),
        (r"/tmp/[\w./-]+", "<file>"),
        (r"[\w./-]*(?=pkg/api/legacyscheme/scheme\.go)", ""),
    )
)
_AGE: Final = re.compile(r"(?<=\s)(\d+(ms|s|m|h|d)){1,2}( ago)?(?=\s|$)|<unknown>|<invalid>(?= |$)", re.MULTILINE)
#: Log lines of client-go about its own timing.
_LOG: Final = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d.*\n", re.MULTILINE)
_SPACES: Final = re.compile(r" {2,}|\t+")


@dataclass(frozen=True, slots=True)
class Intended:
    """An intended difference (docs/data/fidelity/differences.md): what is replaced in outputs of matching commands."""

    reason: str
    command: re.Pattern[str]
    text: re.Pattern[str]
    replacement: str = ""


def _intended(reason: str, command: str, text: str, replacement: str = "") -> Intended:
    return Intended(reason, re.compile(command), re.compile(text, re.MULTILINE), replacement)


#: Sources of events that depend on the pace of a server, and why.
IGNORED_EVENTS: Final = {
    "ipallocator-repair-controller": "the real server reports addresses whose IPAddress its informer has not seen yet",
}  # fmt: skip

INTENDED: Final = (
    _intended(
        "a distribution's file of pods' tokens moves the lines of a refused change and of a diff",
        r"",
        r"^@@ -\d+,(\d+) \+\d+,(\d+) @@",
        r"@@ \1 \2",
    ),
    _intended(
        "a distribution's file of pods' tokens",
        r"",
        r"^[+-]? *- configMap:\n[+-]? *items:\n.*key: service-ca.crt\n.*\n[+-]? *name: openshift-service-ca.crt\n",
    ),
    _intended(
        "a distribution's file of pods' tokens",
        r"",
        r"(?s),\s*\{\s*\"configMap\": \{\s*\"items\": \[\s*\{\s*\"key\": \"service-ca.crt\".{0,120}?openshift-service-ca.crt\"\s*\}\s*\}",
    ),
    _intended(
        "a distribution's file of pods' tokens",
        r"^describe",
        r"^ *ConfigMapName: +openshift-service-ca.crt\n *(ConfigMapOptional|Optional):.*\n",
    ),
    _intended(
        "our server warns that its scheduler and nodes are off",
        r"",
        r"^Warning: [\w-]+ does not run on this server .*\n",
    ),
    _intended(
        "a claim's default phase is stored with its creation, not with its first update",
        r"\bpersistentvolumeclaims\b",
        r" \(no change\)$",
    ),
    _intended(
        "a distribution's role of the real server (docs/data/fidelity/conversations.md)",
        r"^auth can-i --list",
        r"^ +\[/\.well-known.*\n",
    ),
    _intended(
        "descriptions of our OpenAPI documents are our own sentences",
        r"^explain",
        r"(?s)^DESCRIPTION:.*?(?=^FIELDS|\Z)",
    ),
)


def common_text(command: tuple[str, ...], text: str) -> list[str]:
    """Return the lines of an output in common form. Lines with generated names are sorted: their order is random."""
    line, text = " ".join(command), _LOG.sub("", text)
    for intended in INTENDED:
        if intended.command.search(line):
            text = intended.text.sub(intended.replacement, text)
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    text = _SPACES.sub("  ", _AGE.sub("<age>", text))
    lines = [line.rstrip() for line in text.splitlines()]
    return _sorted_parts(command, lines)


def _sorted_parts(command: tuple[str, ...], lines: list[str]) -> list[str]:
    """Sort what comes in no order: rows of tables with generated names, events, errors."""
    if command[0] == "describe":
        lines = [line for line in lines if not any(source in line for source in IGNORED_EVENTS)]
        found = next((number for number, line in enumerate(lines) if line.startswith("Events:")), len(lines))
        events = sorted(line for line in lines[found:] if not _HEAD_OF_EVENTS.match(line))
        return [*lines[:found], *events]
    if command[0] in ("events", "get", "auth", "label", "annotate") and "yaml" not in command and "json" not in command:
        return sorted(lines)
    if any("*" in line for line in lines) and not ("yaml" in command or "json" in command):
        return sorted(lines)
    return [_sorted_errors(line) for line in lines]


#: The heading of the events, which depends on whether there is one.
_HEAD_OF_EVENTS: Final = re.compile(r"Events:|  Type  Reason|  -+  -+")


def _sorted_errors(line: str) -> str:
    """Sort the errors of one line, which upstream takes from a map."""
    head, found, errors = line.partition(" is invalid: ")
    if not found:
        head, found, errors = line.partition("Error from server (BadRequest): ")
    return head + found + ", ".join(sorted(re.split(r", (?=[\w.\[\]]+: )", errors.strip("[]")))) if found else line


def common_output(command: tuple[str, ...], output: Output) -> dict[str, Any]:
    if "--show-managed-fields" in command and output.code == 0:
        # Managers are in the order of their times, which have no fractions of a second.
        shown: Any = common_object(json.loads(output.out))
    else:
        shown = common_text(command, output.out)
    return {"code": output.code, "out": shown, "err": common_text(command, output.err)}


# --- objects

#: A file of pods' tokens that a distribution's server adds (docs/data/fidelity/conversations.md), in objects and outputs.
_ADDED_SOURCE: Final = {
    "configMap": {"name": "openshift-service-ca.crt", "items": [{"key": "service-ca.crt", "path": "service-ca.crt"}]}
}
#: Fields of one run. The status of managers' entries and their number of writes depend on the pace of controllers.
_CHANCE: Final = frozenset(
    (
        "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "lastTransitionTime", "lastUpdateTime", "lastProbeTime", "startTime", "completionTime",
        "time", "clusterIP", "clusterIPs", "nodePort", "controller-uid", "batch.kubernetes.io/controller-uid", "endpoints.kubernetes.io/last-change-trigger-time",
        "renewTime", "acquireTime", "lastScheduleTime", "healthCheckNodePort", "lastHeartbeatTime", "firstTimestamp", "lastTimestamp", "eventTime", "count", "timeAdded",
        "kubectl.kubernetes.io/restartedAt", "kubectl.kubernetes.io/last-applied-configuration", "generation", "observedGeneration",
    )
)  # fmt: skip
_Key = Callable[[Any], str]


def common_object(obj: Json) -> Json:
    """Return an object in common form; managers of fields by name, the fields' owners included."""
    found: Json = _common(obj)
    metadata = found.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
        metadata["managedFields"].sort(key=_text)
    return found


def _common(value: Any) -> Any:
    if isinstance(value, dict):
        return {_replaced(key): _common(item) for key, item in value.items() if key not in _CHANCE}
    if isinstance(value, list):
        items = [_common(item) for item in value if item != _ADDED_SOURCE]
        if all(isinstance(item, dict) and {"type", "status"} <= item.keys() for item in items):
            items.sort(key=_text)
        return items
    return _replaced(value) if isinstance(value, str) else value


def _replaced(text: str) -> str:
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
