"""Server-side apply: merges an applied configuration into the object and updates its managers.

    validate (every field declared) → merge over the live object → prune fields that this manager gave up → detect
    conflicts with other managers (with force, take their fields) → decode, fill defaults, convert to hub form

All steps use the request's version; the fields of managers in other versions are converted. Texts and rules are those
of k8s.io/apimachinery (pkg/util/managedfields) and structured-merge-diff (merge).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from apiserver.api.codec.bodies import DecodeError, find_repeated_fields, loads, strip_empty_group
from apiserver.api.codec.codec import decode, read_ordinary
from apiserver.api.errors.status import StatusError, bad_request, conflict
from apiserver.api.objects import Hub, Json
from apiserver.api.schema.language import Struct
from apiserver.api.values.times import timestamp
from apiserver.registry.body.convert import ExpectedBody, Form, copy_of, exact_copy, to_hub
from apiserver.registry.body.decode import warnings_of
from apiserver.registry.body.unstructured import TypeMismatch, restore
from apiserver.registry.fields.conflicts import Conflicts
from apiserver.registry.fields.managers import STRIPPED, Manager, Managers, Owned, decode_strictly, encode
from apiserver.registry.fields.merge import add_parent_fields, check, merge, remove
from apiserver.registry.fields.set import FieldSet, difference, intersection, of_paths, ordered, union, without
from apiserver.registry.fields.walk import NamelessItem, collect_applied, compare

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.options import WriteOptions

__all__ = ["Apply"]


BEFORE_FIRST_APPLY: Final = "before-first-apply"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL: Final = "kubectl"
#: Prefix of errors while the fields of an object without managers are assigned.
_EXISTING: Final = "failed to create manager for existing fields"
#: Prefix of errors while fields are given up.
_PRUNE: Final = "prune fields"
_UNDEFINED: Final = "request to convert CR to an invalid group/version"
_CONVERT_MERGED: Final = f"{_PRUNE}: failed to convert merged object to last applied version"
_ADD_BACK: Final = f"{_PRUNE}: failed add back owned items"
_ADD_BACK_AT: Final = f"{_ADD_BACK}: failed to convert {{}} object at version"


def _load(body: bytes) -> tuple[Json, list[str]]:
    """Load the configuration, and the errors of a strict YAML parser. Most bodies are JSON, also valid YAML."""
    if body[:1] == b"{":
        try:
            loaded = loads(body)
        except DecodeError:
            pass
        else:
            if not find_repeated_fields(loaded):
                return loaded.value, []
    try:
        loaded = loads(body, "application/apply-patch+yaml")
    except DecodeError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    value = loaded.value
    if value is not None and not isinstance(value, dict):
        kind = {list: "array", bool: "bool", str: "string"}.get(type(value), "number")
        text = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {text}")
    return value or {}, [f"error converting YAML to JSON: {problem}" for problem in loaded.problems]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _gvk(api_version: str, kind: str) -> str:
    if api_version.count("/") > 1:
        api_version = kind = ""
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


class Apply:
    """An applied configuration and its effect on a stored object (None: no object).

    `schema` and `api_version` are the request's, and so is the version of the live and applied objects. The body is
    read only if there is an object to apply it to: if the object is missing and required, the body may be invalid.

    Args:
        forms: the versions that managers may use, by apiVersion.
        resets: the fields that this write cannot own.
    """

    def __init__(
        self,
        forms: Mapping[str, Form],
        resets: tuple[str, ...],
        ctx: Context,
        expected: ExpectedBody,
        body: bytes,
        options: WriteOptions,
    ) -> None:
        self.forms, self.ctx, self.expected, self.body, self.options = forms, ctx, expected, body, options
        self.schema: Struct = expected.schema
        self.api_version = expected.api_version
        self.manager = Manager(ctx.manager, "Apply", "", ctx.subresource)
        self.resets = of_paths(*resets)
        #: The configuration and its repeated fields, once the body is read.
        self.applied: Json = {}
        self.repeated: list[str] | None = None

    def __call__(self, old: Hub | None) -> Hub:
        """Return the new object in hub form, with its managers. Raises StatusError."""
        if self.repeated is None:
            self.applied, self.repeated = _load(self.body)
        kind, group_version = _text(self.applied.get("kind")), strip_empty_group(_text(self.applied.get("apiVersion")))
        if (kind, group_version) != (self.expected.kind, self.api_version):
            raise bad_request(f"invalid object type: {_gvk(group_version, kind)}")
        obj = self._apply(old, bool(self.options.force))
        if self.repeated and self.options.field_validation == "Strict":
            raise bad_request(f"error strict decoding YAML: {', '.join(self.repeated)}")
        if self.repeated and self.options.field_validation != "Ignore":
            warnings = self.ctx.warnings
            warnings += [text for each in self.repeated for text in warnings_of(each) if text not in warnings]
        if old is None and (uid := obj["metadata"].get("uid")):
            cause = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(self.ctx.resource.plural, self.ctx.resource.group, self.ctx.name, cause)
        return obj

    def _apply(self, old: Hub | None, force: bool) -> Hub:
        metadata = self.applied.get("metadata")
        if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
            raise bad_request("metadata.managedFields must be nil")
        live = self._live(old)
        managers = self._managers(old, live)
        try:
            merged = self._merge(live, managers, force)
        except Conflicts as conflicts:
            if not self._allowed_by_last_applied(live, conflicts):
                raise conflicts.refusal() from None
            managers = self._managers(old, live)
            merged = self._merge(live, managers, force=True)
        except NamelessItem:
            what = f"failed to create typed live object ({self._place()}): {check(self.schema, live)}"
            raise StatusError(500, "", what) from None
        return self._finish(old, live, merged, managers)

    def _place(self) -> str:
        """Return the object's name in errors about stored objects."""
        return f"{self.ctx.namespace}/{self.ctx.name}; {_gvk(self.api_version, self.expected.kind)}"

    def _live(self, old: Json | None) -> Json:
        """Return the stored object in this version, or an object without values if there is none."""
        form = self._form(self.api_version)
        shown = form.empty() if old is None else form.of_hub(copy_of(old))
        return {"kind": self.expected.kind, "apiVersion": self.api_version, **shown}

    def _form(self, api_version: str) -> Any:
        form = self.forms.get(api_version)
        assert form is not None, f"{api_version} is no version of {self.ctx.resource.plural}"
        return form

    def _managers(self, old: Json | None, live: Json) -> Managers:
        """Return the managers of the stored object.

        The fields of an object without managers are assigned to the manager `before-first-apply`.
        """
        if old is None:
            return {}
        managers = decode_strictly(old["metadata"].get("managedFields"))
        if managers:
            return managers
        if self.expected.projects_custom:
            what = f"(/; {_gvk(self.api_version, self.expected.kind)}) to proper version"
            cause = f"{_UNDEFINED}: {self.api_version}"
            raise StatusError(500, "", f"{_EXISTING}: failed to convert live object {what}: {cause}")
        try:
            gained, _ = compare(self.schema, {**self._form(self.api_version).empty(), **_type(live)}, live)
        except NamelessItem:
            what = f"failed to convert new object ({self._place()}) to smd typed: {check(self.schema, live)}"
            raise StatusError(500, "", f"{_EXISTING}: {what}") from None
        gained = difference(without(gained, self.resets), STRIPPED)
        if not gained:
            return {}
        key = Manager(BEFORE_FIRST_APPLY, "Update", self.api_version, self.ctx.subresource)
        return {key: Owned(gained, self.api_version, timestamp(self.ctx.now))}

    def _merge(self, live: Json, managers: Managers, force: bool) -> Json:
        """Merge and prune the object, and update the ownership in `managers`."""
        wrong = check(self.schema, self.applied)
        if wrong:
            raise StatusError(500, "", f"failed to create typed patch object ({self._render()}): {wrong}")
        for owned in managers.values():
            if not self.ctx.resource.defines(owned.version):
                raise StatusError(500, "", f"{_UNDEFINED}: {owned.version}")
        merged: Json = merge(self.schema, live, self.applied)
        last = managers.get(self.manager)
        fields = without(collect_applied(self.schema, self.applied), self.resets)
        managers[self.manager] = Owned(fields, self.api_version, last.time if last else None)
        if last is not None and last.fields:
            merged = self._prune(merged, managers, last)
        self._update_owners(live, merged, managers, force)
        if self.manager in managers:
            kept = difference(managers[self.manager].fields, STRIPPED)
            if kept:
                managers[self.manager] = managers[self.manager]._replace(fields=kept)
            else:
                del managers[self.manager]
        return merged

    def _render(self) -> str:
        metadata = self.applied.get("metadata")
        given = metadata if isinstance(metadata, dict) else {}
        namespace, name = _text(given.get("namespace")), _text(given.get("name"))
        return f"{namespace}/{name}; {_gvk(self.api_version, self.expected.kind)}"

    # Fields that this manager no longer states are removed unless another manager owns them.

    def _prune(self, merged: Json, managers: Managers, last: Owned) -> Json:
        if self.forms.get(last.version) is None or self._is_stated_whole(last, managers):
            return merged
        at, schema = last.version, self._form(last.version).schema
        whole = self._convert(merged, self.api_version, at, _CONVERT_MERGED)
        owned_before = add_parent_fields(schema, last.fields)
        pruned = remove(schema, whole, owned_before)
        pruned = self._add_back_owned(whole, pruned, at, managers)
        dangling = difference(
            add_parent_fields(schema, collect_applied(schema, whole)),
            add_parent_fields(schema, collect_applied(schema, pruned)),
        )
        pruned = remove(schema, whole, intersection(dangling, owned_before))
        return self._convert(pruned, at, self.api_version, _PRUNE)

    def _is_stated_whole(self, last: Owned, managers: Managers) -> bool:
        """Return whether this manager still states all fields that it owned.

        If so, it removes no fields, and no conversion can lose any.
        """
        one_version = last.version == self.api_version and all(
            owned.version == last.version for owned in managers.values()
        )
        return one_version and not difference(last.fields, managers[self.manager].fields)

    def _add_back_owned(self, whole: Json, pruned: Json, at: str, managers: Managers) -> Json:
        by_version: dict[str, FieldSet] = {at: {}}
        for owned in managers.values():
            by_version[owned.version] = union(by_version.get(owned.version, {}), owned.fields)
        here = at
        for version, fields in by_version.items():
            if self.forms.get(version) is None:
                continue
            whole = self._convert(whole, here, version, f"{_ADD_BACK_AT.format('merged')} {version}")
            pruned = self._convert(pruned, here, version, f"{_ADD_BACK_AT.format('pruned')} {version}")
            here, schema = version, self._form(version).schema
            kept = union(add_parent_fields(schema, collect_applied(schema, pruned)), add_parent_fields(schema, fields))
            pruned = remove(schema, whole, difference(add_parent_fields(schema, collect_applied(schema, whole)), kept))
        return self._convert(pruned, here, at, _ADD_BACK)

    def _convert(self, obj: Json, given: str, wanted: str, what: str) -> Json:
        """Convert an object to another version. `what` is the attempted step for the message.

        A configuration may have values of the right type that are invalid, such as the thirtieth of February.
        Raises StatusError (500).
        """
        if given == wanted:
            return obj
        if (conversion := self.ctx.resource.conversion) is not None:
            bare = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
            made = conversion.convert(bare, given.rpartition("/")[2], wanted.rpartition("/")[2])
            return {"kind": self.expected.kind, "apiVersion": wanted, **made}
        if self.expected.custom:  # The schema does not matter here: the comparison of fields reports misfits.
            return {**obj, "apiVersion": wanted}
        source = self._form(given)
        try:
            hub = source.to_hub(decode(source.schema, copy_of(obj)).obj)
        except (TypeMismatch, DecodeError) as error:
            kind = _gvk(given, self.expected.kind)
            message = f"failed to {what}: unable to convert unstructured object to {kind}: {error}"
            raise StatusError(500, "", message) from None
        hub.pop("kind", None)
        hub.pop("apiVersion", None)
        return {"kind": self.expected.kind, "apiVersion": wanted, **self._form(wanted).of_hub(hub)}

    # Conflicts with other managers.

    def _update_owners(self, live: Json, merged: Json, managers: Managers, force: bool) -> None:
        if managers.keys() == {self.manager}:
            return
        changes = {self.api_version: self._change(live, merged, self.api_version)}
        conflicts: dict[Manager, FieldSet] = {}
        for key, owned in list(managers.items()):
            if key == self.manager:
                continue
            if owned.version not in changes:
                if self.forms.get(owned.version) is None:
                    del managers[key]
                    continue
                before = self._convert(live, self.api_version, owned.version, "convert old object")
                after = self._convert(merged, self.api_version, owned.version, "convert new object")
                changes[owned.version] = self._change(before, after, owned.version)
            both = intersection(owned.fields, changes[owned.version][0])
            if both:
                conflicts[key] = both
        if conflicts and not force:
            raise Conflicts(conflicts)
        for key, owned in list(managers.items()):
            if key != self.manager:
                fields = difference(difference(owned.fields, conflicts.get(key, {})), changes[owned.version][1])
                managers[key] = owned._replace(fields=fields)
            if not managers[key].fields:
                del managers[key]

    def _change(self, before: Json, after: Json, version: str) -> tuple[FieldSet, FieldSet]:
        schema = self._form(version).schema
        if self.expected.custom and version != self.api_version:
            for obj, what in ((before, "live"), (after, "new")):
                if wrong := check(schema, obj):
                    raise StatusError(500, "", f"failed to convert {what} object: {wrong}")
        gained, lost = compare(schema, before, after)
        return without(gained, self.resets), without(lost, self.resets)

    def _allowed_by_last_applied(self, live: Json, conflicts: Conflicts) -> bool:
        """Return whether kubectl may take the fields of its own client-side apply that are unchanged since."""
        if self.ctx.manager != KUBECTL:
            return False
        text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
        try:
            last = loads(text.encode()).value if text else None
        except DecodeError:
            return False
        if not isinstance(last, dict) or last.get("apiVersion") != self.api_version or check(self.schema, last):
            return False
        gained, lost = compare(self.schema, last, live)
        allowed = difference(difference(collect_applied(self.schema, last), gained), lost)
        rest = {key: difference(fields, allowed) for key, fields in conflicts.found.items()}
        conflicts.found = {key: fields for key, fields in rest.items() if fields}
        return not conflicts.found

    def _finish(self, old: Hub | None, live: Json, merged: Json, managers: Managers) -> Hub:
        if merged == live and old is not None:
            obj = exact_copy(old)
        else:
            obj = self._decode(merged)
            if self.manager in managers:
                managers[self.manager] = managers[self.manager]._replace(time=timestamp(self.ctx.now))
        metadata = obj["metadata"]
        metadata.pop("managedFields", None)
        if managers:
            metadata["managedFields"] = encode(
                {key: owned._replace(fields=ordered(owned.fields)) for key, owned in managers.items()}
            )
        annotations = metadata.get("annotations")
        if self.ctx.manager == KUBECTL and annotations and annotations.get(LAST_APPLIED):
            metadata["annotations"] = {**annotations, LAST_APPLIED: self._last_applied()}
        return obj

    def _decode(self, merged: Json) -> Hub:
        obj = read_ordinary(self.schema, merged)
        try:
            if obj is None:
                obj = decode(self.schema, restore(self.schema, merged, [])).obj
            return to_hub(self.ctx, self.expected, obj, reset=False)
        except (TypeMismatch, DecodeError) as error:
            kind = _gvk(self.api_version, self.expected.kind)
            message = (
                f"failed to convert new object ({self._render()}) to proper version: unable to convert unstructured"
                f" object to {kind}: {error}"
            )
            raise StatusError(500, "", message) from None

    def _last_applied(self) -> str:
        applied = copy_of(self.applied)
        annotations = applied.get("metadata", {}).get("annotations")
        if annotations:
            annotations.pop(LAST_APPLIED, None)
        return orjson.dumps(applied, option=orjson.OPT_SORT_KEYS).decode() + "\n"


def _type(obj: Json) -> Json:
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}
