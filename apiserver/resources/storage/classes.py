"""Define StorageClasses and VolumeAttributesClasses: the provisioner of volumes and its parameters."""

from __future__ import annotations

from collections import Counter
from typing import Final

from apiserver.api.errors.field_errors import (
    FieldError,
    Path,
    duplicate,
    invalid,
    required,
    too_long,
)
from apiserver.api.helpers.storage_classes import is_default_class
from apiserver.api.objects import Json
from apiserver.api.types.storage import (
    StorageClass,
    TopologySelectorLabelRequirement,
    VolumeAttributesClass,
    VolumeAttributesClassV1Beta1,
)
from apiserver.api.validation.changes import changes
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, Version, prerelease
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import AGE, name_and_age
from apiserver.resources.common.core_rules import RULES
from apiserver.resources.pods.warnings import OLD_LABELS

_PARAMETERS_LIMIT: Final = 512
_SIZE_LIMIT: Final = 256 * 1024
#: The limit of reported duplicates. Upstream reports one per pair of equal terms, 10^9 for a body of 3 MiB.
_MOST_REPETITIONS: Final = 1000
_TOPOLOGIES: Final = Path("allowedTopologies")
_PARAMETERS: Final = Path("parameters")
_CHANGES: Final = changes(StorageClass, "parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
_ATTRIBUTES_CHANGES: Final = changes(VolumeAttributesClass)


def _parameters(parameters: Json, may_be_empty: bool) -> list[FieldError]:
    if len(parameters) > _PARAMETERS_LIMIT:
        return [too_long(_PARAMETERS, _PARAMETERS_LIMIT)]
    errors = [invalid(_PARAMETERS, key, "field can not be empty.") for key in parameters if not key]
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _SIZE_LIMIT:
        errors.append(too_long(_PARAMETERS, _SIZE_LIMIT))
    if not parameters and not may_be_empty:
        errors.append(required(_PARAMETERS, "must contain at least one key/value pair"))
    return errors


def _topologies(terms: list[Json]) -> list[FieldError]:
    """Report each earlier equal term as a duplicate, up to a limit.

    An empty term counts as a duplicate of as many empty terms as there are terms.
    """
    errors: list[FieldError] = []
    seen = Counter({frozenset[tuple[str, frozenset[str]]](): len(terms)})
    left = _MOST_REPETITIONS
    for index, term in enumerate(terms):
        path = _TOPOLOGIES[index] / "matchLabelExpressions"
        chosen: dict[str, frozenset[str]] = {}
        for position, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            errors += RULES.of(TopologySelectorLabelRequirement).errors(path[position], requirement)
            key = requirement.get("key", "")
            if key in chosen:
                errors.append(duplicate(path[position] / "key", key))
            chosen[key] = frozenset(requirement.get("values") or ())
        term_as_said = frozenset(chosen.items())
        told = min(seen[term_as_said], left)
        errors += [duplicate(path, "")] * told
        left -= told
        seen[term_as_said] += 1
    return errors


RULES.set(TopologySelectorLabelRequirement, "values", "key")
RULES.set(
    StorageClass, by_rules=("provisioner", "reclaimPolicy", "volumeBindingMode", "allowedTopologies", "parameters")
)
RULES.set(VolumeAttributesClass, by_rules=("driverName", "parameters"))


class StorageClassStrategy(Strategy):
    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        here = RULES.of(StorageClass).at(Path(), obj)
        errors = here.field("provisioner") + _parameters(obj.get("parameters") or {}, may_be_empty=True)
        errors += here.fields("reclaimPolicy", "volumeBindingMode")
        return errors + _topologies(obj.get("allowedTopologies") or [])

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj) + _CHANGES.errors(Path(), obj, old)

    def warnings_on_create(self, ctx: Context, obj: Json) -> list[str]:
        return [
            f"{(_TOPOLOGIES[index] / 'matchLabelExpressions')[position] / 'key'}: {OLD_LABELS[requirement['key']]}"
            for index, term in enumerate(obj.get("allowedTopologies") or ())
            for position, requirement in enumerate(term.get("matchLabelExpressions") or ())
            if requirement.get("key") in OLD_LABELS
        ]

    def warnings_on_update(self, ctx: Context, obj: Json, old: Json) -> list[str]:
        return self.warnings_on_create(ctx, obj)


class VolumeAttributesClassStrategy(Strategy):
    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        errors = RULES.of(VolumeAttributesClass).at(Path(), obj).field("driverName")
        return errors + _parameters(obj.get("parameters") or {}, may_be_empty=False)

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return _ATTRIBUTES_CHANGES.errors(Path(), obj, old) + self.validate(ctx, obj)


def _name(obj: Json) -> str:
    name: str = obj["metadata"].get("name", "")
    return f"{name} (default)" if is_default_class(obj) else name


STORAGE_CLASSES: Final = Resource(
    group="storage.k8s.io",
    kind="StorageClass",
    plural="storageclasses",
    singular="storageclass",
    namespaced=False,
    short_names=("sc",),
    versions=(Version(name="v1", schema=StorageClass),),
    strategy=StorageClassStrategy(),
    storage_prefix="storageclasses",
    columns=(
        Column(name="Name", cell=_name, format="name", description="Name of the class, with a mark for the default."),
        Column(
            name="Provisioner", cell=lambda obj: obj.get("provisioner", ""), description="Provisioner of the volumes."
        ),
        Column(
            name="ReclaimPolicy",
            cell=lambda obj: obj.get("reclaimPolicy", "Delete"),
            description="Reclaim policy of released volumes.",
        ),
        Column(
            name="VolumeBindingMode",
            cell=lambda obj: obj.get("volumeBindingMode", "Immediate"),
            description="When volumes are provisioned and bound.",
        ),
        Column(
            name="AllowVolumeExpansion",
            cell=lambda obj: bool(obj.get("allowVolumeExpansion")),
            description="Whether volumes can be expanded.",
        ),
        AGE,
    ),
    delete_returns_object=True,
)

VOLUME_ATTRIBUTES_CLASSES: Final = Resource(
    group="storage.k8s.io",
    kind="VolumeAttributesClass",
    plural="volumeattributesclasses",
    singular="volumeattributesclass",
    namespaced=False,
    short_names=("vac",),
    versions=(
        Version(name="v1", schema=VolumeAttributesClass, introduced=(1, 34)),
        prerelease(
            "v1beta1", VolumeAttributesClassV1Beta1, (1, 31), successor="storage.k8s.io/v1 VolumeAttributesClass"
        ),
    ),
    strategy=VolumeAttributesClassStrategy(),
    storage_prefix="volumeattributesclasses",
    columns=name_and_age(
        Column(
            name="DriverName",
            cell=lambda obj: obj.get("driverName", ""),
            description="Driver that changes the attributes.",
        )
    ),
    delete_returns_object=True,
)
