"""AlwaysPullImages: the pull policy of every container and image volume is Always.

A node then checks the credentials for each pod, so a pod cannot use a private image that another pod has pulled. The
plugin is off by default.

Facts: plugin/pkg/admission/alwayspullimages. If a webhook sets another policy after the plugin, upstream returns a 500
made from a 403; this plugin returns the 403.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from apiserver.api.errors.field_errors import Path, aggregate, not_supported
from apiserver.api.objects import Json
from apiserver.registry.definition.resource import Resource
from apiserver.registry.store.admission import Attributes, Plugin, forbidden

__all__ = ["AlwaysPullImages"]

_ALWAYS: Final = "Always"
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_SPEC: Final = Path("spec")


class AlwaysPullImages(Plugin):
    name = "AlwaysPullImages"
    operations = frozenset({"CREATE", "UPDATE"})

    def handles(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) == ("", "pods")

    def admit(self, attributes: Attributes) -> None:
        if self._brings_images(attributes):
            for _, holder, field in _policies(attributes.obj):
                holder[field] = _ALWAYS

    def validate(self, attributes: Attributes) -> None:
        if self._brings_images(attributes):
            errors = [
                not_supported(path / field, holder.get(field, ""), [_ALWAYS])
                for path, holder, field in _policies(attributes.obj)
                if holder.get(field) != _ALWAYS
            ]
            if errors:
                raise forbidden(attributes, aggregate(errors))

    def _brings_images(self, attributes: Attributes) -> bool:
        """Return whether the request writes a pod itself, with a new image."""
        if attributes.subresource:
            return False
        return attributes.operation == "CREATE" or not _images(attributes.obj) <= _images(attributes.old)


def _containers(pod: Json | None) -> Iterator[tuple[Path, Json]]:
    spec = (pod or {}).get("spec") or {}
    for kind in _CONTAINERS:
        for index, container in enumerate(spec.get(kind) or ()):
            yield (_SPEC / kind)[index], container


def _images(pod: Json | None) -> set[str]:
    return {container.get("image", "") for _, container in _containers(pod)}


def _policies(pod: Json | None) -> Iterator[tuple[Path, Json, str]]:
    """Yield each pull policy of a pod: its path, the object with it, the field."""
    for path, container in _containers(pod):
        yield path, container, "imagePullPolicy"
    for index, volume in enumerate(((pod or {}).get("spec") or {}).get("volumes") or ()):
        if volume.get("image") is not None:
            yield (_SPEC / "volumes")[index] / "image", volume["image"], "pullPolicy"
