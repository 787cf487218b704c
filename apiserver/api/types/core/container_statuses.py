"""Reported containers of core/v1: states, resources, users, volumes."""

from __future__ import annotations

from apiserver.api.features.gated_fields import EVERY_GATE, gated
from apiserver.api.schema.language import BOOL, INT32, INT64, STRING, TIME, ListOf, Struct, field, string
from apiserver.api.schema.limits import Limits, between
from apiserver.api.types.core.containers import RecursiveReadOnlyMode, ResourceName, Signal
from apiserver.api.types.core.resources import ResourceList, ResourceRequirements

ResourceID = string("v1.ResourceID")
ResourceHealthStatus = string("v1.ResourceHealthStatus")
#: Limits of a user or group id.
_ID = between(0, 2**31 - 1)

ContainerStateWaiting = Struct("io.k8s.api.core.v1.ContainerStateWaiting", lambda: (
    field("reason", 1, STRING,
        doc="Reason for waiting as one word, such as ContainerCreating or CrashLoopBackOff."),
    field("message", 2, STRING, doc="Reason for waiting as text, for people."),
), doc="ContainerStateWaiting is the state of a container that is not started yet.")
ContainerStateRunning = Struct("io.k8s.api.core.v1.ContainerStateRunning", lambda: (
    field("startedAt", 1, TIME, omit=False, doc="When the container was started."),
), doc="ContainerStateRunning is the state of a container that runs.")
ContainerStateTerminated = Struct("io.k8s.api.core.v1.ContainerStateTerminated", lambda: (
    field("exitCode", 1, INT32, omit=False, required=True, doc="Exit code of the container's process."),
    field("signal", 2, INT32, doc="Number of the signal that ended the container; 0 when none did."),
    field("reason", 3, STRING, doc="Reason for the end as one word, such as Completed, Error or OOMKilled."),
    field("message", 4, STRING, doc="Last message of the container."),
    field("startedAt", 5, TIME, omit=False, doc="When the container had been started."),
    field("finishedAt", 6, TIME, omit=False, doc="When the container ended."),
    field("containerID", 7, STRING, doc="Identity of the ended container, as type://id."),
), doc="ContainerStateTerminated is the state of a container that has ended.")
ContainerState = Struct("io.k8s.api.core.v1.ContainerState", lambda: (
    field("waiting", 1, ContainerStateWaiting, pointer=True, doc="Set while the container waits to start."),
    field("running", 2, ContainerStateRunning, pointer=True, doc="Set while the container runs."),
    field("terminated", 3, ContainerStateTerminated, pointer=True, doc="Set when the container has ended."),
), doc="ContainerState is the state of a container; exactly one field is set, and none means waiting.")
ImageVolumeStatus = Struct("io.k8s.api.core.v1.ImageVolumeStatus", lambda: (
    field("imageRef", 1, STRING, required=True,
        doc="Reference of the mounted image, with its digest; at most 256 characters."),
), doc="ImageVolumeStatus reports on a volume that is an image.")
VolumeStatus = Struct("io.k8s.api.core.v1.VolumeStatus", lambda: (
    field("image", 1, ImageVolumeStatus, pointer=True, doc="Report on a volume that is an image."),
), doc="VolumeStatus reports on a mounted volume, by its type.")
VolumeMountStatus = Struct("io.k8s.api.core.v1.VolumeMountStatus", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of the volume."),
    field("mountPath", 2, STRING, omit=False, required=True, doc="Where the volume is mounted in the container."),
    field("readOnly", 3, BOOL, doc="True when the volume is mounted read-only."),
    field("recursiveReadOnly", 4, RecursiveReadOnlyMode, pointer=True,
        doc="Enabled when mounts below are read-only as well, else Disabled; not set for mounts that can be written."),
    field("volumeStatus", 5, VolumeStatus, pointer=True, gate="ImageVolumeWithDigest", doc="More about the volume."),
), doc="VolumeMountStatus reports how a volume is mounted.")
LinuxContainerUser = Struct("io.k8s.api.core.v1.LinuxContainerUser", lambda: (
    field("uid", 1, INT64, omit=False, required=True, limits=_ID,
        doc="User id that the first process started with."),
    field("gid", 2, INT64, omit=False, required=True, limits=_ID,
        doc="Primary group id that the first process started with."),
    field("supplementalGroups", 3, ListOf(INT64), limits=_ID,
        doc="Further group ids that the first process started with."),
), doc="LinuxContainerUser is the identity of a container's first process on Linux.")
ContainerUser = Struct("io.k8s.api.core.v1.ContainerUser", lambda: (
    field("linux", 1, LinuxContainerUser, pointer=True, doc="The identity on Linux."),
), doc="ContainerUser is the identity of a container's first process.")
ResourceHealth = Struct("io.k8s.api.core.v1.ResourceHealth", lambda: (
    field("resourceID", 1, ResourceID, omit=False, required=True,
        doc="Identity of the device: for DRA its first CDI name or driver/pool/device, otherwise the device plugin's "
            "id."),
    field("health", 2, ResourceHealthStatus,
        limits=Limits(values=("Healthy", "Unhealthy", "Unknown"), empty=True), doc="Healthy, Unhealthy or Unknown."),
    field("message", 6, STRING, pointer=True, gate="ResourceHealthStatusMessage",
        limits=Limits(required="must be non-empty if specified", length=1024),
        doc="More about the health, as text for people."),
), doc="ResourceHealth is the health of one device.")
ResourceStatus = Struct("io.k8s.api.core.v1.ResourceStatus", lambda: (
    field("name", 1, ResourceName, omit=False, required=True,
        doc="The resource: its name for device plugins, claim:NAME/REQUEST for DRA."),
    field("resources", 2, ListOf(ResourceHealth, "map", ("resourceID",)),
        doc="Health of each device, by its identity."),
), doc="ResourceStatus has the health of the devices of one resource of a container.")
ContainerStatus = Struct("io.k8s.api.core.v1.ContainerStatus", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of the container in the spec."),
    field("state", 2, ContainerState, omit=False, doc="Current state of the container."),
    field("lastState", 3, ContainerState, omit=False,
        doc="How the container ended before its last restart; empty when it was never restarted."),
    field("ready", 4, BOOL, omit=False, required=True,
        doc="True when the container has passed its readiness probe, or runs and has none."),
    field("restartCount", 5, INT32, omit=False, required=True,
        doc="How often the container was restarted, as far as the node can tell from the containers it still has."),
    field("image", 6, STRING, omit=False, required=True,
        doc="Image that the container runs, which may be another name than the spec's."),
    field("imageID", 7, STRING, omit=False, required=True,
        doc="Identity of the image that the container runs, usually with its digest."),
    field("containerID", 8, STRING, doc="Identity of the container, as type://id."),
    field("started", 9, BOOL, pointer=True,
        doc="True when the container has passed its startup probe, or runs and has none."),
    field("allocatedResources", 10, ResourceList, gate=gated("InPlacePodVerticalScaling", "object", counts=False),
        doc="Amounts that the node has set aside for the container; after a resize they may differ from the spec."),
    field("resources", 11, ResourceRequirements, pointer=True,
        gate=gated("InPlacePodVerticalScaling", "object", counts=False), ungated=EVERY_GATE,
        doc="Requests and limits that are in force for the running container."),
    field("volumeMounts", 12, ListOf(VolumeMountStatus, "map", ("mountPath",), merge_key="mountPath"),
        doc="How the container's volumes are mounted."),
    field("user", 13, ContainerUser, pointer=True, gate=gated("SupplementalGroupsPolicy", "object", counts=False),
        doc="Identity of the container's first process."),
    field("allocatedResourcesStatus", 14, ListOf(ResourceStatus, "map", ("name",), merge_key="name"),
        gate="ResourceHealthStatus", doc="Health of the devices that the container has."),
    field("stopSignal", 15, Signal, pointer=True, gate=gated("ContainerStopSignals", "never"),
        doc="Signal with which the container is stopped."),
), doc="ContainerStatus reports on one container of a pod.")
