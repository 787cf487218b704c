"""Volumes of core/v1 and all their sources."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, INT64, QUANTITY, STRING, ListOf, MapOf, Struct, field, string
from apiserver.api.types.core.containers import PullPolicy
from apiserver.api.types.core.references import (
    KeyToPath,
    LocalObjectReference,
    ObjectFieldSelector,
    ResourceFieldSelector,
    TypedLocalObjectReference,
    TypedObjectReference,
)
from apiserver.api.types.core.resources import VolumeResourceRequirements
from apiserver.api.types.meta import LabelSelector, ObjectMeta

AzureDataDiskCachingMode = string("v1.AzureDataDiskCachingMode", "None", "ReadOnly", "ReadWrite")
AzureDataDiskKind = string("v1.AzureDataDiskKind", "Dedicated", "Managed", "Shared")
StorageMedium = string("v1.StorageMedium")
PersistentVolumeAccessMode = string("v1.PersistentVolumeAccessMode", "ReadOnlyMany", "ReadWriteMany",
    "ReadWriteOnce", "ReadWriteOncePod")
PersistentVolumeMode = string("v1.PersistentVolumeMode", "Block", "Filesystem")
HostPathType = string("v1.HostPathType", "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File",
    "FileOrCreate", "Socket")

AWSElasticBlockStoreVolumeSource = Struct("io.k8s.api.core.v1.AWSElasticBlockStoreVolumeSource", lambda: (
    field("volumeID", 1, STRING, omit=False, required=True),
    field("fsType", 2, STRING),
    field("partition", 3, INT32),
    field("readOnly", 4, BOOL),
))
AzureDiskVolumeSource = Struct("io.k8s.api.core.v1.AzureDiskVolumeSource", lambda: (
    field("diskName", 1, STRING, omit=False, required=True),
    field("diskURI", 2, STRING, omit=False, required=True),
    field("cachingMode", 3, AzureDataDiskCachingMode, pointer=True, default="ReadWrite"),
    field("fsType", 4, STRING, pointer=True, default="ext4"),
    field("readOnly", 5, BOOL, pointer=True, default=False),
    field("kind", 6, AzureDataDiskKind, pointer=True, default="Shared"),
))
AzureFileVolumeSource = Struct("io.k8s.api.core.v1.AzureFileVolumeSource", lambda: (
    field("secretName", 1, STRING, omit=False, required=True),
    field("shareName", 2, STRING, omit=False, required=True),
    field("readOnly", 3, BOOL),
))
CSIVolumeSource = Struct("io.k8s.api.core.v1.CSIVolumeSource", lambda: (
    field("driver", 1, STRING, omit=False, required=True),
    field("readOnly", 2, BOOL, pointer=True),
    field("fsType", 3, STRING, pointer=True),
    field("volumeAttributes", 4, MapOf(STRING)),
    field("nodePublishSecretRef", 5, LocalObjectReference, pointer=True),
))
CephFSVolumeSource = Struct("io.k8s.api.core.v1.CephFSVolumeSource", lambda: (
    field("monitors", 1, ListOf(STRING), omit=False, required=True),
    field("path", 2, STRING),
    field("user", 3, STRING),
    field("secretFile", 4, STRING),
    field("secretRef", 5, LocalObjectReference, pointer=True),
    field("readOnly", 6, BOOL),
))
CinderVolumeSource = Struct("io.k8s.api.core.v1.CinderVolumeSource", lambda: (
    field("volumeID", 1, STRING, omit=False, required=True),
    field("fsType", 2, STRING),
    field("readOnly", 3, BOOL),
    field("secretRef", 4, LocalObjectReference, pointer=True),
))
ClusterTrustBundleProjection = Struct("io.k8s.api.core.v1.ClusterTrustBundleProjection", lambda: (
    field("name", 1, STRING, pointer=True),
    field("signerName", 2, STRING, pointer=True),
    field("labelSelector", 3, LabelSelector, pointer=True),
    field("optional", 5, BOOL, pointer=True),
    field("path", 4, STRING, omit=False, required=True),
))
ConfigMapProjection = Struct("io.k8s.api.core.v1.ConfigMapProjection", lambda: (
    field("", 1, LocalObjectReference, inline=True),
    field("items", 2, ListOf(KeyToPath)),
    field("optional", 4, BOOL, pointer=True),
))
ConfigMapVolumeSource = Struct("io.k8s.api.core.v1.ConfigMapVolumeSource", lambda: (
    field("", 1, LocalObjectReference, inline=True),
    field("items", 2, ListOf(KeyToPath)),
    field("defaultMode", 3, INT32, pointer=True),
    field("optional", 4, BOOL, pointer=True),
))
DownwardAPIVolumeFile = Struct("io.k8s.api.core.v1.DownwardAPIVolumeFile", lambda: (
    field("path", 1, STRING, omit=False, required=True),
    field("fieldRef", 2, ObjectFieldSelector, pointer=True),
    field("resourceFieldRef", 3, ResourceFieldSelector, pointer=True),
    field("mode", 4, INT32, pointer=True),
))
DownwardAPIProjection = Struct("io.k8s.api.core.v1.DownwardAPIProjection", lambda: (
    field("items", 1, ListOf(DownwardAPIVolumeFile)),
))
DownwardAPIVolumeSource = Struct("io.k8s.api.core.v1.DownwardAPIVolumeSource", lambda: (
    field("items", 1, ListOf(DownwardAPIVolumeFile)),
    field("defaultMode", 2, INT32, pointer=True),
))
EmptyDirVolumeSource = Struct("io.k8s.api.core.v1.EmptyDirVolumeSource", lambda: (
    field("medium", 1, StorageMedium),
    field("sizeLimit", 2, QUANTITY, pointer=True),
))
PersistentVolumeClaimSpec = Struct("io.k8s.api.core.v1.PersistentVolumeClaimSpec", lambda: (
    field("accessModes", 1, ListOf(PersistentVolumeAccessMode)),
    field("selector", 4, LabelSelector, pointer=True),
    field("resources", 2, VolumeResourceRequirements, omit=False),
    field("volumeName", 3, STRING),
    field("storageClassName", 5, STRING, pointer=True),
    field("volumeMode", 6, PersistentVolumeMode, pointer=True),
    field("dataSource", 7, TypedLocalObjectReference, pointer=True),
    field("dataSourceRef", 8, TypedObjectReference, pointer=True),
    field("volumeAttributesClassName", 9, STRING, pointer=True, gate="VolumeAttributesClass"),
))
PersistentVolumeClaimTemplate = Struct("io.k8s.api.core.v1.PersistentVolumeClaimTemplate", lambda: (
    field("metadata", 1, ObjectMeta, omit=False),
    field("spec", 2, PersistentVolumeClaimSpec, omit=False, required=True),
))
EphemeralVolumeSource = Struct("io.k8s.api.core.v1.EphemeralVolumeSource", lambda: (
    field("volumeClaimTemplate", 1, PersistentVolumeClaimTemplate, pointer=True),
))
FCVolumeSource = Struct("io.k8s.api.core.v1.FCVolumeSource", lambda: (
    field("targetWWNs", 1, ListOf(STRING)),
    field("lun", 2, INT32, pointer=True),
    field("fsType", 3, STRING),
    field("readOnly", 4, BOOL),
    field("wwids", 5, ListOf(STRING)),
))
FlexVolumeSource = Struct("io.k8s.api.core.v1.FlexVolumeSource", lambda: (
    field("driver", 1, STRING, omit=False, required=True),
    field("fsType", 2, STRING),
    field("secretRef", 3, LocalObjectReference, pointer=True),
    field("readOnly", 4, BOOL),
    field("options", 5, MapOf(STRING)),
))
FlockerVolumeSource = Struct("io.k8s.api.core.v1.FlockerVolumeSource", lambda: (
    field("datasetName", 1, STRING),
    field("datasetUUID", 2, STRING),
))
GCEPersistentDiskVolumeSource = Struct("io.k8s.api.core.v1.GCEPersistentDiskVolumeSource", lambda: (
    field("pdName", 1, STRING, omit=False, required=True),
    field("fsType", 2, STRING),
    field("partition", 3, INT32),
    field("readOnly", 4, BOOL),
))
GitRepoVolumeSource = Struct("io.k8s.api.core.v1.GitRepoVolumeSource", lambda: (
    field("repository", 1, STRING, omit=False, required=True),
    field("revision", 2, STRING),
    field("directory", 3, STRING),
))
GlusterfsVolumeSource = Struct("io.k8s.api.core.v1.GlusterfsVolumeSource", lambda: (
    field("endpoints", 1, STRING, omit=False, required=True),
    field("path", 2, STRING, omit=False, required=True),
    field("readOnly", 3, BOOL),
))
HostPathVolumeSource = Struct("io.k8s.api.core.v1.HostPathVolumeSource", lambda: (
    field("path", 1, STRING, omit=False, required=True),
    field("type", 2, HostPathType, pointer=True),
))
ISCSIVolumeSource = Struct("io.k8s.api.core.v1.ISCSIVolumeSource", lambda: (
    field("targetPortal", 1, STRING, omit=False, required=True),
    field("iqn", 2, STRING, omit=False, required=True),
    field("lun", 3, INT32, omit=False, required=True),
    field("iscsiInterface", 4, STRING, default="default"),
    field("fsType", 5, STRING),
    field("readOnly", 6, BOOL),
    field("portals", 7, ListOf(STRING)),
    field("chapAuthDiscovery", 8, BOOL),
    field("chapAuthSession", 11, BOOL),
    field("secretRef", 10, LocalObjectReference, pointer=True),
    field("initiatorName", 12, STRING, pointer=True),
))
ImageVolumeSource = Struct("io.k8s.api.core.v1.ImageVolumeSource", lambda: (
    field("reference", 1, STRING),
    field("pullPolicy", 2, PullPolicy),
))
NFSVolumeSource = Struct("io.k8s.api.core.v1.NFSVolumeSource", lambda: (
    field("server", 1, STRING, omit=False, required=True),
    field("path", 2, STRING, omit=False, required=True),
    field("readOnly", 3, BOOL),
))
PersistentVolumeClaimVolumeSource = Struct("io.k8s.api.core.v1.PersistentVolumeClaimVolumeSource", lambda: (
    field("claimName", 1, STRING, omit=False, required=True),
    field("readOnly", 2, BOOL),
))
PhotonPersistentDiskVolumeSource = Struct("io.k8s.api.core.v1.PhotonPersistentDiskVolumeSource", lambda: (
    field("pdID", 1, STRING, omit=False, required=True),
    field("fsType", 2, STRING),
))
PodCertificateProjection = Struct("io.k8s.api.core.v1.PodCertificateProjection", lambda: (
    field("signerName", 1, STRING, required=True),
    field("keyType", 2, STRING, required=True),
    field("maxExpirationSeconds", 3, INT32, pointer=True),
    field("credentialBundlePath", 4, STRING),
    field("keyPath", 5, STRING),
    field("certificateChainPath", 6, STRING),
    field("userAnnotations", 7, MapOf(STRING)),
))
PortworxVolumeSource = Struct("io.k8s.api.core.v1.PortworxVolumeSource", lambda: (
    field("volumeID", 1, STRING, omit=False, required=True),
    field("fsType", 2, STRING),
    field("readOnly", 3, BOOL),
))
SecretProjection = Struct("io.k8s.api.core.v1.SecretProjection", lambda: (
    field("", 1, LocalObjectReference, inline=True),
    field("items", 2, ListOf(KeyToPath)),
    field("optional", 4, BOOL, pointer=True),
))
ServiceAccountTokenProjection = Struct("io.k8s.api.core.v1.ServiceAccountTokenProjection", lambda: (
    field("audience", 1, STRING),
    field("expirationSeconds", 2, INT64, pointer=True),
    field("path", 3, STRING, omit=False, required=True),
))
VolumeProjection = Struct("io.k8s.api.core.v1.VolumeProjection", lambda: (
    field("secret", 1, SecretProjection, pointer=True),
    field("downwardAPI", 2, DownwardAPIProjection, pointer=True),
    field("configMap", 3, ConfigMapProjection, pointer=True),
    field("serviceAccountToken", 4, ServiceAccountTokenProjection, pointer=True),
    field("clusterTrustBundle", 5, ClusterTrustBundleProjection, pointer=True, gate="ClusterTrustBundleProjection"),
    field("podCertificate", 6, PodCertificateProjection, pointer=True, gate="PodCertificateProjection"),
))
ProjectedVolumeSource = Struct("io.k8s.api.core.v1.ProjectedVolumeSource", lambda: (
    field("sources", 1, ListOf(VolumeProjection), omit=False),
    field("defaultMode", 2, INT32, pointer=True),
))
QuobyteVolumeSource = Struct("io.k8s.api.core.v1.QuobyteVolumeSource", lambda: (
    field("registry", 1, STRING, omit=False, required=True),
    field("volume", 2, STRING, omit=False, required=True),
    field("readOnly", 3, BOOL),
    field("user", 4, STRING),
    field("group", 5, STRING),
    field("tenant", 6, STRING),
))
RBDVolumeSource = Struct("io.k8s.api.core.v1.RBDVolumeSource", lambda: (
    field("monitors", 1, ListOf(STRING), omit=False, required=True),
    field("image", 2, STRING, omit=False, required=True),
    field("fsType", 3, STRING),
    field("pool", 4, STRING, default="rbd"),
    field("user", 5, STRING, default="admin"),
    field("keyring", 6, STRING, default="/etc/ceph/keyring"),
    field("secretRef", 7, LocalObjectReference, pointer=True),
    field("readOnly", 8, BOOL),
))
ScaleIOVolumeSource = Struct("io.k8s.api.core.v1.ScaleIOVolumeSource", lambda: (
    field("gateway", 1, STRING, omit=False, required=True),
    field("system", 2, STRING, omit=False, required=True),
    field("secretRef", 3, LocalObjectReference, omit=False, pointer=True, required=True),
    field("sslEnabled", 4, BOOL),
    field("protectionDomain", 5, STRING),
    field("storagePool", 6, STRING),
    field("storageMode", 7, STRING, default="ThinProvisioned"),
    field("volumeName", 8, STRING),
    field("fsType", 9, STRING, default="xfs"),
    field("readOnly", 10, BOOL),
))
SecretVolumeSource = Struct("io.k8s.api.core.v1.SecretVolumeSource", lambda: (
    field("secretName", 1, STRING),
    field("items", 2, ListOf(KeyToPath)),
    field("defaultMode", 3, INT32, pointer=True),
    field("optional", 4, BOOL, pointer=True),
))
StorageOSVolumeSource = Struct("io.k8s.api.core.v1.StorageOSVolumeSource", lambda: (
    field("volumeName", 1, STRING),
    field("volumeNamespace", 2, STRING),
    field("fsType", 3, STRING),
    field("readOnly", 4, BOOL),
    field("secretRef", 5, LocalObjectReference, pointer=True),
))
VsphereVirtualDiskVolumeSource = Struct("io.k8s.api.core.v1.VsphereVirtualDiskVolumeSource", lambda: (
    field("volumePath", 1, STRING, omit=False, required=True),
    field("fsType", 2, STRING),
    field("storagePolicyName", 3, STRING),
    field("storagePolicyID", 4, STRING),
))
VolumeSource = Struct("io.k8s.api.core.v1.VolumeSource", lambda: (
    field("hostPath", 1, HostPathVolumeSource, pointer=True),
    field("emptyDir", 2, EmptyDirVolumeSource, pointer=True),
    field("gcePersistentDisk", 3, GCEPersistentDiskVolumeSource, pointer=True),
    field("awsElasticBlockStore", 4, AWSElasticBlockStoreVolumeSource, pointer=True),
    field("gitRepo", 5, GitRepoVolumeSource, pointer=True),
    field("secret", 6, SecretVolumeSource, pointer=True),
    field("nfs", 7, NFSVolumeSource, pointer=True),
    field("iscsi", 8, ISCSIVolumeSource, pointer=True),
    field("glusterfs", 9, GlusterfsVolumeSource, pointer=True),
    field("persistentVolumeClaim", 10, PersistentVolumeClaimVolumeSource, pointer=True),
    field("rbd", 11, RBDVolumeSource, pointer=True),
    field("flexVolume", 12, FlexVolumeSource, pointer=True),
    field("cinder", 13, CinderVolumeSource, pointer=True),
    field("cephfs", 14, CephFSVolumeSource, pointer=True),
    field("flocker", 15, FlockerVolumeSource, pointer=True),
    field("downwardAPI", 16, DownwardAPIVolumeSource, pointer=True),
    field("fc", 17, FCVolumeSource, pointer=True),
    field("azureFile", 18, AzureFileVolumeSource, pointer=True),
    field("configMap", 19, ConfigMapVolumeSource, pointer=True),
    field("vsphereVolume", 20, VsphereVirtualDiskVolumeSource, pointer=True),
    field("quobyte", 21, QuobyteVolumeSource, pointer=True),
    field("azureDisk", 22, AzureDiskVolumeSource, pointer=True),
    field("photonPersistentDisk", 23, PhotonPersistentDiskVolumeSource, pointer=True),
    field("projected", 26, ProjectedVolumeSource, pointer=True),
    field("portworxVolume", 24, PortworxVolumeSource, pointer=True),
    field("scaleIO", 25, ScaleIOVolumeSource, pointer=True),
    field("storageos", 27, StorageOSVolumeSource, pointer=True),
    field("csi", 28, CSIVolumeSource, pointer=True),
    field("ephemeral", 29, EphemeralVolumeSource, pointer=True),
    field("image", 30, ImageVolumeSource, pointer=True),
))
Volume = Struct("io.k8s.api.core.v1.Volume", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("", 2, VolumeSource, inline=True),
))
