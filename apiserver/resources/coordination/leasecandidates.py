"""Define LeaseCandidates (coordination.k8s.io).

apiserver/controlplane/lease_candidates.py elects one of them. Rules: pkg/apis/coordination/validation.
"""

from __future__ import annotations

from typing import Final

from apiserver.api.errors.field_errors import FieldError, Path, invalid, required
from apiserver.api.objects import Json
from apiserver.api.types.coordination import CANDIDATES_V1ALPHA2, CANDIDATES_V1BETA1
from apiserver.api.validation.changes import changes
from apiserver.api.values.semver import Semver
from apiserver.registry.definition.context import Context
from apiserver.registry.definition.resource import Column, Resource, prerelease
from apiserver.registry.definition.strategy import Strategy
from apiserver.resources.common.columns import name_and_age
from apiserver.resources.coordination.leases import lease_strategy

__all__ = ["LEASE_CANDIDATES"]


_SPEC: Final = Path("spec")
_CHANGES: Final = changes(CANDIDATES_V1BETA1.LeaseCandidateSpec)
_OLDEST: Final = "OldestEmulationVersion"
_NOTHING: Final = Semver.parse("0.0.0")


def _version(spec: Json, name: str) -> tuple[Semver, list[FieldError]]:
    """Parse a version. Return it and the errors; 0.0.0 if it is missing or invalid."""
    text = spec.get(name, "")
    if not text:
        return _NOTHING, []
    try:
        return Semver.parse(text), []
    except ValueError:
        return _NOTHING, [invalid(_SPEC / name, text, "must be a valid semantic version")]


class LeaseCandidateStrategy(Strategy):
    name_rule = "config-map-key"
    checks_finalizer_names = False
    revalidates_metadata = False

    def validate(self, ctx: Context, obj: Json) -> list[FieldError]:
        spec = obj["spec"]
        errors = [] if spec.get("leaseName") else [required(_SPEC / "leaseName")]
        emulated, wrong = _version(spec, "emulationVersion")
        errors += wrong
        if not spec.get("binaryVersion"):
            errors.append(required(_SPEC / "binaryVersion"))
        binary, wrong = _version(spec, "binaryVersion")
        errors += wrong
        if spec.get("binaryVersion") and spec.get("emulationVersion") and binary < emulated:
            text = "must be greater than or equal to `emulationVersion`"
            errors.append(invalid(_SPEC / "binaryVersion", spec["binaryVersion"], text))
        strategy = spec.get("strategy", "")
        if not strategy:
            return [*errors, required(_SPEC / "strategy")]
        if strategy == _OLDEST and emulated == _NOTHING:
            text = f"must be specified when `strategy` is '{_OLDEST}'"
            errors.append(required(_SPEC / "emulationVersion", text))
        return errors + lease_strategy(strategy, _SPEC / "strategy")

    def validate_update(self, ctx: Context, obj: Json, old: Json) -> list[FieldError]:
        return self.validate(ctx, obj) + _CHANGES.errors(_SPEC, obj["spec"], old["spec"])


LEASE_CANDIDATES: Final = Resource(
    group="coordination.k8s.io", kind="LeaseCandidate", plural="leasecandidates", singular="leasecandidate",
    namespaced=True,
    versions=(
        prerelease("v1beta1", CANDIDATES_V1BETA1.LeaseCandidate, (1, 33)),
        prerelease("v1alpha2", CANDIDATES_V1ALPHA2.LeaseCandidate, (1, 32)),
    ),
    strategy=LeaseCandidateStrategy(), storage_prefix="leasecandidates",
    columns=name_and_age(
        Column(name="LeaseName", cell=lambda obj: obj["spec"].get("leaseName", ""), description="Lease name."),
        Column(name="BinaryVersion", cell=lambda obj: obj["spec"].get("binaryVersion", ""),
            description="Binary version of the candidate."),
        Column(name="EmulationVersion", cell=lambda obj: obj["spec"].get("emulationVersion", ""),
            description="Emulation version of the candidate."),
    ),
    field_labels={"spec.leaseName": lambda obj: obj["spec"].get("leaseName", "")},
    unconditional_update=False, create_on_update=True,
)  # fmt: skip
