"""PATCH: a change computed from the stored object, in the terms of the request's version.

    stored → version → patched → decoded (unknown fields) → defaults → hub

JSON patch and merge patch work on the object's JSON, strategic merge on its fields by the schema's merge keys. Errors
are upstream's: a document that is no patch is a 400, one that cannot be applied a 422 without
details, a result that is no object of the kind a 422 on `patch` that shows the result (or, for strategic merge, the
patch).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.bodies import claimed_kind
from apiserver.api.codec import Body, Decoded, DecodeError, decode, decode_changed, loads
from apiserver.api.fielderrors import Path, go_quote, invalid
from apiserver.api.gojson import parse_with_spans, unmarshal_error
from apiserver.api.nesting import LEVELS, TooDeep, bounded, may_be_deep
from apiserver.api.objects import Hub, UpdateFunc, Versioned
from apiserver.api.patch import PatchError, json_patch, merge_patch, strategic_merge_patch
from apiserver.api.patch.goformat import go_format
from apiserver.api.patch.shown import shown_json_patched, shown_merged
from apiserver.api.status import StatusError, bad_request
from apiserver.api.status import invalid as invalid_status
from apiserver.api.strictness import repeated
from apiserver.api.types.meta import ObjectMeta
from apiserver.registry.body.convert import ExpectedBody, api_version, to_hub, to_version
from apiserver.registry.body.decode import SCHEME, other_kind, warnings_of
from apiserver.registry.body.unstructured import Misfit, restored_changes

if TYPE_CHECKING:
    from apiserver.registry.body.options import WriteOptions
    from apiserver.registry.context import Context

__all__ = ["APPLY", "patch_body", "patch_func", "patch_type"]

Json = dict[str, Any]
JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
PATCH_TYPES: Final = (JSON_PATCH, MERGE, STRATEGIC, APPLY)
MAX_OPERATIONS: Final = 10_000
#: What an operation of a JSON patch has.
_OPERATION: Final = frozenset({"op", "path", "from", "value"})


def patch_type(content_type: str, *, custom: bool = False) -> str:
    """The kind of patch that a Content-Type names; upstream has a text of its own for a wrong one. `custom` objects are
    not merged strategically.
    """
    media = content_type.partition(";")[0]
    if media not in PATCH_TYPES or (custom and media == STRATEGIC):
        accepted = ", ".join(name for name in PATCH_TYPES if not custom or name != STRATEGIC)
        message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        raise StatusError(415, "UnsupportedMediaType", message)
    return media


def patch_func(ctx: Context, expected: ExpectedBody, media: str, body: bytes, options: WriteOptions) -> UpdateFunc:
    """What a patch makes of a stored object. It is read when there is one: without, it may be anything."""
    validation = options.field_validation or "Warn"
    if media == STRATEGIC:
        return _strategic(ctx, expected, body, validation)
    read = cache(partial(patch_body, body, validation, list if media == JSON_PATCH else dict))

    def patched(old: Hub | None) -> Hub:
        """JSON patch and merge patch: the patched document is decoded as if it had been sent."""
        assert old is not None, "a patch needs an object"
        patch, repeated = read()
        document = to_version(ctx.resource, expected.of, old)
        apply = json_patch if media == JSON_PATCH else merge_patch
        try:
            found = apply(document, patch)
        except PatchError as error:
            raise _failed(error) from None
        if may_be_deep(body) or body.count(b"/") > LEVELS:
            found = _bounded(found)
        show = shown_json_patched if media == JSON_PATCH else shown_merged

        def refuse(error: str) -> StatusError:
            schema = None if expected.custom else expected.schema
            return invalid_patch(show(schema, document, patch, lambda ordered: apply(ordered, patch)), error)

        return _read_document(ctx, expected, document, found, repeated, validation, refuse)

    return patched


def _failed(error: PatchError) -> StatusError:
    """A patch that cannot be applied: most often upstream says no more than that."""
    if error.status == 422:
        return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})
    return bad_request(error.text) if error.status == 400 else StatusError(error.status, "", error.text)


def patch_body(body: bytes, validation: str, wanted: type) -> tuple[Any, list[str]]:
    """The patch itself, and what a strict reader refuses of it."""
    try:
        loaded = loads(body, "application/json")
    except DecodeError as error:
        raise bad_request(f"error decoding patch: {error}" if validation != "Ignore" else str(error)) from None
    value = loaded.value
    if value is None and wanted is dict:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(value, wanted) and not (value is None and wanted is list):
        go = "map[string]interface {}" if wanted is dict else "[]handlers.jsonPatchOp"
        raise bad_request(f"error decoding patch: {unmarshal_error(value, go)}")
    for operation in value if isinstance(value, list) else ():
        if operation is not None and not isinstance(operation, dict):
            raise bad_request(f"error decoding patch: {unmarshal_error(operation, 'handlers.jsonPatchOp')}")
    if isinstance(value, list) and len(value) > MAX_OPERATIONS:
        text = (
            f"Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got"
            f" {len(value)}"
        )
        raise StatusError(413, "RequestEntityTooLarge", text)
    problems = repeated_fields(loaded)
    return value or wanted(), _of_operations(value, problems) if isinstance(value, list) else problems


def _of_operations(operations: list[Any], repeated: list[str]) -> list[str]:
    """What a strict reader refuses of a JSON patch, in its order: what no operation has, and what is repeated in what
    an operation has.
    """
    found = []
    for index, operation in enumerate(operations):
        for key in operation or ():
            path = f"[{index}].{key}"
            if key not in _OPERATION:
                found.append(f'json patch unknown field "{path}"')
                continue
            within = (f'duplicate field "{path}"', f'duplicate field "{path}.', f'duplicate field "{path}[')
            found += [f"json patch {text}" for text in repeated if text.startswith(within)]
    return found


def repeated_fields(body: Body) -> list[str]:
    """Keys that occur more than once in a patch. Written again without them, a body has fewer `":`."""
    text = body.text
    if body.cut is None and (text == body.again or _as_many_keys(text, body.again)):
        return []
    return [f'duplicate field "{path}"' for path in repeated(parse_with_spans(text))]


def _as_many_keys(text: bytes, again: bytes) -> bool:
    """Whether a text has as many keys as another one, and no blanks or escapes that would hide one."""
    return text.count(b'":') == again.count(b'":') and text.find(b'" :') < 0 and text.find(b"u0022") < 0


def _bounded(patched: Any) -> Any:
    """What a patch made, if it is not too deep. Raises 422."""
    try:
        return bounded(patched)
    except TooDeep as error:
        raise invalid_patch("", f"couldn't get version/kind; json parse error: {error}") from None


def _read_document(
    ctx: Context,
    expected: ExpectedBody,
    document: Versioned,
    patched: Any,
    repeated: list[str],
    validation: str,
    refuse: Callable[[str], StatusError],
) -> Hub:
    if not isinstance(patched, dict):
        raise refuse(unmarshal_error(patched, "map[string]interface {}"))
    try:
        version, kind = claimed_kind(patched)
    except DecodeError as error:
        raise refuse(str(error)) from None
    if not version:
        raise _unversioned(ctx, patched, validation, refuse)
    given = expected if version == expected.api_version else _other_version(ctx, expected, version)
    kind = kind or given.kind
    if expected.custom and version == given.api_version and kind != given.kind:
        raise other_kind(kind, expected, patched)
    if version != given.api_version or kind != given.kind:
        raise refuse(f'no kind "{kind}" is registered for version "{version}" in scheme "{SCHEME}"')
    try:
        decoded = (
            decode_changed(expected.schema, patched, document) if given is expected else decode(given.schema, patched)
        )
    except DecodeError as error:
        raise refuse(str(error)) from None
    return _finish(ctx, given, decoded, patched, repeated, validation, refuse)


def _other_version(ctx: Context, expected: ExpectedBody, given: str) -> ExpectedBody:
    """A patch may turn the document into one of another version of its kind, as which it is then read."""
    if expected.kind != ctx.resource.kind:
        return expected
    others = (version for version in ctx.resource.versions if api_version(ctx.resource.group, version.name) == given)
    return next((ExpectedBody(ctx.resource, version) for version in others), expected)


def _unversioned(ctx: Context, patched: Json, validation: str, refuse: Callable[[str], StatusError]) -> StatusError:
    """A document without apiVersion is read as the hub's own type, which takes fields of metadata at the top, and so
    has no name there.
    """
    _report(
        ctx,
        [f"unknown field {go_quote(name)}" for name in sorted(patched) if name not in _HUB_FIELDS],
        validation,
        refuse,
    )
    return bad_request(f"the name of the object ({ctx.name} based on URL) was undeterminable: name must be provided")


_HUB_FIELDS: Final = frozenset({"kind", "apiVersion", *ObjectMeta.fields})


def _finish(
    ctx: Context,
    expected: ExpectedBody,
    decoded: Decoded,
    patched: Json,
    repeated: list[str],
    validation: str,
    refuse: Callable[[str], StatusError],
) -> Hub:
    metadata = patched.get("metadata")
    reset = isinstance(metadata, dict) and metadata.get("managedFields") == []
    if repeated or decoded.problems:
        _report(ctx, repeated + decoded.problems, validation, refuse)
    try:
        return to_hub(ctx, expected, decoded.obj, reset=reset)
    except DecodeError as error:
        raise refuse(str(error)) from None


def _report(ctx: Context, found: list[str], validation: str, refuse: Callable[[str], StatusError]) -> None:
    """Unknown and repeated fields: an error, warnings, or nothing."""
    if validation == "Ignore":
        return
    if validation == "Strict":
        raise refuse("strict decoding error: " + ", ".join(found))
    for problem in found:
        ctx.warnings += [text for text in warnings_of(problem) if text not in ctx.warnings]


def invalid_patch(shown: str, error: str) -> StatusError:
    """422 on the patch itself; upstream names no kind and no object here."""
    return invalid_status("", "", "", [invalid(Path("patch"), shown, error)])


def _strategic(ctx: Context, expected: ExpectedBody, body: bytes, validation: str) -> UpdateFunc:
    read = cache(partial(_load_strategic, body))

    def refuse(error: str) -> StatusError:
        return invalid_patch(go_format(read()[0]), error)

    def patched(old: Hub | None) -> Hub:
        assert old is not None, "a patch needs an object"
        patch, repeated = read()
        document = to_version(ctx.resource, expected.of, old)
        try:
            found = strategic_merge_patch(expected.schema, document, patch)
        except PatchError as error:
            raise _failed(error) from None
        if may_be_deep(body):
            found = _bounded(found)
        unknown: list[str] = []
        try:
            fitting = restored_changes(expected.schema, found, document, unknown)
            decoded = decode_changed(expected.schema, fitting, document)
        except (Misfit, DecodeError) as error:
            raise refuse(str(error)) from None
        problems = repeated + [f'unknown field "{path}"' for path in sorted(unknown)]
        return _finish(ctx, expected, decoded, found, problems, validation, refuse)

    return patched


def _load_strategic(body: bytes) -> tuple[Json, list[str]]:
    try:
        loaded = loads(body, "application/json")
    except DecodeError as error:
        raise bad_request(str(error)) from None
    value = loaded.value
    if value is not None and not isinstance(value, dict):
        raise bad_request(unmarshal_error(value, "map[string]interface {}"))
    return value or {}, repeated_fields(loaded)
