"""PATCH in the request's content type, and server-side apply.

The steps of a write are in `apiserver.registry.verbs.pipeline`. The patching of the stored object is here:

    stored → version → patched → decoded (unknown fields) → defaults → hub

JSON patch and merge patch work on the object's JSON, strategic merge on its fields by the schema's merge keys. An apply
is in `apiserver.registry.fields.apply`. Errors are upstream's. A document that is no patch is a 400. A patch that
cannot be applied is a 422 without details. A result that is no object of the kind is a 422 on `patch` with the result
(for strategic merge, with the patch).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from apiserver.api.codec.bodies import Body, DecodeError, find_repeated_fields, loads, read_type_meta
from apiserver.api.codec.codec import Decoded, decode, decode_changed, read_ordinary_changes
from apiserver.api.errors.field_errors import Path, go_quote, invalid
from apiserver.api.errors.status import StatusError, bad_request, internal_error
from apiserver.api.errors.status import invalid as invalid_status
from apiserver.api.objects import Hub, Json
from apiserver.api.patch import PatchError, json_patch, merge_patch, strategic_merge_patch
from apiserver.api.patch.goformat import go_format
from apiserver.api.patch.results import render_json_patched, render_merged
from apiserver.api.types.meta import ObjectMeta
from apiserver.api.values.go_json import unmarshal_error
from apiserver.registry.body.convert import ExpectedBody, to_hub, to_version
from apiserver.registry.body.decode import other_kind, scheme_of, unregistered, unsupported_media_type, warnings_of
from apiserver.registry.body.unstructured import TypeMismatch, restore_changes
from apiserver.registry.definition.metadata import check_identity, manager_name
from apiserver.registry.definition.options import NO_OPTIONS, patch_options
from apiserver.registry.store.results import Result
from apiserver.registry.verbs.pipeline import Mutation, admit_object, read_stored, store_object

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.store.store import Store
    from apiserver.request.messages import Request

__all__ = ["JsonPatch", "check_patch_type", "patch"]

JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
PATCH_TYPES: Final = (JSON_PATCH, MERGE, STRATEGIC, APPLY)
MAX_OPERATIONS: Final = 10_000
#: The members of a JSON patch operation.
_NO_VERSION: Final = "Object 'apiVersion' is missing in 'object has no apiVersion field'"
_TEXTS: Final = frozenset({"op", "path", "from"})
_OPERATION: Final = _TEXTS | {"value"}


async def patch(store: Store, ctx: Context, request: Request) -> Result:
    """Patch an object or ctx.subresource. An apply creates a missing object. Raise StatusError."""
    media = request.headers.get("content-type", "").partition(";")[0]
    apply = media == APPLY
    if not apply and (store.resource.custom or media not in _PATCHES):
        check_patch_type(request, custom=store.resource.custom)
    options = patch_options(request, apply=apply) if apply or request.query else NO_OPTIONS
    ctx.manager = manager_name(options.field_manager, request.headers.get("user-agent", ""))
    ctx.dry_run, ctx.options = options.dry_run, options
    expected = store.bodies[ctx.version, ctx.subresource]
    mutation = Mutation(store, ctx, options)
    projector = mutation.projector
    about = ctx if projector is None else projector.context(ctx)
    change: Callable[[Any], Hub]
    if apply:
        from apiserver.registry.fields.apply import Apply

        forms, resets = store.forms, store.strategy.reset_fields_of(ctx.subresource)
        if projector is not None:
            forms, resets = projector.forms, ()
        change = Apply(forms, resets, about, expected, request.body, options)
        mutation.creates, mutation.tracked, mutation.keeps_managers = not ctx.subresource, False, True
        mutation.applies = True
    else:
        change = _PATCHES[media](about, expected, request.body, options.field_validation or "Warn")
    while True:
        await read_stored(mutation)
        mutation.obj = change(mutation.obj)
        check_identity(mutation.obj["metadata"], ctx.namespace, ctx.name)
        await admit_object(mutation)
        result = await store_object(mutation)
        if result is not None:
            return result


def check_patch_type(request: Request, *, custom: bool) -> None:
    """Raise 415 for an unknown media type. `custom` objects are not merged strategically."""
    accepted = [name for name in PATCH_TYPES if not custom or name != STRATEGIC]
    if request.headers.get("content-type", "").partition(";")[0] not in accepted:
        raise unsupported_media_type(accepted)


class Patch:
    """A JSON patch or merge patch of a stored object, whose result is decoded like a sent body.

    The body is read only if the object exists; otherwise it may be invalid.
    """

    def __init__(self, ctx: Context, expected: ExpectedBody, body: bytes, validation: str) -> None:
        self.ctx, self.expected, self.body, self.validation = ctx, expected, body, validation
        #: The patch and the errors about its repeated fields, once it is read.
        self.patch: Any = None
        self.repeated: list[str] | None = None

    def __call__(self, old: Hub) -> Hub:
        """Return the patched object in hub form. Raise StatusError."""
        if self.repeated is None:
            try:
                loaded = loads(self.body)
            except DecodeError as error:
                prefix = self.undecodable if self.validation != "Ignore" else ""
                raise bad_request(f"{prefix}{error}") from None
            self.repeated = self.read(loaded)
        document = self.document = to_version(self.ctx.resource, self.expected.of, old)
        try:
            patched = self.apply(document, self.patch)
        except PatchError as error:
            raise _failed(error) from None
        expected, decoded = self.decode(patched)
        if self.repeated or decoded.problems:
            self.report([*self.repeated, *decoded.problems])
        metadata = patched.get("metadata")
        reset = not expected.custom and isinstance(metadata, dict) and metadata.get("managedFields") == []
        try:
            return to_hub(self.ctx, expected, decoded.obj, reset=reset)
        except DecodeError as error:
            raise self.refuse(str(error)) from None

    #: Prefix of the error for an undecodable body.
    undecodable = "error decoding patch: "

    def read(self, loaded: Body) -> list[str]:
        """Set `patch` and return the errors of strict decoding. Raise StatusError."""
        raise NotImplementedError

    #: Returns the document with the patch applied. Raises PatchError.
    apply: Callable[[Any, Any], Any]

    def render_result(self) -> str:
        """Render the result of the patch for errors."""
        raise NotImplementedError

    def refuse(self, error: str) -> StatusError:
        """Return a 422 on the patch with its result."""
        return invalid_patch(self.render_result(), error)

    def decode(self, patched: Any) -> tuple[ExpectedBody, Decoded]:
        """Decode a patched document as its own kind and version. Raise StatusError."""
        expected = self.expected
        if not isinstance(patched, dict):
            raise self.refuse(unmarshal_error(patched, "map[string]interface {}"))
        given = expected
        if patched.get("apiVersion") != expected.api_version or patched.get("kind") != expected.kind:
            given = self._expected_of(patched)
        try:
            if given is expected:
                return expected, decode_changed(expected.schema, patched, self.document)
            return given, decode(given.schema, patched)
        except DecodeError as error:
            raise self.refuse(self._first_error(given, str(error))) from None

    def _first_error(self, given: ExpectedBody, found: str) -> str:
        """Return the first type error of the result in the order of its text; `found` is one of them."""
        try:
            decode(given.schema, loads(self.render_result().encode()).value)
        except DecodeError as error:
            return str(error)
        return found

    def _expected_of(self, patched: Json) -> ExpectedBody:
        """Return the expected body for a document whose kind or version the patch changed.

        Raises StatusError.
        """
        expected = self.expected
        try:
            version, kind = read_type_meta(patched)
        except DecodeError as error:
            raise self.refuse(str(error)) from None
        bare = expected.custom and expected.kind == self.ctx.resource.kind
        if bare and not kind:
            raise self.refuse(f"Object 'Kind' is missing in '{self.render_result()}'")
        if not version:
            raise internal_error(_NO_VERSION) if bare else self._unversioned(patched)
        given = expected if version == expected.api_version else self._other_version(version)
        kind = kind or given.kind
        if bare and version.count("/") < 2 and (version, kind) != (given.api_version, given.kind):
            raise other_kind(kind, version, expected, patched)
        if version != given.api_version or kind != given.kind:
            raise self.refuse(unregistered(kind, version, scheme_of(expected.group)))
        return given

    def _other_version(self, given: str) -> ExpectedBody:
        """Return the expected body for another version of the same kind."""
        resource = self.ctx.resource
        if self.expected.kind != resource.kind:
            return self.expected
        others = (version for version in resource.versions if resource.api_versions[version.name] == given)
        return next((ExpectedBody(resource, version) for version in others), self.expected)

    def _unversioned(self, patched: Json) -> StatusError:
        """Return the error for a document without apiVersion.

        Upstream decodes it as the hub's own type, which has the fields of metadata at the top. So it has no name in
        metadata.
        """
        self.report([f"unknown field {go_quote(name)}" for name in sorted(patched) if name not in _HUB_FIELDS])
        name = self.ctx.name
        return bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")

    def report(self, found: list[str]) -> None:
        """Report unknown and repeated fields: as an error, as warnings, or not at all."""
        if self.validation == "Strict":
            raise self.refuse("strict decoding error: " + ", ".join(found))
        for problem in found if self.validation != "Ignore" else ():
            warnings = self.ctx.warnings
            warnings += [text for text in warnings_of(problem) if text not in warnings]


class MergePatch(Patch):
    def read(self, loaded: Body) -> list[str]:
        if loaded.value is None:
            raise bad_request("Invalid JSON Patch")
        if not isinstance(loaded.value, dict):
            raise bad_request(f"error decoding patch: {unmarshal_error(loaded.value, 'map[string]interface {}')}")
        self.patch = loaded.value
        return find_repeated_fields(loaded)

    apply = staticmethod(merge_patch)

    def render_result(self) -> str:
        schema = None if self.expected.custom else self.expected.schema
        return render_merged(schema, self.document, self.patch, lambda ordered: merge_patch(ordered, self.patch))


class JsonPatch(Patch):
    def read(self, loaded: Body) -> list[str]:
        operations = loaded.value
        if self.validation == "Ignore":
            if operations is not None and not isinstance(operations, list):
                raise bad_request(unmarshal_error(operations, "jsonpatch.Patch"))
        elif wrong := _mistyped(operations):
            raise bad_request(f"error decoding patch: {wrong}")
        self.patch = operations = operations or []
        if len(operations) > MAX_OPERATIONS:
            text = (
                f"Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got"
                f" {len(operations)}"
            )
            raise StatusError(413, "RequestEntityTooLarge", text)
        return _problems_of_operations(operations, find_repeated_fields(loaded)) if self.validation != "Ignore" else []

    apply = staticmethod(json_patch)

    def render_result(self) -> str:
        schema = None if self.expected.custom else self.expected.schema
        return render_json_patched(schema, self.document, self.patch, lambda ordered: json_patch(ordered, self.patch))


class StrategicMerge(Patch):
    """Strategic merge patch: merges the fields of the object instead of its JSON."""

    undecodable = ""

    def read(self, loaded: Body) -> list[str]:
        if loaded.value is not None and not isinstance(loaded.value, dict):
            raise bad_request(unmarshal_error(loaded.value, "map[string]interface {}"))
        self.patch = loaded.value or {}
        return find_repeated_fields(loaded)

    def apply(self, document: Any, patch: Any) -> Any:
        return strategic_merge_patch(self.expected.schema, document, patch)

    def decode(self, patched: Any) -> tuple[ExpectedBody, Decoded]:
        schema, unknown = self.expected.schema, list[str]()
        made = read_ordinary_changes(schema, patched, self.document)
        if made is not None:
            return self.expected, Decoded(made, [], [], [])
        try:
            fitting = restore_changes(schema, patched, self.document, unknown)
            decoded = decode_changed(schema, fitting, self.document)
        except (TypeMismatch, DecodeError) as error:
            raise self.refuse(str(error)) from None
        decoded.problems = [f'unknown field "{path}"' for path in sorted(unknown)] + decoded.problems
        return self.expected, decoded

    def refuse(self, error: str) -> StatusError:
        return invalid_patch(go_format(self.patch), error)


_HUB_FIELDS: Final = frozenset({"kind", "apiVersion", *ObjectMeta.fields})


def _mistyped(operations: Any) -> str:
    """Return the first type error in a JSON patch; "" if there is none."""
    if operations is not None and not isinstance(operations, list):
        return unmarshal_error(operations, "[]handlers.jsonPatchOp")
    for operation in operations or ():
        if operation is not None and not isinstance(operation, dict):
            return unmarshal_error(operation, "handlers.jsonPatchOp")
        for name, value in (operation or {}).items():
            if name in _TEXTS and not (value is None or isinstance(value, str)):
                return unmarshal_error(value, "string", f"jsonPatchOp.{name}")
    return ""


def _problems_of_operations(operations: list[Any], repeated: list[str]) -> list[str]:
    """Return the errors of strict decoding of a JSON patch, in upstream's order.

    They are unknown members of operations, and repeated fields in known members.
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


def _failed(error: PatchError) -> StatusError:
    """Return the error for a patch that cannot be applied. Upstream's has no details in most cases."""
    if error.status == 422:
        return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})
    return bad_request(error.text) if error.status == 400 else StatusError(error.status, "", error.text)


def invalid_patch(result: str, error: str) -> StatusError:
    """Return a 422 on the patch itself, without kind and object like upstream's."""
    return invalid_status("", "", "", [invalid(Path("patch"), result, error)])


_PATCHES: Final[dict[str, type[Patch]]] = {JSON_PATCH: JsonPatch, MERGE: MergePatch, STRATEGIC: StrategicMerge}
