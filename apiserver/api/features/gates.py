"""Feature gates: the gates of each release, their stage and default there, and the effect of `--feature-gates`.

The table holds the gates that change kubedra's own behaviour. Upstream's other gates are accepted and reported
(`other_gates`). Other names are refused, as upstream.
Facts: component-base/featuregate and pkg/features of Kubernetes 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from apiserver.api.errors.field_errors import go_quote
from apiserver.api.features.other_gates import OTHER_GATES
from kubedra.runtime.user_settings import suggest

Release = tuple[int, int]

RELEASES: Final[tuple[Release, ...]] = ((1, 33), (1, 34), (1, 35), (1, 36))


class FeatureError(ValueError):
    """A rejected setting; the text is upstream's."""


class UnknownGateError(FeatureError):
    """A gate that Kubernetes does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unrecognized feature gate: {name}{suggest(name, (*GATES, *OTHER_GATES))}")


class Stage(NamedTuple):
    """A gate in one release: `name` is Alpha, Beta, GA or Deprecated."""

    name: str
    on: bool
    locked: bool = False


class Gate(NamedTuple):
    """A gate: `stages` by the first release of each, `needs` the gates that must also be on.

    A gate of kubedra's `own` is in no release of Kubernetes. Its fields exist only while it is on; AllAlpha and AllBeta
    do not change it.
    """

    stages: tuple[tuple[Release, Stage], ...]
    needs: tuple[str, ...] = ()
    own: bool = False

    def at(self, release: Release) -> Stage | None:
        """Return the stage in a release, or None before the gate existed."""
        return next((stage for since, stage in reversed(self.stages) if since <= release), None)


_STAGES: Final = {
    "a-": Stage("Alpha", False), "b-": Stage("Beta", False), "b+": Stage("Beta", True),
    "g-": Stage("GA", False), "g+": Stage("GA", True), "d+": Stage("Deprecated", True),
    "gL": Stage("GA", True, locked=True),
}  # fmt: skip
_DRA: Final = ("DynamicResourceAllocation",)


def _gate(stages: str, *needs: str) -> Gate:
    """Parse the stages of a gate. `"33:b- 34:g+"` is beta and off from 1.33 on, general and on from 1.34 on."""
    parts = (part.split(":") for part in stages.split())
    return Gate(tuple(((1, int(minor)), _STAGES[stage]) for minor, stage in parts), needs)


GATES: Final[Mapping[str, Gate]] = {
    "AllowParsingUserUIDFromCertAuth": _gate("33:b+"),
    "AnyVolumeDataSource": _gate("18:a- 24:b+ 33:gL"),
    "APIServerIdentity": _gate("20:a- 26:b+"),
    "AnonymousAuthConfigurableEndpoints": _gate("31:a- 32:b+ 34:gL"),
    "AuthorizeNodeWithSelectors": _gate("31:a- 32:b+ 34:gL", "AuthorizeWithSelectors"),
    "AuthorizePodWebsocketUpgradeCreatePermission": _gate("35:b+"),
    "AuthorizeWithSelectors": _gate("31:a- 32:b+ 34:gL"),
    "CBORServingAndStorage": _gate("32:a-"),
    "CSIServiceAccountTokenSecrets": _gate("35:b+ 36:gL"),
    "ClearingNominatedNodeNameAfterBinding": _gate("34:a- 35:b+"),
    "ClusterTrustBundle": _gate("27:a- 33:b-"),
    "ClusterTrustBundleProjection": _gate("29:a- 33:b-", "ClusterTrustBundle"),
    "ConstrainedImpersonation": _gate("35:a- 36:b+"),
    "ContainerRestartRules": _gate("34:a- 35:b+"),
    "ComponentFlagz": _gate("32:a- 36:b+"),
    "ComponentStatusz": _gate("32:a- 36:b+"),
    "CoordinatedLeaderElection": _gate("31:a- 33:b-"),
    "CrossNamespaceVolumeDataSource": _gate("26:a-"),
    "ContainerStopSignals": _gate("33:a-"),
    "DRAAdminAccess": _gate("32:a- 34:b+ 36:gL", *_DRA),
    "DRAConsumableCapacity": _gate("34:a- 36:b+", *_DRA),
    "DRADeviceBindingConditions": _gate("34:a- 36:b+", *_DRA, "DRAResourceClaimDeviceStatus"),
    "DRADeviceTaintRules": _gate("35:a- 36:b-", "DRADeviceTaints"),
    "DRADeviceTaints": _gate("33:a- 36:b+", *_DRA),
    "DRAExtendedResource": _gate("34:a- 36:b+", *_DRA),
    "DRAListTypeAttributes": _gate("36:a-", *_DRA),
    "DRANodeAllocatableResources": _gate("36:a-", *_DRA),
    "DRAPartitionableDevices": _gate("33:a- 36:b+", *_DRA),
    "DRAPrioritizedList": _gate("33:a- 34:b+ 36:g+", *_DRA),
    # KEP-5194; upstream has no release with it yet.
    "DRAReservedForWorkloads": _gate("36:a-", *_DRA)._replace(own=True),
    "DRAResourceClaimDeviceStatus": _gate("32:a- 33:b+"),
    "DRAResourceClaimGranularStatusAuthorization": _gate("36:b+", *_DRA, "DRAResourceClaimDeviceStatus"),
    "DRAResourcePoolStatus": _gate("36:a-", *_DRA),
    "DRASchedulerFilterTimeout": _gate("34:b+", *_DRA),
    "DRAWorkloadResourceClaims": _gate("36:a-", *_DRA, "GenericWorkload"),
    "DeclarativeValidation": _gate("33:b+ 36:gL"),
    "DeclarativeValidationBeta": _gate("36:b+", "DeclarativeValidation"),
    "DeploymentReplicaSetTerminatingReplicas": _gate("33:a- 35:b+"),
    "DynamicResourceAllocation": _gate("26:a- 32:b- 34:g+ 35:gL"),
    "EnvFiles": _gate("34:a- 35:b+"),
    "ExternalServiceAccountTokenSigner": _gate("32:a- 34:b+ 36:gL"),
    "GangScheduling": _gate("35:a-", "GenericWorkload"),
    "GenericWorkload": _gate("35:a-"),
    "HPAConfigurableTolerance": _gate("33:a- 35:b+"),
    "HPAScaleToZero": _gate("16:a-"),
    "HostnameOverride": _gate("34:a- 35:b+"),
    "ImageVolume": _gate("31:a- 33:b- 35:b+ 36:gL"),
    "ImageVolumeWithDigest": _gate("35:a-", "ImageVolume"),
    "InPlacePodLevelResourcesVerticalScaling": _gate(
        "35:a- 36:b+", "InPlacePodVerticalScaling", "PodLevelResources", "NodeDeclaredFeatures"
    ),
    "InPlacePodVerticalScaling": _gate("27:a- 33:b+ 35:gL"),
    "InPlacePodVerticalScalingInitContainers": _gate("36:b+", "InPlacePodVerticalScaling", "NodeDeclaredFeatures"),
    "JobManagedBy": _gate("30:a- 32:b+ 35:gL"),
    "JobPodReplacementPolicy": _gate("28:a- 29:b+ 34:gL"),
    "KubeletPodResourcesDynamicResources": _gate("27:a- 34:b+ 36:gL"),
    "KubeletPodResourcesGet": _gate("27:a- 34:b+ 36:gL"),
    "KubeletServiceAccountTokenForCredentialProviders": _gate("33:a- 34:b+"),
    "ManifestBasedAdmissionControlConfig": _gate("36:a-"),
    "MatchLabelKeysInPodTopologySpread": _gate("25:a- 27:b+"),
    "MaxUnavailableStatefulSet": _gate("24:a- 35:b-"),
    "MutableCSINodeAllocatableCount": _gate("33:a- 34:b- 35:b+ 36:gL"),
    "MutablePVNodeAffinity": _gate("35:a-"),
    "MutablePodResourcesForSuspendedJobs": _gate("35:a- 36:b+"),
    "MutableSchedulingDirectivesForSuspendedJobs": _gate("35:a- 36:b+"),
    "MutatingAdmissionPolicy": _gate("32:a- 34:b- 36:g+"),
    "NodeDeclaredFeatures": _gate("35:a- 36:b+"),
    "NominatedNodeNameForExpectation": _gate("34:a- 35:b+"),
    "PodCertificateRequest": _gate("34:a- 35:b-", "AuthorizeNodeWithSelectors"),
    "PodDeletionCost": _gate("21:a- 22:b+"),
    "PodLevelResources": _gate("32:a- 34:b+"),
    "PodLifecycleSleepAction": _gate("29:a- 30:b+ 34:gL"),
    "PodObservedGenerationTracking": _gate("33:a- 34:b+ 35:gL"),
    "ProcMountType": _gate("12:a- 31:b- 33:b+ 36:gL", "UserNamespacesSupport"),
    "PodTopologyLabelsAdmission": _gate("33:a- 35:b+"),
    "PreferSameTrafficDistribution": _gate("33:a- 34:b+ 35:gL"),
    "RecoverVolumeExpansionFailure": _gate("23:a- 32:b+ 34:gL"),
    "RelaxedServiceNameValidation": _gate("34:a- 36:b+"),
    "ResourceHealthStatus": _gate("31:a- 36:b+", *_DRA),
    "ResourceHealthStatusMessage": _gate("36:b+", "ResourceHealthStatus"),
    "SELinuxChangePolicy": _gate("32:a- 33:b+ 36:gL"),
    "SELinuxMount": _gate("30:a- 33:b-"),
    "SELinuxMountReadWriteOncePod": _gate("25:a- 27:b- 28:b+ 36:gL"),
    "SchedulerAsyncAPICalls": _gate("34:b-"),
    "SchedulerPopFromBackoffQ": _gate("33:b+"),
    "SchedulerQueueingHints": _gate("28:b- 32:b+ 34:gL"),
    "ServiceAccountNodeAudienceRestriction": _gate("32:b- 33:b+"),
    "ServiceAccountTokenPodNodeInfo": _gate("29:a- 30:b+ 32:gL"),
    "ServiceCIDRStatusFieldWiping": _gate("0:g- 36:d+"),
    "ShardedListAndWatch": _gate("36:a-"),
    "StorageCapacityScoring": _gate("33:a-"),
    "StrictIPCIDRValidation": _gate("33:a- 36:b+"),
    "StructuredAuthenticationConfiguration": _gate("29:a- 30:b+ 34:gL"),
    "StructuredAuthenticationConfigurationJWKSMetrics": _gate("35:b+"),
    "SupplementalGroupsPolicy": _gate("31:a- 33:b+ 35:gL"),
    "TaintTolerationComparisonOperators": _gate("35:a-"),
    "TokenRequestServiceAccountUIDValidation": _gate("34:b+"),
    "TopologyAwareWorkloadScheduling": _gate("36:a-", "GenericWorkload"),
    "UserNamespacesSupport": _gate("25:a- 30:b- 33:b+ 36:gL"),
    "VolumeAttributesClass": _gate("29:a- 31:b- 34:g+ 36:gL"),
    "VolumeLimitScaling": _gate("35:a-"),
    "WatchList": _gate("27:a- 32:b+ 33:b- 34:b+"),
    "WorkloadAwarePreemption": _gate("36:a-", "GangScheduling"),
    "WorkloadWithJob": _gate("36:a-", "GenericWorkload"),
}
#: In no release of Kubernetes.
OWN_GATES: Final = frozenset(name for name, gate in GATES.items() if gate.own)
_GROUPS: Final = {"AllAlpha": "Alpha", "AllBeta": "Beta"}


_COMPONENT: Final = "kube"
#: Text after the numbers is ignored.
_NUMBERS: Final = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)")
_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


class ReleaseError(FeatureError):
    """A release that cannot be emulated."""


def parse_release(text: str) -> Release:
    """Parse a release: `1.35` (also `v1.35`, `1.35.0`, `kube=1.35`) is (1, 35), an empty text the newest.

    Raise ReleaseError in upstream's words, with the available releases.
    """
    found: Release | None = None
    for part in filter(None, (part.strip() for part in text.split(","))):
        component, equals, number = part.partition("=")
        component, number = (component.strip(), number.strip()) if equals else (_COMPONENT, part)
        release = _release(component, number)
        if component != _COMPONENT:
            raise ReleaseError(f"component not registered: {component}; {_list_gates()}")
        if found is not None:
            raise ReleaseError(
                f"duplicate version flag, {component}={_version_text(found)} and {component}={_version_text(release)};"
                f" {_list_gates()}"
            )
        found = release
    if found is None:
        return RELEASES[-1]
    if found not in RELEASES:
        raise ReleaseError(f"{_out_of_bounds(found)}; {_list_gates()}")
    return found


def _release(component: str, number: str) -> Release:
    """Return the major and minor number of a version. Patch releases cannot be emulated."""
    match = _NUMBERS.match(number)
    if match is None:
        raise ReleaseError(f"could not parse {go_quote(number)} as version; {_list_gates()}")
    parts = match[1].split(".")
    if len(parts) < 2:
        raise ReleaseError(f"illegal version string {go_quote(number)}; {_list_gates()}")
    if len(parts[0]) > 1 and parts[0].startswith("0"):
        raise ReleaseError(
            f"illegal zero-prefixed version component {go_quote(parts[0])} in {go_quote(number)}; {_list_gates()}"
        )
    values = [int(part) for part in parts]
    if len(values) > 2 and values[2]:
        raise ReleaseError(f"patch version not allowed, got: {component}={'.'.join(map(str, values))}; {_list_gates()}")
    return values[0], values[1]


def _out_of_bounds(release: Release) -> str:
    first, shown = _version_text(RELEASES[0]), _version_text(release)
    message = f"emulation version {shown} is not between [{first}, {_version_text(RELEASES[-1])}.0]"
    if release < RELEASES[0]:
        return f"[{message}, minCompatibilityVersion version {first} is not between [{first}, {shown}]]"
    return message


def _version_text(release: Release) -> str:
    return f"{release[0]}.{release[1]}"


def _list_gates() -> str:
    return f"use one of {', '.join(map(_version_text, RELEASES))}"


def parse_gates(text: str) -> dict[str, bool]:
    """Parse `A=true,kube:B=false` into a mapping. Raise FeatureError in upstream's words."""
    by_component: dict[str, list[str]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        component, colon, rest = part.partition(":")
        by_component.setdefault(component if colon else "", []).append(rest if colon else part)
    if "" in by_component and _COMPONENT in by_component:
        raise FeatureError(
            f"set {_COMPONENT} feature gates with default empty prefix or {_COMPONENT}: prefix consistently, do not"
            " mix use"
        )
    for component in by_component:
        if component not in ("", _COMPONENT):
            raise FeatureError(f"component not registered: {component}")
    return dict(_gate_setting(part) for parts in by_component.values() for part in parts)


def _gate_setting(part: str) -> tuple[str, bool]:
    name, equals, value = part.partition("=")
    name, value = name.strip(), value.strip()
    if not equals:
        raise FeatureError(f"missing bool value for {name}")
    on = _BOOLEANS.get(value)
    if on is None:
        raise FeatureError(
            f"invalid value of {name}={value}, err: strconv.ParseBool: parsing {go_quote(value)}: invalid syntax"
        )
    return name, on


class _EnabledGates(dict[str, bool]):
    """The state of each gate, by name. Every write reads several gates, so a read is one dict lookup."""

    def __missing__(self, name: str) -> bool:
        return False


class Features:
    """The gates of one server. `ignored` are set gates of upstream that change nothing here.

    Raise UnknownGateError for a gate that Kubernetes does not have.
    """

    def __init__(self, release: Release = RELEASES[-1], settings: Mapping[str, bool] | None = None) -> None:
        self.release = release
        self.settings = dict(settings or {})
        others = sorted(name for name in self.settings if name not in GATES and name not in _GROUPS)
        if unknown := [name for name in others if name not in OTHER_GATES]:
            raise UnknownGateError(unknown[0])
        self.ignored = tuple(others)
        #: Code compiled for this set of gates (`apiserver.api.schema.dropping`), by its source type.
        self.memo: dict[Any, Any] = {}
        self._on = _EnabledGates({name: stage.on for name, gate in GATES.items() if (stage := gate.at(release))})
        #: Return whether a gate is on. Gates that the release lacks are off.
        self.enabled: Callable[[str], bool] = self._on.__getitem__
        self._apply()
        self._check_needs()

    @property
    def hidden(self) -> frozenset[str]:
        """Kubedra's own gates that are off. Their fields are unknown."""
        return frozenset(name for name in OWN_GATES if not self.enabled(name))

    def enabled_names(self) -> frozenset[str]:
        """Return the gates that are on."""
        return frozenset(name for name, on in self._on.items() if on)

    def stages(self) -> dict[str, tuple[str, bool]]:
        """Return (stage, on) by gate, for metrics."""
        return {name: (stage.name, self._on[name]) for name, gate in GATES.items() if (stage := gate.at(self.release))}

    def _apply(self) -> None:
        for group, stage_name in _GROUPS.items():
            if group not in self.settings:
                continue
            for name, gate in GATES.items():
                stage = gate.at(self.release)
                if stage is not None and stage.name == stage_name and name not in self.settings and not gate.own:
                    self._on[name] = self.settings[group]
        for name, value in self.settings.items():
            if name in GATES:
                self._set(name, value)

    def _set(self, name: str, value: bool) -> None:
        stage = GATES[name].at(self.release)
        major, minor = self.release
        if stage is None:
            lowest = max((major, minor - 1), RELEASES[0])
            versions = f"emulated version {major}.{minor}, min compatibility version {lowest[0]}.{lowest[1]}"
            raise FeatureError(
                f"cannot set feature gate {name} to {str(value).lower()}, feature is PreAlpha at {versions}"
            )
        if stage.locked and stage.on != value:
            raise FeatureError(
                f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {str(stage.on).lower()}"
            )
        self._on[name] = value

    def _check_needs(self) -> None:
        """Raise one FeatureError naming every unmet dependency, sorted by gate name; upstream does not sort them."""
        problems = []
        for name in sorted(name for name, on in self._on.items() if on):
            missing = [need for need in GATES[name].needs if not self._on.get(need)]
            if missing:
                problems.append(f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]")
        if problems:
            raise FeatureError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
