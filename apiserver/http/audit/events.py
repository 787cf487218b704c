"""The audit event of one request, written at each stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from apiserver.api import protobuf
from apiserver.api.codec.bodies import DecodeError, loads
from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from apiserver.http.audit.policy import AuditOptions, Level
from apiserver.registry.body.decode import PROTOBUF, Kinds, media_type
from apiserver.request.audit_ids import audit_id
from apiserver.request.messages import Request, Response, User
from apiserver.runtime.clock import now

__all__ = ["Event", "Write"]


#: Prefix of annotations with the patches of webhooks.
_PATCHES: Final = "patch.webhook.admission.k8s.io/"
#: Receives an event in the form of JSON.
Write = Callable[[Json], None]

_LONGEST_AGENT: Final = 1024
#: Verbs with an object or options in the body.
_WITH_BODY: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
#: Headers with the user's own addresses.
_FORWARDED: Final = ("x-forwarded-for", "x-real-ip")


class Event:
    """The audit event of a request, as far as its fields are known."""

    def __init__(self, request: Request, options: AuditOptions, kinds: Kinds, write: Write) -> None:
        self._request, self._options, self._kinds, self._write = request, options, kinds, write
        self._known: Json = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": options.level.text,
            "auditID": audit_id(request),
            "stage": "",
            "requestURI": request.logged_uri,
            "verb": request.info.verb,
            "user": _user(request.impersonator or request.user),
        }
        addresses = _addresses(request.headers)
        if addresses:
            self._known["sourceIPs"] = addresses
        agent = request.headers.get("user-agent", "")
        if agent:
            self._known["userAgent"] = (
                agent if len(agent) <= _LONGEST_AGENT else f"{agent[:_LONGEST_AGENT]}...TRUNCATED"
            )
        if request.info.resource:
            self._known["objectRef"] = _reference(request)
        self._received = now()

    @property
    def id(self) -> str:
        """The audit ID of the event."""
        made: str = self._known["auditID"]
        return made

    def emit(self, stage: str) -> None:
        """Write the event of a stage, unless the policy omits it."""
        if stage in self._options.omitted:
            return
        annotations = self._request.annotations
        if self._options.level < Level.REQUEST:  # patches of webhooks are part of the request's content
            annotations = {name: value for name, value in annotations.items() if not name.startswith(_PATCHES)}
        self._write(
            self._known
            | {"stage": stage, "requestReceivedTimestamp": _micro(self._received), "stageTimestamp": _micro(now())}
            | ({"annotations": dict(sorted(annotations.items()))} if annotations else {})
        )

    def record_request(self) -> None:
        """Record the request's body and the impersonated user."""
        request, known = self._request, self._known
        if request.impersonator is not None:
            known["impersonatedUser"] = _user(request.user)
            if request.constraint:
                known["authenticationMetadata"] = {"impersonationConstraint": request.constraint}
        if request.info.verb not in _WITH_BODY or not request.body or "objectRef" not in known:
            return
        sent = self._parse(request.body, request.headers.get("content-type", ""))
        if request.info.verb in ("create", "update") and isinstance(sent, dict):
            given = sent.get("metadata")
            metadata = given if isinstance(given, dict) else {}
            for field in ("namespace", "name", "uid", "resourceVersion"):
                if metadata.get(field):
                    known["objectRef"].setdefault(field, metadata[field])
        if self._options.level >= Level.REQUEST and sent is not None:
            known["requestObject"] = self._strip_managed_fields(sent)

    def record_response(self, answer: Response, error: Exception | None) -> None:
        """Record the response."""
        known = self._known
        if isinstance(error, StatusError):
            known["responseStatus"] = {key: part for key, part in error.to_dict().items() if key not in _TYPE}
        else:
            self.record_status(answer.status)
        if self._options.level >= Level.REQUEST_RESPONSE and self._request.info.resource:
            made = self._parse(answer.body, answer.content_type)
            if made is not None:
                known["responseObject"] = self._strip_managed_fields(made)

    def record_status(self, code: int, message: str = "") -> None:
        """Record only a response's status code and message."""
        self._known["responseStatus"] = {"metadata": {}, **({"message": message} if message else {}), "code": code}

    def _parse(self, body: bytes, content_type: str) -> Any:
        """Parse a body; return None if it cannot be decoded, or is no object."""
        media = media_type(content_type)
        try:
            if media == PROTOBUF:
                envelope = protobuf.unwrap(body)
                schema = self._kinds.schema(envelope.api_version, envelope.kind)
                if schema is None:
                    return None
                made = protobuf.decode(schema, envelope.raw)
                return {"kind": envelope.kind, "apiVersion": envelope.api_version, **made}
            return loads(body, media).value
        except DecodeError:
            return None

    def _strip_managed_fields(self, obj: Any) -> Any:
        if not self._options.without_managed_fields or not isinstance(obj, dict):
            return obj
        found = _without_managed_fields(obj)
        if isinstance(obj.get("items"), list):
            found["items"] = [_without_managed_fields(item) for item in obj["items"]]
        return found


_TYPE: Final = ("kind", "apiVersion")


def _without_managed_fields(obj: Any) -> Any:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return dict(obj) if isinstance(obj, dict) else obj
    return {**obj, "metadata": {key: part for key, part in metadata.items() if key != "managedFields"}}


def _reference(request: Request) -> Json:
    info = request.info
    found = {
        "resource": info.resource,
        "namespace": info.namespace,
        "name": info.name,
        "apiGroup": info.group,
        "apiVersion": info.version,
        "subresource": info.subresource,
    }
    return {key: part for key, part in found.items() if part}


def _user(user: User | None) -> Json:
    if user is None:
        return {}
    found: Json = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    found["extra"] = {key: list(values) for key, values in user.extra.items()}
    return {key: part for key, part in found.items() if part}


def _addresses(headers: Mapping[str, str]) -> list[str]:
    """Return the source addresses of a request from the headers of proxies: the client first."""
    found = [text.strip() for name in _FORWARDED for text in headers.get(name, "").split(",")]
    return list(dict.fromkeys(text for text in found if text))


def _micro(at: datetime) -> str:
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")
