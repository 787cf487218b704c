"""Security contexts of pods and containers, core/v1."""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import BOOL, INT64, STRING, ListOf, Struct, field, string
from apiserver.api.schema.limits import Limits, between

#: Limits of a user or group ID.
_ID = between(0, 2147483647)

SeccompProfileType = string("v1.SeccompProfileType", "Localhost", "RuntimeDefault", "Unconfined")
AppArmorProfileType = string("v1.AppArmorProfileType", "Localhost", "RuntimeDefault", "Unconfined")
Capability = string("v1.Capability")
SupplementalGroupsPolicy = string("v1.SupplementalGroupsPolicy", "Merge", "Strict")
PodFSGroupChangePolicy = string("v1.PodFSGroupChangePolicy", "Always", "OnRootMismatch")
PodSELinuxChangePolicy = string("v1.PodSELinuxChangePolicy")
ProcMountType = string("v1.ProcMountType", "Default", "Unmasked")

SELinuxOptions = Struct("io.k8s.api.core.v1.SELinuxOptions", lambda: (
    field("user", 1, STRING, doc="SELinux user of the label."),
    field("role", 2, STRING, doc="SELinux role of the label."),
    field("type", 3, STRING, doc="SELinux type of the label."),
    field("level", 4, STRING, doc="SELinux level of the label, such as s0:c123,c456."),
), doc="SELinuxOptions is the SELinux label of a process or of files.")
WindowsSecurityContextOptions = Struct("io.k8s.api.core.v1.WindowsSecurityContextOptions", lambda: (
    field("gmsaCredentialSpecName", 1, STRING, pointer=True,
        doc="Name of the group-managed service account's credential spec."),
    field("gmsaCredentialSpec", 2, STRING, pointer=True,
        doc="Content of the group-managed service account's credential spec; admission fills it in from the name."),
    field("runAsUserName", 3, STRING, pointer=True,
        doc="User that starts the process, with or without a domain; the image's user when not set."),
    field("hostProcess", 4, BOOL, pointer=True,
        doc="True to run as a process of the host. All containers of a pod must agree, and hostNetwork must be true as "
            "well."),
), doc="WindowsSecurityContextOptions has the settings for containers of Windows.")
SeccompProfile = Struct("io.k8s.api.core.v1.SeccompProfile", lambda: (
    field("type", 1, SeccompProfileType, omit=False, required=True,
        limits=Limits(required="type is required when seccompProfile is set"),
        doc="RuntimeDefault for the container runtime's profile, Localhost for a file on the node, Unconfined for "
            "none."),
    field("localhostProfile", 2, STRING, pointer=True,
        doc="Path of the profile, relative to the kubelet's directory of seccomp profiles; needed for Localhost, else "
            "not allowed."),
), union=("type", ("localhostProfile",)), doc="SeccompProfile limits the allowed system calls.")
AppArmorProfile = Struct("io.k8s.api.core.v1.AppArmorProfile", lambda: (
    field("type", 1, AppArmorProfileType, omit=False, required=True,
        limits=Limits(required="type is required when appArmorProfile is set"),
        doc="RuntimeDefault for the container runtime's profile, Localhost for one that is loaded on the node, "
            "Unconfined for none."),
    field("localhostProfile", 2, STRING, pointer=True, limits=Limits(length=4095),
        doc="Name of the profile that is loaded on the node; needed for Localhost, else not allowed."),
), union=("type", ("localhostProfile",)), doc="AppArmorProfile selects the AppArmor profile of a container.")
Sysctl = Struct("io.k8s.api.core.v1.Sysctl", lambda: (
    field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="sysctl"),
        doc="Name of the kernel parameter, such as net.core.somaxconn."),
    field("value", 2, STRING, omit=False, required=True, doc="Value that it is set to."),
), doc="Sysctl is a kernel parameter of a pod.")
Capabilities = Struct("io.k8s.api.core.v1.Capabilities", lambda: (
    field("add", 1, ListOf(Capability),
        doc="Capabilities that are given in addition to the runtime's own, without the prefix CAP_; ALL means every "
            "one."),
    field("drop", 2, ListOf(Capability),
        doc="Capabilities that are taken away, without the prefix CAP_; ALL means every one."),
), doc="Capabilities changes which Linux capabilities a container has.")
PodSecurityContext = Struct("io.k8s.api.core.v1.PodSecurityContext", lambda: (
    field("seLinuxOptions", 1, SELinuxOptions, pointer=True,
        doc="SELinux label of the containers; the runtime chooses one for each container when not set. Not allowed on "
            "Windows."),
    field("windowsOptions", 8, WindowsSecurityContextOptions, pointer=True,
        doc="Settings for Windows, used where a container has none of its own. Not allowed on Linux."),
    field("runAsUser", 2, INT64, pointer=True, limits=_ID,
        doc="User id that processes start with; the image's user when not set. Not allowed on Windows."),
    field("runAsGroup", 6, INT64, pointer=True, limits=_ID,
        doc="Primary group id that processes start with; the runtime's choice when not set. Not allowed on Windows."),
    field("runAsNonRoot", 3, BOOL, pointer=True, doc="True to refuse to start a container that would run as user 0."),
    field("supplementalGroups", 4, ListOf(INT64), limits=_ID,
        doc="Further group ids of the first process of each container. Not allowed on Windows."),
    field("supplementalGroupsPolicy", 12, SupplementalGroupsPolicy, pointer=True,
        gate=gated("SupplementalGroupsPolicy", "object"),
        doc="Merge (the default) adds the groups that the image gives the user, Strict takes only those named in the "
            "pod."),
    field("fsGroup", 5, INT64, pointer=True, limits=_ID,
        doc="Group id that owns the files of volumes that support it; processes get the group, too. Not allowed on "
            "Windows."),
    field("sysctls", 7, ListOf(Sysctl), doc="Kernel parameters that are set for the pod. Not allowed on Windows."),
    field("fsGroupChangePolicy", 9, PodFSGroupChangePolicy, pointer=True,
        doc="When files get their owning group: Always (the default) at every mount, OnRootMismatch only if the "
            "volume's root is not right."),
    field("seccompProfile", 10, SeccompProfile, pointer=True,
        doc="Seccomp profile of containers without one of their own. Not allowed on Windows."),
    field("appArmorProfile", 11, AppArmorProfile, pointer=True,
        doc="AppArmor profile of containers without one of their own. Not allowed on Windows."),
    field("seLinuxChangePolicy", 13, PodSELinuxChangePolicy, pointer=True, gate="SELinuxChangePolicy",
        doc="How volumes get their SELinux label: MountOption while mounting where possible (the default), Recursive "
            "file by file."),
), doc="PodSecurityContext has security settings for all containers of a pod and for its volumes.")
SecurityContext = Struct("io.k8s.api.core.v1.SecurityContext", lambda: (
    field("capabilities", 1, Capabilities, pointer=True,
        doc="Linux capabilities that are added and dropped. Not allowed on Windows."),
    field("privileged", 2, BOOL, pointer=True,
        doc="True for a container with nearly the rights of root on the host; false when not set. Not allowed on "
            "Windows."),
    field("seLinuxOptions", 3, SELinuxOptions, pointer=True,
        doc="SELinux label of the container, instead of the pod's. Not allowed on Windows."),
    field("windowsOptions", 10, WindowsSecurityContextOptions, pointer=True,
        doc="Settings for Windows, instead of the pod's. Not allowed on Linux."),
    field("runAsUser", 4, INT64, pointer=True, limits=_ID,
        doc="User id that the process starts with; the pod's, or else the image's when not set. Not allowed on "
            "Windows."),
    field("runAsGroup", 8, INT64, pointer=True, limits=_ID,
        doc="Primary group id that the process starts with; the pod's when not set. Not allowed on Windows."),
    field("runAsNonRoot", 5, BOOL, pointer=True,
        doc="True to refuse to start the container if it would run as user 0; the pod's setting when not set."),
    field("readOnlyRootFilesystem", 6, BOOL, pointer=True,
        doc="True to mount the root filesystem read-only; false when not set. Not allowed on Windows."),
    field("allowPrivilegeEscalation", 7, BOOL, pointer=True,
        doc="False to keep processes from gaining more rights than their parent; always true for privileged "
            "containers."),
    field("procMount", 9, ProcMountType, pointer=True, gate=gated("ProcMountType", "rule"),
        doc="How /proc is mounted: Default hides sensitive paths, Unmasked does not and needs a user namespace."),
    field("seccompProfile", 11, SeccompProfile, pointer=True,
        doc="System calls that the container may use, instead of the pod's profile. Not allowed on Windows."),
    field("appArmorProfile", 12, AppArmorProfile, pointer=True,
        doc="AppArmor profile of the container, instead of the pod's. Not allowed on Windows."),
), doc="SecurityContext has security settings of one container; each overrides the pod's setting.")
