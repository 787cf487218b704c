"""A subresource whose body is an object of another kind, with a part of the resource's own object: scale.

    get      object → projection
    write    object → projection → changed like any object of its kind → validated → embedded in the object → stored by
             the object's own rules

The managers of the shown field are the managers of the projection while it changes. The resulting managers go back into
the object (upstream's ScaleHandler). All other managers lose the field, and its new managers have no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from apiserver.api.errors.status import conflict, invalid
from apiserver.api.objects import Hub, Json
from apiserver.registry.body.convert import forms_of, read
from apiserver.registry.definition.resource import api_version
from apiserver.registry.fields.managers import FieldTracker, Manager, Managers, Owned, decode_strictly, encode
from apiserver.registry.fields.set import contains, difference, of_elements, of_paths
from apiserver.registry.store.results import Unsaved

if TYPE_CHECKING:
    from apiserver.registry.definition.context import Context
    from apiserver.registry.definition.resource import Projection
    from apiserver.storage.watchcache.cache import Entry

__all__ = ["Projector"]


class Projector:
    """Reader and writer of one projection. `forms` are the versions of its managers."""

    def __init__(self, projection: Projection, fields: Mapping[str, str | None]) -> None:
        """Derive the projector from a projection.

        `fields` is the field by apiVersion of the object, None in versions without such a projection. Managers write in
        any of them.
        """
        self.kind, self.version = projection.kind, projection.version
        self.show, self.validate, self._check_exists = projection.show, projection.validate, projection.check_exists
        self.forms = forms_of((projection.kind,))
        projected_field = projection.projected_field or projection.field
        self._steps, self._projected_steps = tuple(projection.field.split(".")), tuple(projected_field.split("."))
        self._projected_elements = tuple(f"f:{step}" for step in self._projected_steps)
        self._field, self._projected_fields = of_paths(projection.field), of_paths(projected_field)
        self._fields = {
            version: None if field is None else tuple(f"f:{step}" for step in field.split("."))
            for version, field in fields.items()
        }
        self._tracker = FieldTracker(self.forms.get, lambda _: ())

    @property
    def api_version(self) -> str:
        return self.kind.api_versions[self.version.name]

    def context(self, ctx: Context) -> Context:
        """Return the context of the request for the projection."""
        return replace(ctx, resource=self.kind, version=self.version.name)

    def project_object(self, obj: Json, written: str | None = None) -> Json:
        """Return the projection of an object, with the managers of its field.

        `written` is the time of a manager without one.
        """
        projected = self.show(Hub(obj))
        managers = self._of_projection(decode_strictly(obj["metadata"].get("managedFields")))
        entries = encode({key: owned._replace(time=owned.time or written) for key, owned in managers.items()})
        if entries:
            projected["metadata"]["managedFields"] = entries
        return projected

    def project_entry(self, entry: Entry) -> Entry:
        """Return the projection of an object as an entry."""
        return Unsaved(entry.key, Hub(self.show(read(entry))), entry.revision)

    def check(self, entry: Entry) -> None:
        """Raise StatusError for an object without the field. A write can still set it."""
        if self._check_exists is not None:
            self._check_exists(entry.obj)

    def project(self, entry: Entry) -> Hub:
        """Return a private copy of the projection of a stored object."""
        return Hub(self.project_object(read(entry)))

    def embed(self, ctx: Context, entry: Entry, new: Hub, *, tracked: bool) -> Hub:
        """Return the stored object with a changed projection.

        With `tracked` the managers of the projection are updated.

        Raises:
            StatusError: 422 for a wrong projection, 409 for one of another object.
        """
        obj = read(entry)
        if tracked:
            writer = Manager(ctx.manager, "Update", self.api_version, ctx.subresource)
            self._tracker.track_update(self.project_object(obj), new, writer, ctx.now)
        metadata, version = obj["metadata"], api_version(ctx.resource.group, ctx.version)
        managers = decode_strictly(metadata.pop("managedFields", None))
        self._check(ctx, new, obj)
        self.copy_field(obj, new)
        entries = encode(self._of_parent(managers, decode_strictly(new["metadata"].get("managedFields")), version))
        if entries:
            metadata["managedFields"] = entries
        return obj

    def _check(self, ctx: Context, new: Json, obj: Json) -> None:
        metadata, name = obj["metadata"], obj["metadata"]["name"]
        errors = self.validate(new)
        if errors:
            raise invalid(self.kind.kind, self.kind.group, name, errors)
        uid = new["metadata"].get("uid")
        if uid and uid != metadata["uid"]:
            cause = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
            raise conflict(f"{ctx.resource.plural}/{ctx.subresource}", ctx.resource.group, name, cause)

    def copy_field(self, obj: Json, new: Json) -> None:
        """Set the projection's field in the object, and its resourceVersion if it has one."""
        source, target = new, obj
        for step in self._projected_steps[:-1]:
            source = source.get(step) or {}
        for step in self._steps[:-1]:
            target = target.setdefault(step, {})
        target[self._steps[-1]] = source.get(self._projected_steps[-1], 0)
        if version := new["metadata"].get("resourceVersion"):
            obj["metadata"]["resourceVersion"] = version

    def _of_projection(self, managers: Managers) -> Managers:
        """Return the field's managers as managers of the projection."""
        return {
            key: Owned(self._projected_fields, self.api_version, owned.time)
            for key, owned in managers.items()
            if (field := self._fields.get(owned.version)) is not None and contains(owned.fields, *field)
        }

    def _of_parent(self, managers: Managers, shown: Managers, version: str) -> Managers:
        """Return the object's managers after a change of the projection's.

        Keys of update managers include their API version, so only apply managers are matched. Managers of a version
        that is no longer served are dropped.
        """
        result: Managers = {}
        for key, owned in managers.items():
            if owned.version not in self._fields:
                continue
            field = self._fields[owned.version]
            if field is None or not contains(owned.fields, *field) or shown.pop(key, None) is not None:
                result[key] = owned
            elif rest := difference(owned.fields, of_elements(field)):
                result[key] = owned._replace(fields=rest)
        for key, owned in shown.items():
            if contains(owned.fields, *self._projected_elements):
                result[key] = Owned(self._field, version, managers[key].time if key in managers else None)
        return result
