"""Sources of persistent volumes of core/v1, where they differ from those that pods name: secrets lie in a namespace of
their own.
"""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, STRING, ListOf, MapOf, Struct, field
from apiserver.api.types.core.references import ObjectReference
from apiserver.api.types.core.volumes import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    FCVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    HostPathVolumeSource,
    NFSVolumeSource,
    PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource,
    QuobyteVolumeSource,
    VsphereVirtualDiskVolumeSource,
)

SecretReference = Struct("io.k8s.api.core.v1.SecretReference", lambda: (
    field("name", 1, STRING),
    field("namespace", 2, STRING),
), atomic=True)
AzureFilePersistentVolumeSource = Struct("io.k8s.api.core.v1.AzureFilePersistentVolumeSource", lambda: (
    field("secretName", 1, STRING, omit=False, required=True),
    field("shareName", 2, STRING, omit=False, required=True),
    field("readOnly", 3, BOOL),
    field("secretNamespace", 4, STRING, omit=False, pointer=True),
))
CephFSPersistentVolumeSource = Struct("io.k8s.api.core.v1.CephFSPersistentVolumeSource", lambda: (
    field("monitors", 1, ListOf(STRING), omit=False, required=True),
    field("path", 2, STRING),
    field("user", 3, STRING),
    field("secretFile", 4, STRING),
    field("secretRef", 5, SecretReference, pointer=True),
    field("readOnly", 6, BOOL),
))
CinderPersistentVolumeSource = Struct("io.k8s.api.core.v1.CinderPersistentVolumeSource", lambda: (
    field("volumeID", 1, STRING, omit=False, required=True),
    field("fsType", 2, STRING),
    field("readOnly", 3, BOOL),
    field("secretRef", 4, SecretReference, pointer=True),
))
CSIPersistentVolumeSource = Struct("io.k8s.api.core.v1.CSIPersistentVolumeSource", lambda: (
    field("driver", 1, STRING, omit=False, required=True),
    field("volumeHandle", 2, STRING, omit=False, required=True),
    field("readOnly", 3, BOOL),
    field("fsType", 4, STRING),
    field("volumeAttributes", 5, MapOf(STRING)),
    field("controllerPublishSecretRef", 6, SecretReference, pointer=True),
    field("nodeStageSecretRef", 7, SecretReference, pointer=True),
    field("nodePublishSecretRef", 8, SecretReference, pointer=True),
    field("controllerExpandSecretRef", 9, SecretReference, pointer=True),
    field("nodeExpandSecretRef", 10, SecretReference, pointer=True),
))
FlexPersistentVolumeSource = Struct("io.k8s.api.core.v1.FlexPersistentVolumeSource", lambda: (
    field("driver", 1, STRING, omit=False, required=True),
    field("fsType", 2, STRING),
    field("secretRef", 3, SecretReference, pointer=True),
    field("readOnly", 4, BOOL),
    field("options", 5, MapOf(STRING)),
))
GlusterfsPersistentVolumeSource = Struct("io.k8s.api.core.v1.GlusterfsPersistentVolumeSource", lambda: (
    field("endpoints", 1, STRING, omit=False, required=True),
    field("path", 2, STRING, omit=False, required=True),
    field("readOnly", 3, BOOL),
    field("endpointsNamespace", 4, STRING, pointer=True),
))
ISCSIPersistentVolumeSource = Struct("io.k8s.api.core.v1.ISCSIPersistentVolumeSource", lambda: (
    field("targetPortal", 1, STRING, omit=False, required=True),
    field("iqn", 2, STRING, omit=False, required=True),
    field("lun", 3, INT32, omit=False, required=True),
    field("iscsiInterface", 4, STRING, default="default"),
    field("fsType", 5, STRING),
    field("readOnly", 6, BOOL),
    field("portals", 7, ListOf(STRING)),
    field("chapAuthDiscovery", 8, BOOL),
    field("chapAuthSession", 11, BOOL),
    field("secretRef", 10, SecretReference, pointer=True),
    field("initiatorName", 12, STRING, pointer=True),
))
LocalVolumeSource = Struct("io.k8s.api.core.v1.LocalVolumeSource", lambda: (
    field("path", 1, STRING, omit=False, required=True),
    field("fsType", 2, STRING, pointer=True),
))
RBDPersistentVolumeSource = Struct("io.k8s.api.core.v1.RBDPersistentVolumeSource", lambda: (
    field("monitors", 1, ListOf(STRING), omit=False, required=True),
    field("image", 2, STRING, omit=False, required=True),
    field("fsType", 3, STRING),
    field("pool", 4, STRING, default="rbd"),
    field("user", 5, STRING, default="admin"),
    field("keyring", 6, STRING, default="/etc/ceph/keyring"),
    field("secretRef", 7, SecretReference, pointer=True),
    field("readOnly", 8, BOOL),
))
ScaleIOPersistentVolumeSource = Struct("io.k8s.api.core.v1.ScaleIOPersistentVolumeSource", lambda: (
    field("gateway", 1, STRING, omit=False, required=True),
    field("system", 2, STRING, omit=False, required=True),
    field("secretRef", 3, SecretReference, omit=False, pointer=True, required=True),
    field("sslEnabled", 4, BOOL),
    field("protectionDomain", 5, STRING),
    field("storagePool", 6, STRING),
    field("storageMode", 7, STRING, default="ThinProvisioned"),
    field("volumeName", 8, STRING),
    field("fsType", 9, STRING, default="xfs"),
    field("readOnly", 10, BOOL),
))
StorageOSPersistentVolumeSource = Struct("io.k8s.api.core.v1.StorageOSPersistentVolumeSource", lambda: (
    field("volumeName", 1, STRING),
    field("volumeNamespace", 2, STRING),
    field("fsType", 3, STRING),
    field("readOnly", 4, BOOL),
    field("secretRef", 5, ObjectReference, pointer=True),
))
PersistentVolumeSource = Struct("io.k8s.api.core.v1.PersistentVolumeSource", lambda: (
    field("gcePersistentDisk", 1, GCEPersistentDiskVolumeSource, pointer=True),
    field("awsElasticBlockStore", 2, AWSElasticBlockStoreVolumeSource, pointer=True),
    field("hostPath", 3, HostPathVolumeSource, pointer=True),
    field("glusterfs", 4, GlusterfsPersistentVolumeSource, pointer=True),
    field("nfs", 5, NFSVolumeSource, pointer=True),
    field("rbd", 6, RBDPersistentVolumeSource, pointer=True),
    field("iscsi", 7, ISCSIPersistentVolumeSource, pointer=True),
    field("cinder", 8, CinderPersistentVolumeSource, pointer=True),
    field("cephfs", 9, CephFSPersistentVolumeSource, pointer=True),
    field("fc", 10, FCVolumeSource, pointer=True),
    field("flocker", 11, FlockerVolumeSource, pointer=True),
    field("flexVolume", 12, FlexPersistentVolumeSource, pointer=True),
    field("azureFile", 13, AzureFilePersistentVolumeSource, pointer=True),
    field("vsphereVolume", 14, VsphereVirtualDiskVolumeSource, pointer=True),
    field("quobyte", 15, QuobyteVolumeSource, pointer=True),
    field("azureDisk", 16, AzureDiskVolumeSource, pointer=True),
    field("photonPersistentDisk", 17, PhotonPersistentDiskVolumeSource, pointer=True),
    field("portworxVolume", 18, PortworxVolumeSource, pointer=True),
    field("scaleIO", 19, ScaleIOPersistentVolumeSource, pointer=True),
    field("local", 20, LocalVolumeSource, pointer=True),
    field("storageos", 21, StorageOSPersistentVolumeSource, pointer=True),
    field("csi", 22, CSIPersistentVolumeSource, pointer=True),
))
