"""Audit logs (audit.k8s.io/v1) of level Request or higher: users' writes, and what became of pods.

kubedra writes such a log, too (`--audit-log-path`), and a replay reads its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from kubedra.recording.actions import Action, Actions, annotate_end
from kubedra.recording.changes import parse_time
from kubedra.recording.outcomes import End, Outcome, Outcomes, ending, family
from kubedra.recording.writers import is_generated, is_own_request
from kubedra.runtime.failures import describe_failure
from kubedra.runtime.objects import Json

__all__ = ["AuditLog", "AuditLogError", "is_audit_log", "read_audit_log"]

_METHODS: Final = {
    "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE",
}  # fmt: skip
#: Resources of reviews and tokens, which store nothing.
_UNSTORED: Final = frozenset({"tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectreviews",
                              "selfsubjectrulesreviews", "localsubjectaccessreviews", "events", "leases"})  # fmt: skip


class AuditLogError(ValueError):
    """A file that is no usable audit log, in one line."""


@dataclass(slots=True)
class AuditLog:
    """The successful writes of an audit log, in order of time."""

    events: list[Json] = field(default_factory=list)
    #: Writes without a body: the log's level is Metadata.
    without_body: int = 0

    @property
    def begin(self) -> datetime:
        return parse_time(self.events[0]["requestReceivedTimestamp"])

    @property
    def end(self) -> datetime:
        return parse_time(self.events[-1]["requestReceivedTimestamp"])

    def ends(self, speed: float = 1.0) -> dict[tuple[str, str], End]:
        """Return how pods ended, by namespace and name."""
        found: dict[tuple[str, str], End] = {}
        for event, body in self._pod_events("status"):
            if (end := ending(body.get("status") or {})) is not None:
                found[event["objectRef"].get("namespace", ""), event["objectRef"].get("name", "")] = End(
                    end.seconds / speed, end.code
                )
        return found

    def _pod_events(self, subresource: str) -> Iterator[tuple[Json, Json]]:
        for event in self.events:
            reference = event["objectRef"]
            if reference.get("resource") == "pods" and reference.get("subresource", "") == subresource:
                yield event, event.get("requestObject") or {}

    def actions(self, speed: float = 1.0) -> Actions:
        """Return the users' writes as the requests that they were."""
        actions, ends = Actions(), self.ends(speed)
        for event in self.events:
            body = event.get("requestObject")
            reference = event["objectRef"]
            own = is_own_request(event["user"]["username"], event.get("userAgent", ""))
            hardware = reference["resource"] in {"nodes", "resourceslices", "csinodes"} and event["verb"] == "create"
            if (own and not hardware) or reference["resource"] in _UNSTORED or _is_generated(body):
                actions.control_plane += 1
                continue
            actions.users.append(_action(event, body, ends))
        return actions

    def outcomes(self, known: Iterable[tuple[str, str]] = (), begin: datetime | None = None) -> Outcomes:
        """Return what became of pods. `known` pods existed at `begin`."""
        outcomes: Outcomes = {key: Outcome(*key, "", begin) for key in known if begin is not None}
        unnamed: dict[tuple[str, str], list[Outcome]] = {}
        for event in self.events:
            reference = event["objectRef"]
            if reference.get("resource") != "pods":
                continue
            time, body = parse_time(event["requestReceivedTimestamp"]), event.get("requestObject") or {}
            answer = event.get("responseObject") or {}
            namespace = reference.get("namespace", "")
            name = reference.get("name") or (answer.get("metadata") or {}).get("name", "")
            part = reference.get("subresource", "")
            if event["verb"] == "create" and not part and body.get("metadata"):
                outcome = Outcome(namespace, name, family(body), time)
                outcome.node = (body.get("spec") or {}).get("nodeName", "")
                outcome.bound = time if outcome.node else None
                if name:
                    outcomes[namespace, name] = outcome
                else:
                    unnamed.setdefault((namespace, body["metadata"].get("generateName", "")), []).append(outcome)
                continue
            if (namespace, name) not in outcomes:
                _name(unnamed, outcomes, namespace, name)
            known_outcome = outcomes.get((namespace, name))
            if known_outcome is None:
                continue
            if event["verb"] == "create" and part == "binding":
                known_outcome.bound, known_outcome.node = time, body["target"]["name"]
            elif event["verb"] == "delete" and not part:
                known_outcome.deleted = time
        return outcomes


def _name(unnamed: dict[tuple[str, str], list[Outcome]], outcomes: Outcomes, namespace: str, name: str) -> None:
    """Give a generated name to the oldest pod with its prefix. Logs of level Request lack generated names."""
    waiting = unnamed.get((namespace, name[:-5]))
    if waiting:
        outcome = waiting.pop(0)
        outcome.name = name
        outcomes[namespace, name] = outcome


def _is_generated(body: Any) -> bool:
    return isinstance(body, dict) and bool(body.get("kind")) and "metadata" in body and is_generated(body)


def _action(event: Json, body: Any, ends: dict[tuple[str, str], End]) -> Action:
    reference = event["objectRef"]
    group, version = reference.get("apiGroup", ""), reference.get("apiVersion", "v1")
    key = reference.get("namespace", ""), reference.get("name", "")
    kind = body.get("kind", "") if isinstance(body, dict) else ""
    if kind == "Node" and event["verb"] == "create":
        metadata = body["metadata"]
        metadata["annotations"] = {"kubedra.dev/emulated": "true", **(metadata.get("annotations") or {})}
    if event["verb"] in {"create", "patch", "update"} and not reference.get("subresource") and kind in {"Pod", "Job"}:
        job = next((end for (ns, name), end in ends.items() if ns == key[0] and name[:-6] == key[1]), None)
        annotate_end(body, ends.get(key) if kind == "Pod" else job)
    return Action(
        parse_time(event["requestReceivedTimestamp"]), "request", kind or reference["resource"],
        f"{group}/{version}" if group else version, *key, body if isinstance(body, dict) else {"": body},
        _METHODS[event["verb"]], _without_checks(event["requestURI"]), _content_type(event, body),
    )  # fmt: skip


def _content_type(event: Json, body: Any) -> str:
    """Return the media type of a request. Audit logs lack it; the form of the body tells the patches apart."""
    if event["verb"] != "patch":
        return "application/json"
    if isinstance(body, list):
        return "application/json-patch+json"
    if "fieldManager=" in event["requestURI"] and isinstance(body, dict) and body.get("kind"):
        return "application/apply-patch+yaml"
    custom = "." in event["objectRef"].get("apiGroup", "") and not event["objectRef"]["apiGroup"].endswith(".k8s.io")
    return "application/merge-patch+json" if custom else "application/strategic-merge-patch+json"


def _without_checks(uri: str) -> str:
    """Return a request's URI. The field validation of other releases does not apply."""
    path, _, query = uri.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith(("fieldValidation=", "timeout="))]
    return f"{path}?{'&'.join(kept)}" if kept else path


def is_audit_log(place: str | os.PathLike[str]) -> bool:
    """Return whether a file begins with a JSON object. Raise AuditLogError if it cannot be read."""
    try:
        with Path(place).open("rb") as file:
            return file.read(1) == b"{"
    except OSError as error:
        raise AuditLogError(f"{place}: {describe_failure(error)}") from error


def read_audit_log(place: str | os.PathLike[str]) -> AuditLog:
    """Read the successful writes. Raise AuditLogError."""
    log = AuditLog()
    with Path(place).open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                event = json.loads(line)
                stage, verb, time = event["stage"], event["verb"], event["requestReceivedTimestamp"]
                done = stage == "ResponseComplete" and (event.get("responseStatus") or {}).get("code", 500) < 300
            except (ValueError, KeyError, TypeError):
                if not line.endswith(b"\n"):
                    break  # the log is still being written
                raise AuditLogError(f"{place}: line {number} is no event of audit.k8s.io/v1") from None
            if not done or verb not in _METHODS or "resource" not in (event.get("objectRef") or {}) or not time:
                continue
            if event.get("level") == "Metadata" and verb != "delete":
                log.without_body += 1
                continue
            log.events.append(event)
    if not log.events:
        reason = "its level is Metadata; a replay needs Request" if log.without_body else "it has no successful write"
        raise AuditLogError(f"{place}: {reason}")
    log.events.sort(key=lambda event: str(event["requestReceivedTimestamp"]))
    return log
