"""Security contexts of pods and containers, core/v1."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT64, STRING, ListOf, Struct, field, string

SeccompProfileType = string("v1.SeccompProfileType", "Localhost", "RuntimeDefault", "Unconfined")
AppArmorProfileType = string("v1.AppArmorProfileType", "Localhost", "RuntimeDefault", "Unconfined")
Capability = string("v1.Capability")
SupplementalGroupsPolicy = string("v1.SupplementalGroupsPolicy", "Merge", "Strict")
PodFSGroupChangePolicy = string("v1.PodFSGroupChangePolicy", "Always", "OnRootMismatch")
PodSELinuxChangePolicy = string("v1.PodSELinuxChangePolicy")
ProcMountType = string("v1.ProcMountType", "Default", "Unmasked")

SELinuxOptions = Struct("io.k8s.api.core.v1.SELinuxOptions", lambda: (
    field("user", 1, STRING),
    field("role", 2, STRING),
    field("type", 3, STRING),
    field("level", 4, STRING),
))
WindowsSecurityContextOptions = Struct("io.k8s.api.core.v1.WindowsSecurityContextOptions", lambda: (
    field("gmsaCredentialSpecName", 1, STRING, pointer=True),
    field("gmsaCredentialSpec", 2, STRING, pointer=True),
    field("runAsUserName", 3, STRING, pointer=True),
    field("hostProcess", 4, BOOL, pointer=True),
))
SeccompProfile = Struct("io.k8s.api.core.v1.SeccompProfile", lambda: (
    field("type", 1, SeccompProfileType, omit=False, required=True),
    field("localhostProfile", 2, STRING, pointer=True),
))
AppArmorProfile = Struct("io.k8s.api.core.v1.AppArmorProfile", lambda: (
    field("type", 1, AppArmorProfileType, omit=False, required=True),
    field("localhostProfile", 2, STRING, pointer=True),
))
Sysctl = Struct("io.k8s.api.core.v1.Sysctl", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("value", 2, STRING, omit=False, required=True),
))
Capabilities = Struct("io.k8s.api.core.v1.Capabilities", lambda: (
    field("add", 1, ListOf(Capability)),
    field("drop", 2, ListOf(Capability)),
))
PodSecurityContext = Struct("io.k8s.api.core.v1.PodSecurityContext", lambda: (
    field("seLinuxOptions", 1, SELinuxOptions, pointer=True),
    field("windowsOptions", 8, WindowsSecurityContextOptions, pointer=True),
    field("runAsUser", 2, INT64, pointer=True),
    field("runAsGroup", 6, INT64, pointer=True),
    field("runAsNonRoot", 3, BOOL, pointer=True),
    field("supplementalGroups", 4, ListOf(INT64)),
    field("supplementalGroupsPolicy", 12, SupplementalGroupsPolicy, pointer=True, gate="SupplementalGroupsPolicy"),
    field("fsGroup", 5, INT64, pointer=True),
    field("sysctls", 7, ListOf(Sysctl)),
    field("fsGroupChangePolicy", 9, PodFSGroupChangePolicy, pointer=True),
    field("seccompProfile", 10, SeccompProfile, pointer=True),
    field("appArmorProfile", 11, AppArmorProfile, pointer=True),
    field("seLinuxChangePolicy", 13, PodSELinuxChangePolicy, pointer=True, gate="SELinuxChangePolicy"),
))
SecurityContext = Struct("io.k8s.api.core.v1.SecurityContext", lambda: (
    field("capabilities", 1, Capabilities, pointer=True),
    field("privileged", 2, BOOL, pointer=True),
    field("seLinuxOptions", 3, SELinuxOptions, pointer=True),
    field("windowsOptions", 10, WindowsSecurityContextOptions, pointer=True),
    field("runAsUser", 4, INT64, pointer=True),
    field("runAsGroup", 8, INT64, pointer=True),
    field("runAsNonRoot", 5, BOOL, pointer=True),
    field("readOnlyRootFilesystem", 6, BOOL, pointer=True),
    field("allowPrivilegeEscalation", 7, BOOL, pointer=True),
    field("procMount", 9, ProcMountType, pointer=True),
    field("seccompProfile", 11, SeccompProfile, pointer=True),
    field("appArmorProfile", 12, AppArmorProfile, pointer=True),
))
