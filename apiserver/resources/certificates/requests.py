"""Define CertificateSigningRequests: created by any client, approved or denied, and signed by the signer."""

from __future__ import annotations

from typing import Any, Final

from apiserver.api.credentials.certificates import RequestError, certificates_problem, read_request
from apiserver.api.errors.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from apiserver.api.objects import Json
from apiserver.api.types.certificates import CertificateSigningRequest, CertificateSigningRequestCondition, KeyUsage
from apiserver.api.validation.internal_values import internal, shown_diff
from apiserver.api.validation.items import each_item, each_unique
from apiserver.api.values.durations import human_duration
from apiserver.api.values.times import timestamp
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, Version
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.certificates.signers import signer_name
from apiserver.resources.common.columns import AGE, NAME

__all__ = ["CERTIFICATE_SIGNING_REQUESTS"]

Errors = list[FieldError]

_SPEC: Final = Path("spec")
_CONDITIONS: Final = Path("status") / "conditions"
_CERTIFICATE: Final = Path("status") / "certificate"
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_SHORTEST: Final = 600
_STATUSES: Final = ("False", "True", "Unknown")
_DECISIONS: Final = ("Approved", "Denied")
_TRUE_ONLY: Final = (*_DECISIONS, "Failed")
_EXCLUSIVE: Final = "Approved and Denied conditions are mutually exclusive"


def _conditions(obj: Json) -> list[Json]:
    found: list[Json] = (obj.get("status") or {}).get("conditions") or []
    return found


def _of_type(obj: Json, kind: str) -> list[Json]:
    return [condition for condition in _conditions(obj) if condition.get("type", "") == kind]


def _usages(usages: list[str], before: list[str]) -> Errors:
    """Validate the usages. Unknown or repeated usages pass if the stored request has some."""
    path, errors = _SPEC / "usages", list[FieldError]()
    if not usages:
        errors.append(required(path))
    if set(before) <= set(KeyUsage.enum):
        errors += [
            not_supported(at, Named(usage), KeyUsage.enum)
            for at, usage in each_item(path, usages)
            if usage not in KeyUsage.enum
        ]
    if len(set(before)) == len(before):
        errors += [duplicate(at, Named(usage)) for at, usage, is_repeated in each_unique(path, usages) if is_repeated]
    return errors


def _decisions(obj: Json, old: Json | None) -> Errors:
    before = [] if old is None else [condition.get("type", "") for condition in _conditions(old)]
    errors: Errors = []
    seen: set[str] = set()
    for index, condition in enumerate(_conditions(obj)):
        path, kind, status = _CONDITIONS[index], condition.get("type", ""), condition.get("status", "")
        if not kind and "" not in before:
            errors.append(required(path / "type"))
        allowed = ("True",) if kind in _TRUE_ONLY else _STATUSES
        if not status:
            errors.append(required(path / "status"))
        elif status not in allowed:
            errors.append(not_supported(path / "status", Named(status), allowed))
        if kind in _DECISIONS and not set(_DECISIONS) <= set(before) and seen & (set(_DECISIONS) - {kind}):
            errors.append(invalid(_CONDITIONS, Named(kind), _EXCLUSIVE))
        if kind in seen and len(set(before)) == len(before):
            errors.append(duplicate(path / "type", Named(kind)))
        seen.add(kind)
    return errors


def _whole(obj: Json, old: Json | None) -> Errors:
    spec, before = obj["spec"], {} if old is None else old["spec"]
    errors: Errors = []
    try:
        read_request(spec.get("request") or "")
    except RequestError as error:
        errors.append(invalid(_SPEC / "request", spec.get("request"), str(error)))
    errors += _usages(spec.get("usages") or [], before.get("usages") or [])
    signer = spec.get("signerName", "")
    if signer == _LEGACY and before.get("signerName") != _LEGACY:
        text = "the legacy signerName is not allowed via this API version"
        errors.append(invalid(_SPEC / "signerName", signer, text))
    else:
        errors += signer_name(_SPEC / "signerName", signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid(_SPEC / "expirationSeconds", seconds, text))
    errors += _decisions(obj, old)
    certificate, stored = _certificate(obj), "" if old is None else _certificate(old)
    if (old is None or certificate != stored) and not (stored and certificates_problem(stored)):
        problem = certificates_problem(certificate)
        if problem:
            errors.append(invalid(_CERTIFICATE, "<certificate data>", problem))
    return errors


def _certificate(obj: Json) -> str:
    text: str = (obj.get("status") or {}).get("certificate", "")
    return text


def _changes(obj: Json, old: Json, subresource: str) -> Errors:
    """Protect the decisions, and the certificate once it is set.

    New decisions come through the subresource approval, the certificate through status.
    """
    errors = _whole(obj, old)
    for kind in _TRUE_ONLY:
        if len(_of_type(obj, kind)) < len(_of_type(old, kind)):
            errors.append(forbidden(_CONDITIONS, f'updates may not remove a condition of type "{kind}"'))
    for kind in () if subresource == "approval" else _DECISIONS:
        new, before = _of_type(obj, kind), _of_type(old, kind)
        if len(new) > len(before):
            errors.append(forbidden(_CONDITIONS, f'updates may not add a condition of type "{kind}"'))
        elif len(new) == len(before) and new != before:
            text = f'updates may not modify a condition of type "{kind}"\n{shown_diff(_shown(before), _shown(new))}'
            errors.append(forbidden(_CONDITIONS, text))
    certificate, before_it = _certificate(obj), _certificate(old)
    if certificate != before_it:
        if subresource != "status":
            errors.append(forbidden(_CERTIFICATE, "updates may not set certificate content"))
        elif before_it:
            errors.append(forbidden(_CERTIFICATE, "updates may not modify existing certificate content"))
    return errors


def _shown(conditions: list[Json]) -> Any:
    return [internal(CertificateSigningRequestCondition, condition) for condition in conditions]


def _fill_times(obj: Json, old: Json, now: str) -> None:
    for condition in _conditions(obj):
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
        if not condition.get("lastTransitionTime"):
            same = (
                known["lastTransitionTime"]
                for known in _conditions(old)
                if known.get("lastTransitionTime")
                and all(known.get(name) == condition.get(name) for name in ("type", "status"))
            )
            condition["lastTransitionTime"] = next(same, now)


def _keep_decisions(obj: Json, old: Json) -> None:
    """Copy the stored decisions into a status update, which need not repeat them."""
    for kind in _DECISIONS:
        known, found = _of_type(old, kind), _of_type(obj, kind)
        if len(known) == len(found):
            for condition, kept in zip(found, known, strict=True):
                condition.clear()
                condition.update(kept)


class SigningRequestStrategy(Strategy):
    name_rule = "path-segment"
    revalidates_metadata = False
    status_reset_fields = ("spec", "status.conditions")

    def prepare_for_create(self, ctx: Context, obj: Json) -> None:
        user, spec = ctx.user, obj["spec"]
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        spec["username"] = user.name
        if user.uid:
            spec["uid"] = user.uid
        if user.groups:
            spec["groups"] = list(user.groups)
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}
        obj["status"] = {}

    def prepare_for_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"], obj["status"] = old["spec"], old.get("status", {})

    def prepare_for_status_update(self, ctx: Context, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        _keep_decisions(obj, old)
        _fill_times(obj, old, timestamp(ctx.now))

    def prepare_for_subresource(self, ctx: Context, subresource: str, obj: Json, old: Json) -> None:
        _fill_times(obj, old, timestamp(ctx.now))
        conditions = _conditions(obj)
        obj["spec"] = old["spec"]
        obj["status"] = {**(old.get("status") or {}), "conditions": conditions}
        if not conditions:
            del obj["status"]["conditions"]

    def validate(self, ctx: Context, obj: Json) -> Errors:
        return _whole(obj, None)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> Errors:
        return _changes(obj, old, "")

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> Errors:
        return _changes(obj, old, "status")

    def validate_subresource(self, ctx: Context, subresource: str, obj: Json, old: Json) -> Errors:
        return _changes(obj, old, subresource)

    def reset_fields_of(self, subresource: str) -> tuple[str, ...]:
        if subresource == "approval":
            return "spec", "status.certificate"
        return super().reset_fields_of(subresource) if subresource else ("spec", "status")


def _state(obj: Json) -> str:
    kinds = {condition.get("type", "") for condition in _conditions(obj)}
    state = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    return state + (",Failed" if "Failed" in kinds else "") + (",Issued" if _certificate(obj) else "")


def _duration(obj: Json) -> str:
    seconds = obj["spec"].get("expirationSeconds")
    return "<none>" if seconds is None else human_duration(seconds)


CERTIFICATE_SIGNING_REQUESTS: Final = Resource(
    group="certificates.k8s.io", kind="CertificateSigningRequest", plural="certificatesigningrequests",
    singular="certificatesigningrequest", namespaced=False, short_names=("csr",),
    versions=(Version(name="v1", schema=CertificateSigningRequest),),
    strategy=SigningRequestStrategy(), storage_prefix="certificatesigningrequests",
    columns=(
        NAME,
        AGE,
        Column(name="SignerName", cell=lambda obj: obj["spec"].get("signerName") or "<none>",
            description="The requested signer."),
        Column(name="Requestor", cell=lambda obj: obj["spec"].get("username", ""), description="Requesting user."),
        Column(name="RequestedDuration", cell=_duration, description="Requested lifetime of the certificate."),
        Column(name="Condition", cell=_state, description="Conditions of the request."),
    ),
    subresources=(Subresource(name="approval", tables=False), Subresource(name="status")),
    field_labels={"spec.signerName": lambda obj: obj["spec"].get("signerName", "")},
    field_error_style="plain",
)  # fmt: skip
