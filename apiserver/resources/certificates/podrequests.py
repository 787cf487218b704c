"""Define PodCertificateRequests: created by the pod's node, resolved once by the signer through the status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.api.credentials.certificates import signer_names
from apiserver.api.errors.field_errors import (
    OMITTED,
    FieldError,
    Named,
    Path,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
)
from apiserver.api.objects import Json
from apiserver.api.schema.equality import semantic_equal
from apiserver.api.types.certificates import (
    PodCertificateRequest,
    PodCertificateRequestSpec,
    PodCertificateRequestStatus,
)
from apiserver.api.validation.items import each_item
from apiserver.api.values.names import domain_prefixed_key
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Subresource, prerelease
from apiserver.resources.certificates.podkeys import check_issued, check_key
from apiserver.resources.certificates.signers import signer_name
from apiserver.resources.common.columns import NAME
from apiserver.resources.common.conditions import validate_conditions
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.common.status import StatusStrategy
from apiserver.resources.common.workloads import immutable

__all__ = ["POD_CERTIFICATE_REQUESTS"]

Errors = list[FieldError]

_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
_ANNOTATION_LIMIT: Final = 256 * 1024
_SHORTEST: Final = 60 * 60
_LONGEST: Final = 91 * 24 * 60 * 60
#: The maximum for signers of kubernetes.io.
_LONGEST_OF_KUBERNETES: Final = 24 * 60 * 60
_ENDS: Final = ("Issued", "Denied", "Failed")
_ONE_END: Final = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'


def _end(obj: Json) -> str:
    """Return the condition that ended a request: issued, denied or failed; "" while it is pending."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    held = {condition.get("type", "") for condition in conditions if condition.get("status") == "True"}
    return next((end for end in _ENDS if end in held), "")


def _check_annotations(annotations: Json) -> Errors:
    path = _SPEC / "unverifiedUserAnnotations"
    errors = [error for key in annotations for error in domain_prefixed_key(path, key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATION_LIMIT:
        errors.append(too_long(path, _ANNOTATION_LIMIT))
    return errors


def _check_conditions(conditions: list[Json]) -> Errors:
    path, errors, ends = _STATUS / "conditions", list[FieldError](), 0
    # Upstream's path has a dot before the index.
    for at, condition in each_item(Path(f"{path}."), conditions):
        kind, status = condition.get("type", ""), condition.get("status", "")
        if kind not in _ENDS:
            errors.append(not_supported(at / "type", kind, _ENDS))
            continue
        ends += 1
        if ends > 1:
            errors.append(invalid(at / "type", kind, _ONE_END))
        if status != "True":
            errors.append(not_supported(at / "status", Named(status), ("True",)))
    return errors + validate_conditions(path, conditions)


class PodRequestStrategy(StatusStrategy):
    reset_fields = ()
    keeps_metadata = True
    asks_authorizer = True
    revalidates_metadata = False
    status_reset_fields = ("spec",)

    def validate(self, ctx: Context, obj: Json) -> Errors:
        spec = obj["spec"]
        signer, seconds = spec.get("signerName", ""), spec.get("maxExpirationSeconds")
        errors = signer_name(_SPEC / "signerName", signer)
        errors += _check_annotations(spec.get("unverifiedUserAnnotations") or {})
        errors += RULES.of(PodCertificateRequestSpec).errors(_SPEC, spec)
        path = _SPEC / "maxExpirationSeconds"
        if seconds is None:
            return [*errors, required(path, "must be set")]
        domain = signer.partition("/")[0]
        of_kubernetes = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
        most = _LONGEST_OF_KUBERNETES if of_kubernetes else _LONGEST
        if not _SHORTEST <= seconds <= most:
            errors.append(invalid(path, seconds, f"must be in the range [{_SHORTEST}, {most}]"))
        return errors + check_key(spec)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> Errors:
        return immutable(_SPEC, PodCertificateRequestSpec, obj["spec"], old["spec"])

    def validate_status_update(self, ctx: Context, obj: Json, old: Json) -> Errors:
        status, before = obj.get("status") or {}, old.get("status") or {}
        errors = _check_conditions(status.get("conditions") or []) or self._check_change(ctx, obj, status, before, old)
        if errors or semantic_equal(PodCertificateRequestStatus, status, before):
            return errors
        signer = old["spec"].get("signerName", "")
        names = signer_names(signer)
        if any(ctx.authorize("sign", "certificates.k8s.io", "signers", "", "", name) for name in names):
            return []
        text = f'User {go_quote(ctx.user.name)} is not permitted to "sign" for signer {go_quote(signer)}'
        return [forbidden(_SPEC / "signerName", text)]

    def _check_change(self, ctx: Context, obj: Json, status: Json, before: Json, old: Json) -> Errors:
        """Allow one change of the status, to one of three final states."""
        end = _end(obj)
        unchanged = semantic_equal(PodCertificateRequestStatus, status, before)
        if _end(old):
            text = "immutable after PodCertificateRequest is issued, denied, or failed"
            return [] if unchanged else [invalid(_STATUS, OMITTED, text)]
        if end in ("Denied", "Failed"):
            text = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
            rest = [name for name, value in status.items() if name != "conditions" and value]
            return [invalid(_STATUS, OMITTED, text)] if rest else []
        if end == "Issued":
            return check_issued(old["spec"], status, ctx.now)
        text = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
        return [] if unchanged else [invalid(_STATUS, OMITTED, text)]


def _state(obj: Json) -> str:
    kinds = [condition.get("type", "") for condition in (obj.get("status") or {}).get("conditions") or ()]
    return next((kind for kind in reversed(kinds) if kind in _ENDS), "Pending")


def _spec(name: str) -> Callable[[Json], str]:
    return lambda obj: str(obj["spec"].get(name, ""))


def _of_spec(name: str, field: str, description: str) -> Column:
    return Column(name=name, cell=_spec(field), description=description)


def _annotations(obj: Json) -> str:
    found = obj["spec"].get("unverifiedUserAnnotations") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(found.items())) or "<none>"


POD_CERTIFICATE_REQUESTS: Final = Resource(
    group="certificates.k8s.io", kind="PodCertificateRequest", plural="podcertificaterequests",
    singular="podcertificaterequest", namespaced=True, gate="PodCertificateRequest",
    versions=(
        prerelease("v1beta1", PodCertificateRequest, (1, 35)),
    ),
    strategy=PodRequestStrategy(), storage_prefix="podcertificaterequests",
    columns=(
        NAME,
        _of_spec("PodName", "podName", "The pod that gets the certificate."),
        _of_spec("ServiceAccountName", "serviceAccountName", "The service account that the pod runs as."),
        _of_spec("NodeName", "nodeName", "The node that the pod is on."),
        _of_spec("SignerName", "signerName", "Who is to sign."),
        Column(name="State", cell=_state, description="State of the request: Issued, Denied, Failed or Pending."),
        Column(name="UnverifiedUserAnnotations", cell=_annotations, description="Annotations for the signer."),
    ),
    subresources=(Subresource(name="status"),),
    field_labels={f"spec.{name}": _spec(name) for name in ("signerName", "podName", "nodeName")},
    field_error_style="plain", unconditional_update=False,
)  # fmt: skip
