"""Compute the accepted names of a definition, and the conditions of its status.

Facts: apiextensions-apiserver, pkg/controller/{status,establish,apiapproval,finalizer}.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.objects import Json

__all__ = [
    "accepted",
    "approval",
    "condition",
    "established",
    "is_protected",
    "is_true",
    "set_condition",
]


APPROVED: Final = "api-approved.kubernetes.io"
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_MISSING: Final = f'protected groups must have approval annotation "{APPROVED}", {_SEE}'
_INVALID: Final = (
    f'protected groups must have approval annotation "{APPROVED}" with either a URL or a reason starting with'
    f' "unapproved", {_SEE}'
)


def condition(definition: Json, kind: str) -> Json | None:
    """Return the condition of a type; None if the definition does not have it."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item["type"] == kind), None)


def is_true(definition: Json, kind: str) -> bool:
    found = condition(definition, kind)
    return found is not None and found["status"] == "True"


def set_condition(definition: Json, kind: str, status: str, reason: str, message: str, now: str) -> None:
    """Add or change a condition. Its transition time changes with its status."""
    conditions = definition["status"].get("conditions")
    if not conditions:
        conditions = definition["status"]["conditions"] = []
    known = next((item for item in conditions if item["type"] == kind), None)
    if known is None:
        known = {"type": kind, "status": "", "lastTransitionTime": now}
        conditions.append(known)
    if known["status"] != status:
        known["lastTransitionTime"] = now
    known |= {"status": status, "reason": reason, "message": message}


def accepted(definition: Json, others: Iterable[Json]) -> tuple[Json, tuple[str, str, str]]:
    """Return the names accepted beside the others of the group, and the NamesAccepted condition.

    The condition is its status, reason and message. A name that conflicts keeps its accepted value.
    """
    wanted, have = definition["spec"]["names"], definition["status"].get("acceptedNames") or {}
    resources, kinds = _taken(others)
    names, problem = dict(have), None
    for field, taken, reason in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        conflict = _conflict(wanted.get(field), have.get(field), taken)
        if conflict:
            problem = ("False", reason, conflict)
        else:
            _keep(names, field, wanted.get(field))
    _keep(names, "categories", wanted.get("categories"))
    return names, problem or ("True", "NoConflicts", "no conflicts found")


def _keep(names: Json, field: str, value: Any) -> None:
    if value:
        names[field] = value
    else:
        names.pop(field, None)


def _taken(others: Iterable[Json]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _conflict(wanted: Any, have: Any, taken: set[str]) -> str:
    """Return why a name, or one of several, conflicts; "" if none does."""
    if isinstance(wanted, list) or isinstance(have, list):
        found = [name for name in wanted or () if name not in (have or ()) and name in taken]
        texts = list(dict.fromkeys(f"{go_quote(name)} is already in use" for name in found))
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
    return f"{go_quote(wanted)} is already in use" if wanted != have and wanted in taken else ""


def established(definition: Json, names_accepted: bool) -> tuple[str, str, str]:
    """Return status, reason and message of the Established condition that results from the names."""
    known = condition(definition, "Established")
    if known is not None and (known["status"] == "True" or not names_accepted):
        return known["status"], known.get("reason", ""), known.get("message", "")
    if names_accepted:
        return "False", "Installing", "the initial names have been accepted"
    return "False", "NotAccepted", "not all names are accepted"


def is_protected(group: str) -> bool:
    """Return whether a group is reserved for the community. Its definitions need an approval."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def approval(definition: Json) -> tuple[str, str, str]:
    """Return the KubernetesAPIApprovalPolicyConformant condition of a definition in a protected group."""
    text = (definition["metadata"].get("annotations") or {}).get(APPROVED, "")
    if not text:
        return (
            "False",
            "MissingAnnotation",
            _MISSING,
        )
    if text.startswith("unapproved"):
        return "False", "UnapprovedAnnotation", f"not approved: {go_quote(text)}"
    if _is_address(text):
        return "True", "ApprovedAnnotation", f"approved in {text}"
    return (
        "False",
        "InvalidAnnotation",
        _INVALID,
    )


def _is_address(text: str) -> bool:
    from urllib.parse import urlsplit

    parts = urlsplit(text)
    return bool(parts.scheme and parts.netloc)
