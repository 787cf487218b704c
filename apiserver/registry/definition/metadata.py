"""Metadata of every kind: the server's fields, and the validation of the client's.

Validation has three layers. The client sees the errors of each layer as separate causes:

    generic     ValidateObjectMeta with the path-segment rule, on every update (on create only after the kind's own)
    kind        the same with the kind's name rule and the finalizer names that core kinds check
    update      what may not change

Texts, limits and order are wire facts of k8s.io/apimachinery (pkg/api/validation) and pkg/apis/core/validation.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, go_quote, invalid, required, too_long
from apiserver.api.errors.status import bad_request
from apiserver.api.objects import Json
from apiserver.api.types.meta import ObjectMeta
from apiserver.api.validation.changes import changes
from apiserver.api.values.bounded_cache import remembered
from apiserver.api.values.names import dns_label, label_key, label_value, object_name, path_segment
from apiserver.api.values.times import timestamp

__all__ = [
    "FOREGROUND",
    "ORPHAN",
    "UNCHECKED",
    "check_identity",
    "check_name",
    "deduplicate_owners",
    "ensure_namespace",
    "fill_system_fields",
    "generate_name",
    "is_terminating",
    "keep_metadata_for_status",
    "manager_name",
    "validate_manager",
    "validate_metadata",
    "validate_metadata_update",
    "wipe_system_fields",
]


ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"

#: Fields that updates do not validate: the version, and the managed fields, which decoding has validated.
UNCHECKED: Final[Json] = {"resourceVersion": None, "managedFields": None}

_METADATA: Final = Path("metadata")
_SYSTEM_FIELDS: Final = frozenset({
    "creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
})  # fmt: skip
_ANNOTATION_LIMIT: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", ORPHAN, FOREGROUND})
_MANAGER_LIMIT: Final = 128
_UNKNOWN_MANAGER: Final = "unknown"
_SUBRESOURCE_LIMIT: Final = 256
_GENERATED_PREFIX: Final = 58


#: Fields that a write to /status may not change (upstream's ResetObjectMetaForStatus). The server sets the rest of
#: metadata anyway.
_KEPT_BY_STATUS: Final = (
    "deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers", "ownerReferences",
)  # fmt: skip


def generate_name(base: str, suffix: str) -> str:
    """Return the name for a generateName: its first 58 bytes and the suffix."""
    cut = base[:_GENERATED_PREFIX] if base.isascii() else base.encode()[:_GENERATED_PREFIX].decode(errors="ignore")
    return cut + suffix


def wipe_system_fields(metadata: Json) -> None:
    """Drop the fields that a client may send but only the server sets."""
    for name in _SYSTEM_FIELDS.intersection(metadata):
        del metadata[name]


def fill_system_fields(metadata: Json, uid: str, now: datetime) -> None:
    metadata["creationTimestamp"] = timestamp(now)
    metadata["uid"] = uid


def ensure_namespace(metadata: Json, namespace: str) -> None:
    """Set the request's namespace. "" (a cluster-scoped kind) removes the object's."""
    given = metadata.get("namespace", "")
    if given == namespace:
        return
    if not given:
        metadata["namespace"] = namespace
    elif not namespace:
        del metadata["namespace"]
    else:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def check_name(name: str) -> None:
    """Raise 400 for a name in a path that objects cannot have."""
    # Of all requests: a name without these needs no list of problems.
    if "/" in name or "%" in name or name in (".", ".."):
        raise bad_request(f"Name parameter invalid: {go_quote(name)}: {';'.join(path_segment(name))}")


def check_identity(metadata: Json, namespace: str, name: str) -> None:
    """Set the namespace. Raise 400 if the path names another object."""
    if metadata.get("namespace", "") != namespace:
        ensure_namespace(metadata, namespace)
    given = metadata.get("name", "")
    if not given:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if given != name:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def is_terminating(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


_DUPLICATE_OWNERS: Final = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"  # noqa: E501
_DUPLICATE_AFTER_ADMISSION: Final = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"  # noqa: E501


def deduplicate_owners(metadata: Json, warnings: list[str], after_admission: bool = False) -> None:
    """Drop owner references that repeat another in every field, and add a warning."""
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    kept: dict[frozenset[tuple[str, Any]], Json] = {}
    repeated: list[str] = []
    for owner in owners:
        key = frozenset(owner.items())
        if key in kept:
            repeated.append(owner.get("uid", ""))
        kept.setdefault(key, owner)
    if repeated:
        text = _DUPLICATE_AFTER_ADMISSION if after_admission else _DUPLICATE_OWNERS
        warnings.append(text.format(", ".join(repeated)))
        metadata["ownerReferences"] = list(kept.values())


# Validation


def validate_metadata(
    metadata: Json, namespaced: bool, name_rule: str, *, kind_rules: bool, path: Path = _METADATA
) -> list[FieldError]:
    """Validate metadata (ValidateObjectMeta). `kind_rules` adds the core kinds' check of finalizer names."""
    errors: list[FieldError] = []
    if base := metadata.get("generateName"):
        errors += [invalid(path / "generateName", base, text) for text in object_name(name_rule, base, prefix=True)]
    name = metadata.get("name", "")
    if not name:
        errors.append(required(path / "name", "name or generateName is required"))
    else:
        wrong = object_name(name_rule, name)
        if wrong:
            errors += [invalid(path / "name", name, text) for text in wrong]
    namespace = metadata.get("namespace", "")
    if namespaced:
        if not namespace:
            errors.append(required(path / "namespace"))
        elif not _is_namespace(namespace):
            errors += [invalid(path / "namespace", namespace, text) for text in dns_label(namespace)]
    elif namespace:
        errors.append(forbidden(path / "namespace", "not allowed on this type"))
    if metadata.get("generation", 0) < 0:
        errors.append(invalid(path / "generation", metadata["generation"], "must be greater than or equal to 0"))
    errors += _labels(metadata, path)
    finalizers = metadata.get("finalizers")
    if finalizers:
        errors += _finalizers(finalizers, path / "finalizers", kind_rules)
    managed = metadata.get("managedFields")
    if managed:
        errors += _managed_fields(managed, path / "managedFields")
    return errors


@remembered(4096)
def _is_key(key: str) -> bool:
    return not label_key(key)


@remembered(4096)
def _is_value(value: str) -> bool:
    return not label_value(value)


@remembered(4096)
def _is_namespace(name: str) -> bool:
    return not dns_label(name)


def _labels(metadata: Json, path: Path) -> list[FieldError]:
    """Validate labels, annotations and owner references, on create and again as part of an update."""
    errors: list[FieldError] = []
    labels = metadata.get("labels")
    if labels:
        for key, value in labels.items():
            if not (_is_key(key) and _is_value(value)):
                errors += [invalid(path / "labels", key, text) for text in label_key(key)]
                errors += [invalid(path / "labels", value, text) for text in label_value(value)]
    annotations = metadata.get("annotations")
    if annotations:
        size = 0
        for key, value in annotations.items():
            if not _is_key(key.lower()):
                errors += [invalid(path / "annotations", key, text) for text in label_key(key.lower())]
            size += len(key) + (len(value) if value.isascii() else len(value.encode()))
        if size > _ANNOTATION_LIMIT:
            errors.append(too_long(path / "annotations", _ANNOTATION_LIMIT))
    owners = metadata.get("ownerReferences")
    if owners:
        errors += _owners(owners, path / "ownerReferences")
    return errors


def _owners(owners: list[Json], path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = ""
    for owner in owners:
        group_version, kind, name = owner.get("apiVersion", ""), owner.get("kind", ""), owner.get("name", "")
        version = group_version.partition("/")[2] if "/" in group_version else group_version
        if not version or group_version.count("/") > 1:
            errors.append(invalid(path / "apiVersion", group_version, "version must not be empty"))
        errors += [
            invalid(path / field, owner.get(field, ""), "must not be empty")
            for field in ("kind", "name", "uid")
            if not owner.get(field)
        ]
        if (group_version, kind) == ("v1", "Event"):
            errors.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            shown = f"{kind}/{name}"
            if controller:
                detail = (
                    f'Only one reference can have Controller set to true. Found "true" in references for {controller}'
                    f" and {shown}"
                )
                errors.append(invalid(path, owners, detail))
            else:
                controller = shown
    return errors


def _finalizers(finalizers: list[str], path: Path, kind_rules: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for finalizer in finalizers:
        errors += [invalid(path, finalizer, text) for text in label_key(finalizer)]
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        errors.append(invalid(path, finalizers, f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"))
    return errors + _finalizer_names(finalizers, path) if kind_rules else errors


def _finalizer_names(finalizers: list[str], path: Path) -> list[FieldError]:
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(path[index], finalizer, detail)
        for index, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def _managed_fields(entries: list[Json], path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        if "subresource" not in entry and _is_ordinary(entry):
            continue
        at = path[index]
        if entry.get("operation") not in ("Apply", "Update"):
            errors.append(invalid(at / "operation", entry.get("operation", ""), "must be `Apply` or `Update`"))
        if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
            errors.append(invalid(at / "fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
        errors += validate_manager(entry.get("manager", ""), at / "manager")
        if len(entry.get("subresource", "")) > _SUBRESOURCE_LIMIT:
            errors.append(too_long(at / "subresource", _SUBRESOURCE_LIMIT))
    return errors


def _is_ordinary(entry: Json) -> bool:
    known = entry.get("operation") in ("Apply", "Update") and entry.get("fieldsType", "FieldsV1") == "FieldsV1"
    return known and _is_manager(entry.get("manager", ""))


def _is_manager(manager: str) -> bool:
    return len(manager) <= _MANAGER_LIMIT and manager.isascii() and manager.isprintable()


def manager_name(given: str, user_agent: str) -> str:
    """Return the manager of a write: the fieldManager parameter or the user agent.

    Of the user agent only the printable characters up to the first slash count, at most 128 bytes.
    """
    if given:
        return given
    head = user_agent.partition("/")[0]
    if len(head) <= _MANAGER_LIMIT and head.isascii() and head.isprintable():
        return head or _UNKNOWN_MANAGER
    kept, size = [], 0
    for char in head:
        if char.isprintable():
            size += len(char.encode())
            if size > _MANAGER_LIMIT:
                break
            kept.append(char)
    return "".join(kept) or _UNKNOWN_MANAGER


def keep_metadata_for_status(obj: Json, old: Json) -> None:
    """Restore the stored metadata in place, except the fields that a write to /status may change."""
    metadata, before = obj["metadata"], old["metadata"]
    for field in _KEPT_BY_STATUS:
        if field in before:
            metadata[field] = before[field]
        elif field in metadata:
            del metadata[field]


def validate_manager(manager: str, path: Path) -> list[FieldError]:
    """Validate the name of a field manager: at most 128 bytes, printable."""
    if _is_manager(manager):
        return []
    errors = [too_long(path, _MANAGER_LIMIT)] if len(manager.encode()) > _MANAGER_LIMIT else []
    at = 0
    for char in manager:
        if not char.isprintable():
            errors.append(invalid(path, manager, f"invalid character U+{ord(char):04X} (at position {at})"))
        at += len(char.encode())
    return errors


_CHANGES: Final = changes(ObjectMeta)


def validate_metadata_update(new: Json, old: Json, *, kind_rules: bool, path: Path = _METADATA) -> list[FieldError]:
    """Validate an update of metadata (ValidateObjectMetaUpdate).

    The store checks the resource version, which is set by then.
    """
    errors: list[FieldError] = []
    finalizers = new.get("finalizers")
    if finalizers and "deletionTimestamp" in old:
        extra = sorted(set(finalizers) - set(old.get("finalizers") or ()))
        if extra:
            shown = "[]string{" + ", ".join(map(go_quote, extra)) + "}"
            detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
            errors.append(forbidden(path / "finalizers", detail))
    if new.get("generation", 0) < old.get("generation", 0):
        errors.append(invalid(path / "generation", new.get("generation", 0), "must not be decremented"))
    errors += _CHANGES.errors(path, new, old)
    errors += _labels(new, path)
    managed = new.get("managedFields")
    if managed:
        errors += _managed_fields(managed, path / "managedFields")
    if kind_rules and finalizers:
        errors += _finalizer_names(finalizers, path / "finalizers")
    return errors
