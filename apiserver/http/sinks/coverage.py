"""`--coverage`: which behaviours of this server its clients have reached, for `/-/coverage`.

A behaviour has a category and a name; its hits are counted, and known ones without hits are 0. Nothing here is created
without the flag.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.status import StatusError
from apiserver.api.features.gates import GATES, RELEASES, Features
from apiserver.http.sinks.behaviours import EVENTS, SCHEDULING
from apiserver.registry.store.admission import Plugin
from apiserver.request.records import STARTED, RequestRecord

if TYPE_CHECKING:
    from apiserver.registry.definition.resource import Resource, Version
    from apiserver.request.info import RequestInfo
    from apiserver.request.messages import Request

__all__ = ["CATEGORIES", "Coverage"]

#: The categories, in the order of reports.
CATEGORIES: Final = (
    "scheduling", "rejections", "admission", "events", "faults", "drivers", "gates", "kinds", "requests", "causes",
)  # fmt: skip
#: The lowest status code of an error.
_FAILURE: Final = 400
#: Reasons of a Status, and the causes of Invalid: first those that clients have to handle.
_REASONS: Final = (
    "Conflict", "AlreadyExists", "NotFound", "Invalid", "Forbidden", "TooManyRequests", "Timeout", "ServiceUnavailable",
    "InternalError", "Expired", "Unauthorized", "BadRequest", "MethodNotAllowed", "UnsupportedMediaType",
)  # fmt: skip
_CAUSES: Final = (
    "FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden", "FieldValueNotSupported", "FieldValueDuplicate",
    "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid", "FieldValueNotFound",
)  # fmt: skip
#: Admission plugins that can refuse a write, those of many clusters first.
REFUSING: Final = (
    "ResourceQuota", "LimitRanger", "PodSecurity", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
    "NamespaceLifecycle", "ServiceAccount", "Priority", "NodeRestriction", "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook", "RuntimeClass", "PersistentVolumeClaimResize", "PodResizeValidator",
    "NodeDeclaredFeatureValidator", "JobValidation", "PodGroupWorkloadExists", "CertificateApproval",
    "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest", "EventRateLimit",
)  # fmt: skip
_FAULTS: Final = (
    *(f"status {code}" for code in (409, 410, 429, 500, 503)), "close before", "close after", "watch end",
    "watch close", "watch expired", "latency",
)  # fmt: skip
_DRIVER_CALLS: Final = tuple(
    f"{method} {outcome}"
    for method, outcomes in (
        ("GetInfo", ("OK", "failed")),
        ("NotifyRegistrationStatus", ("OK",)),
        ("NodePrepareResources", ("OK", "failed", "claim failed")),
        ("NodeUnprepareResources", ("OK", "failed", "claim failed")),
        ("NodeWatchResources", ("OK", "failed")),
    )
    for outcome in outcomes
)
_NAMES: Final = re.compile(r"\[[^\]]*\]|\{[^}]*\}")
_INDEX: Final = re.compile(r"\[[^\]]*\]")


class Coverage:
    """The recorder. `fault_kind` returns the kind of an injected fault by its id, "" if it is gone."""

    def __init__(
        self,
        features: Features,
        plugins: Iterable[str],
        served: Callable[[], Iterable[tuple[Resource, Version]]],
        fault_kind: Callable[[str], str],
    ) -> None:
        self._served, self._fault_kind = served, fault_kind
        self._hits: dict[str, Counter[str]] = {category: Counter() for category in CATEGORIES}
        self._used: set[tuple[str, str]] = set()
        enabled = frozenset(plugins)
        self._know("rejections", (*_REASONS, *(f"Invalid: {cause}" for cause in _CAUSES)))
        self._know("admission", (name for name in REFUSING if name in enabled))
        self._know("scheduling", SCHEDULING)
        self._know("events", EVENTS)
        self._know("faults", _FAULTS)
        self._know("drivers", _DRIVER_CALLS)
        self._add_gates(features)

    def _know(self, category: str, names: Iterable[str]) -> None:
        self._hits[category].update(dict.fromkeys(names, 0))

    def _add_gates(self, features: Features) -> None:
        """Record the gates with another value than their default, and the release."""
        hits = self._hits["gates"]
        self._know("gates", (f"release {major}.{minor}" for major, minor in reversed(RELEASES)))
        for name, (_, on) in sorted(features.stages().items(), key=lambda item: not item[0].startswith("DRA")):
            stage = GATES[name].at(features.release)
            if stage is not None and not stage.locked:
                hits[f"{name}={str(not stage.on).lower()}"] += on is not stage.on
        major, minor = features.release
        hits[f"release {major}.{minor}"] += 1

    # What the server reports

    def see_fault(self, record: RequestRecord) -> None:
        """Count the fault of a request; a sink of records."""
        if record.fault and record.stage != STARTED and (kind := self._fault_kind(record.fault)):
            self._hits["faults"][kind] += 1

    def see_answer(self, info: RequestInfo, status: int) -> None:
        """Count an answered request of a client outside of this process."""
        if info.resource and status < _FAILURE:
            group = f"{info.group}/{info.version}" if info.group else info.version
            resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
            self._used.add((info.group, info.resource))
            self._hits["requests"][f"{group} {resource} {info.verb}"] += 1

    def refuse(self, request: Request, error: StatusError) -> None:
        """Count an error response, its causes, and the admission plugin that raised it."""
        reason = error.reason or str(error.code)
        self._hits["rejections"][reason] += 1
        if plugin := _find_plugin(error.__traceback__):
            self._hits["admission"][plugin] += 1
        details = error.details or {}
        for cause in details.get("causes") or () if reason == "Invalid" else ():
            kind = str(cause.get("reason", ""))
            self._hits["rejections"][f"Invalid: {kind}"] += 1
            field = _INDEX.sub("[*]", str(cause.get("field", "")))
            self._hits["causes"][f"{request.info.resource} {field}: {kind}"] += 1

    def see_event(self, body: bytes) -> None:
        """Count an event that a client creates. Others than JSON are left out."""
        try:
            event = json.loads(body)
        except ValueError:
            return
        reason, text = str(event.get("reason", "")), str(event.get("message") or event.get("note") or "")
        self._hits["events"][reason] += 1
        if reason in ("Scheduled", "Preempted"):
            self._hits["scheduling"][reason.lower()] += 1
        elif reason == "FailedScheduling":
            self._hits["scheduling"]["unschedulable"] += 1
            for found in split_reasons(text):
                self._hits["scheduling"][found] += 1

    def see_driver_call(self, call: Mapping[str, Any]) -> None:
        """Count a completed call of a kubelet to a driver."""
        if call["code"]:
            outcome = "OK" if call["code"] == "OK" else "failed"
            answers = call["answer"].get("claims") if isinstance(call["answer"], dict) else None
            if outcome == "OK" and any(each.get("error") for each in (answers or {}).values()):
                outcome = "claim failed"
            self._hits["drivers"][f"{call['method']} {outcome}"] += 1

    def to_dict(self) -> dict[str, dict[str, int]]:
        """Return the hits by category and name. Known requests are those of the kinds that clients have used."""
        hits = {category: dict(counter) for category, counter in self._hits.items()}
        for resource, version in self._served():
            name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            used = (resource.group, resource.plural) in self._used
            hits["kinds"][name] = int(used)
            if used:
                group = f"{resource.group}/{version.name}" if resource.group else version.name
                verbs = [(resource.plural, verb) for verb in resource.verbs]
                verbs += [
                    (f"{resource.plural}/{sub.name}", verb) for sub in resource.subresources for verb in sub.verbs
                ]
                for path, verb in verbs:
                    hits["requests"].setdefault(f"{group} {path} {verb}", 0)
        return hits


def split_reasons(message: str) -> list[str]:
    """Return the reasons of a FailedScheduling message, without numbers and names."""
    listed = message.partition("available: ")[2].partition(". ")[0].removesuffix(".")
    found = (_NAMES.sub("", part.lstrip("0123456789 ")).strip() for part in listed.split(", "))
    return [reason for reason in found if reason]


def _find_plugin(trace: TracebackType | None) -> str:
    """Return the admission plugin that an error passed, the innermost; "" if none."""
    found = ""
    while trace is not None:
        plugin = trace.tb_frame.f_locals.get("self")
        if isinstance(plugin, Plugin):
            found = plugin.name
        trace = trace.tb_next
    return found
