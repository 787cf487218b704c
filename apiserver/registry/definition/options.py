"""Options from a query string or a DeleteOptions body, with upstream's checks and texts.

Invalid options give two errors. Values that do not parse are a 400. Values that parse and are not allowed are a 422 on
the options' own kind (`CreateOptions.meta.k8s.io "" is invalid: ...`). Unknown parameters are ignored. The first value
of a repeated parameter counts, except for dryRun, which is a list.
Unset differs from zero wherever upstream has a pointer in metav1's option types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.errors.field_errors import FieldError, Path, forbidden, invalid, not_supported, required
from apiserver.api.errors.status import StatusError, bad_request
from apiserver.api.errors.status import invalid as invalid_status
from apiserver.api.selectors.selectors import FieldSelector, LabelSelector, SelectorError, parse_fields, parse_labels
from apiserver.api.values.numbers import parse_int64
from apiserver.registry.definition.metadata import validate_manager

if TYPE_CHECKING:
    from apiserver.request.messages import Request

__all__ = [
    "NO_OPTIONS",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "Preconditions",
    "WriteOptions",
    "check_delete_options",
    "delete_options",
    "get_options",
    "list_options",
    "patch_options",
    "validate_delete",
    "write_options",
]

Params = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class GetOptions:
    """Options of a get. `resource_version` is the raw value; "" means the most recent state."""

    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of list, watch and deletecollection. A selector that selects everything is None."""

    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    watch: bool = False
    allow_bookmarks: bool = False
    resource_version: str = ""
    resource_version_match: str = ""
    timeout: int | None = None
    limit: int = 0
    continue_token: str = ""
    send_initial_events: bool | None = None
    #: The raw value. A gate decides whether it applies.
    shards: str = ""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of create, update and patch.

    `field_validation` is "", Ignore, Warn or Strict. `force` is for apply.
    """

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    force: bool | None = None


@dataclass(frozen=True, slots=True)
class Preconditions:
    """Preconditions of a deletion; None: no condition."""

    uid: str | None = None
    resource_version: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion.

    `propagation` is Orphan, Background or Foreground, None if unset. `orphan` is the old orphanDependents.
    """

    grace_period: int | None = None
    preconditions: Preconditions | None = None
    propagation: str | None = None
    orphan: bool | None = None
    dry_run: bool = False
    ignore_store_read_error: bool = False


_NO_PARAMS: Final[Params] = {}
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_PROPAGATIONS: Final = ("Foreground", "Background", "Orphan")
#: Most requests have no query, so their options are shared.
NO_OPTIONS: Final = WriteOptions()
_PLAIN_LIST: Final = ListOptions()
_PLAIN_GET: Final = GetOptions()
_PLAIN_DELETE: Final = DeleteOptions()


def _invalid(kind: str, errors: list[FieldError]) -> StatusError:
    return invalid_status(kind, "meta.k8s.io", "", errors)


def _text(params: Params, name: str) -> str:
    values = params.get(name)
    return values[0] if values else ""


def _flag(params: Params, name: str) -> bool | None:
    """Parse a boolean. Every value but 0 and false is true, also the empty one."""
    values = params.get(name)
    return None if not values else values[0] != "0" and values[0].lower() != "false"


def _number(params: Params, name: str) -> int | None:
    values = params.get(name)
    if not values:
        return None
    try:
        return parse_int64(values[0])
    except ValueError as error:
        raise bad_request(str(error)) from None


# Reading


def get_options(params: Params = _NO_PARAMS) -> GetOptions:
    """Parse the options of a get. Raise StatusError (400)."""
    if not params:
        return _PLAIN_GET
    if _flag(params, "export"):
        raise bad_request("the export parameter, deprecated since v1.14, is no longer supported")
    return GetOptions(_text(params, "resourceVersion"))


def list_options(params: Params = _NO_PARAMS, *, watch: bool | None = None, watch_list: bool = True) -> ListOptions:
    """Parse the options of a list, a watch or a deletecollection.

    `watch` overrides the parameter (the old /watch/ paths). `watch_list` is the gate of that name.
    """
    if not params and not watch:
        return _PLAIN_LIST
    if watch is None:
        watch = bool(_flag(params, "watch"))
    timeout, limit = _number(params, "timeoutSeconds"), _number(params, "limit")
    version, match = _text(params, "resourceVersion"), _text(params, "resourceVersionMatch")
    initial = _flag(params, "sendInitialEvents")
    if watch and watch_list and initial is None and not match and version in ("", "0"):
        initial, match = True, "NotOlderThan"
    token = _text(params, "continue")
    labels, fields = _selectors(params)
    errors = (
        _watch_errors(match, token, initial, watch_list) if watch else _list_errors(version, match, token, initial)
    )  # fmt: skip
    if errors:
        raise _invalid("ListOptions", errors)
    return ListOptions(
        labels=labels,
        fields=fields,
        watch=watch,
        allow_bookmarks=bool(_flag(params, "allowWatchBookmarks")),
        resource_version=version,
        resource_version_match=match,
        timeout=timeout,
        limit=limit or 0,
        continue_token=token,
        send_initial_events=initial,
        shards=_text(params, "shardSelector"),
    )


def _selectors(params: Params) -> tuple[LabelSelector | None, FieldSelector | None]:
    try:
        labels = parse_labels(text) if (text := _text(params, "labelSelector")) else None
        fields = parse_fields(text) if (text := _text(params, "fieldSelector")) else None
    except SelectorError as error:
        raise bad_request(str(error)) from None
    return (None if labels is not None and labels.empty else labels), (
        None if fields is not None and fields.empty else fields
    )


_MATCH: Final = Path("resourceVersionMatch")
_INITIAL: Final = Path("sendInitialEvents")


def _list_errors(version: str, match: str, token: str, initial: bool | None) -> list[FieldError]:
    errors = []
    if match:
        if not version:
            errors.append(forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if token:
            errors.append(forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported(_MATCH, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and version == "0":
            errors.append(forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if initial is not None:
        errors.append(forbidden(_INITIAL, "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(match: str, token: str, initial: bool | None, watch_list: bool) -> list[FieldError]:
    errors = []
    if initial is not None:
        if match != "NotOlderThan":
            errors.append(forbidden(_MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
        if not watch_list:
            errors.append(
                forbidden(
                    _INITIAL, "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
                )
            )
    if match:
        if initial is None:
            errors.append(
                forbidden(_MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            )
        if match != "NotOlderThan":
            errors.append(not_supported(_MATCH, match, ("NotOlderThan",)))
        if token:
            errors.append(forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    return errors


# Writing


def write_options(request: Request, kind: str) -> WriteOptions:
    """Parse the options of a create ("CreateOptions") or update ("UpdateOptions")."""
    return _write_options(request.params, kind)


def patch_options(request: Request, *, apply: bool) -> WriteOptions:
    """Parse the options of a patch. An apply must name its manager; only an apply may force."""
    errors = []
    force = _flag(request.params, "force")
    if apply:
        if not _text(request.params, "fieldManager"):
            errors.append(required(Path("fieldManager"), "is required for apply patch"))
    elif force is not None:
        errors.append(forbidden(Path("force"), "may not be specified for non-apply patch"))
    return _write_options(request.params, "PatchOptions", errors, force)


def _write_options(
    params: Params, kind: str, errors: list[FieldError] | None = None, force: bool | None = None
) -> WriteOptions:
    errors = errors or []
    manager = _text(params, "fieldManager")
    errors += validate_manager(manager, Path("fieldManager"))
    dry_run = list(params.get("dryRun", ()))
    errors += _dry_run_errors(dry_run)
    validation = _text(params, "fieldValidation")
    if validation not in _VALIDATIONS:
        errors.append(not_supported(Path("fieldValidation"), validation, _VALIDATIONS))
    if errors:
        raise _invalid(kind, errors)
    return WriteOptions(bool(dry_run), manager, validation, force)


def _dry_run_errors(dry_run: list[str]) -> list[FieldError]:
    return [not_supported(Path("dryRun"), dry_run, ("All",))] if any(value != "All" for value in dry_run) else []


# Deleting


def delete_options(params: Params = _NO_PARAMS, body: dict[str, Any] | None = None) -> DeleteOptions:
    """Parse the options of a deletion from the body (a decoded DeleteOptions), or else from the query."""
    if body is not None:
        return check_delete_options(_from_body(body), list(body.get("dryRun") or ()))
    if not params:
        return _PLAIN_DELETE
    dry_run = list(params.get("dryRun", ()))
    uid, version = _text(params, "uid") or None, _text(params, "resourceVersion") or None
    options = DeleteOptions(
        grace_period=_number(params, "gracePeriodSeconds"),
        preconditions=Preconditions(uid, version) if uid or version else None,
        propagation=params["propagationPolicy"][0] if params.get("propagationPolicy") else None,
        orphan=_flag(params, "orphanDependents"),
        dry_run=bool(dry_run),
        ignore_store_read_error=bool(_flag(params, "ignoreStoreReadErrorWithClusterBreakingPotential")),
    )
    return check_delete_options(options, dry_run)


def _from_body(body: dict[str, Any]) -> DeleteOptions:
    given = body.get("preconditions")
    return DeleteOptions(
        grace_period=body.get("gracePeriodSeconds"),
        preconditions=None if given is None else Preconditions(given.get("uid"), given.get("resourceVersion")),
        propagation=body.get("propagationPolicy"),
        orphan=body.get("orphanDependents"),
        dry_run=bool(body.get("dryRun")),
        ignore_store_read_error=bool(body.get("ignoreStoreReadErrorWithClusterBreakingPotential")),
    )


def check_delete_options(options: DeleteOptions, dry_run: list[str]) -> DeleteOptions:
    """Raise 422 for options that are not allowed; `dry_run` holds the raw values."""
    errors = validate_delete(options) + _dry_run_errors(dry_run)
    if errors:
        raise _invalid("DeleteOptions", errors)
    return options


def validate_delete(options: DeleteOptions) -> list[FieldError]:
    """Validate the treatment of dependents (ValidateDeleteOptions of meta/v1)."""
    errors = []
    path = Path("propagationPolicy")
    if options.orphan is not None and options.propagation is not None:
        errors.append(invalid(path, options.propagation, "orphanDependents and deletionPropagation cannot be both set"))
    if options.propagation is not None and options.propagation not in _PROPAGATIONS:
        errors.append(not_supported(path, options.propagation, (*_PROPAGATIONS, "nil")))
    return errors
