"""Sources of persistent volumes of core/v1 that differ from those of pods: their secrets have a namespace."""

from __future__ import annotations

from apiserver.api.schema.language import BOOL, STRING, MapOf, Struct, field
from apiserver.api.schema.limits import Limits
from apiserver.api.types.core.references import NAME_NEEDED, ObjectReference
from apiserver.api.types.core.volumes import HostPathVolumeSource
from apiserver.api.types.core.volumesources import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    FCVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    NFSVolumeSource,
    PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource,
    QuobyteVolumeSource,
    VsphereVirtualDiskVolumeSource,
    azure_file_fields,
    cephfs_fields,
    cinder_fields,
    flex_fields,
    glusterfs_fields,
    iscsi_fields,
    rbd_fields,
    scaleio_fields,
    storageos_fields,
)

_NAME_AND_NAMESPACE = Limits(parts={"name": Limits(required=True), "namespace": Limits(required=True)})
_SECRET = Limits(parts={
    "name": Limits(required=True, format="subdomain"), "namespace": Limits(required=True, format="dns-label")})

SecretReference = Struct("io.k8s.api.core.v1.SecretReference", lambda: (
    field("name", 1, STRING, doc="Name of the Secret."),
    field("namespace", 2, STRING, doc="Namespace of the Secret."),
), atomic=True, doc="SecretReference points to a Secret in any namespace.")
AzureFilePersistentVolumeSource = Struct("io.k8s.api.core.v1.AzureFilePersistentVolumeSource", lambda: (
    *azure_file_fields(),
    field("secretNamespace", 4, STRING, omit=False, pointer=True, limits=Limits(required=True),
        doc="Namespace of the Secret; that of the claim when not set."),
), doc="AzureFilePersistentVolumeSource is a file share of Azure; the CSI driver file.csi.azure.com serves it.")
CephFSPersistentVolumeSource = Struct("io.k8s.api.core.v1.CephFSPersistentVolumeSource",
    lambda: cephfs_fields(SecretReference),
    doc="CephFSPersistentVolumeSource is a directory of CephFS; nodes since 1.31 cannot mount it.")
CinderPersistentVolumeSource = Struct("io.k8s.api.core.v1.CinderPersistentVolumeSource",
    lambda: cinder_fields(SecretReference, _NAME_AND_NAMESPACE),
    doc="CinderPersistentVolumeSource is a volume of OpenStack's Cinder; the CSI driver cinder.csi.openstack.org "
        "serves it.")
CSIPersistentVolumeSource = Struct("io.k8s.api.core.v1.CSIPersistentVolumeSource", lambda: (
    field("driver", 1, STRING, omit=False, required=True,
        limits=Limits(required=True, length=63, format="driver-name"),
        doc="Name of the CSI driver."),
    field("volumeHandle", 2, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Identity by which the driver knows the volume; fixed."),
    field("readOnly", 3, BOOL, doc="True to mount the volume read-only; false when not set."),
    field("fsType", 4, STRING, doc="Filesystem on the volume, such as ext4 or xfs; the driver decides when not set."),
    field("volumeAttributes", 5, MapOf(STRING),
        doc="Attributes of the volume for the driver, as returned when it was created."),
    field("controllerPublishSecretRef", 6, SecretReference, pointer=True, limits=_SECRET,
        doc="Secret for attaching and detaching the volume."),
    field("nodeStageSecretRef", 7, SecretReference, pointer=True,
        doc="Secret for preparing the volume once for all pods of a node."),
    field("nodePublishSecretRef", 8, SecretReference, pointer=True, limits=_SECRET,
        doc="Secret for mounting the volume for a pod."),
    field("controllerExpandSecretRef", 9, SecretReference, pointer=True, limits=_SECRET,
        doc="Secret for making the volume larger in the storage system."),
    field("nodeExpandSecretRef", 10, SecretReference, pointer=True, limits=_SECRET,
        doc="Secret for making the filesystem larger on the node."),
), doc="CSIPersistentVolumeSource is a volume that a CSI driver manages.")
FlexPersistentVolumeSource = Struct("io.k8s.api.core.v1.FlexPersistentVolumeSource",
    lambda: flex_fields(SecretReference),
    doc="FlexPersistentVolumeSource is a volume of a FlexVolume driver, a program on the node; CSI takes its place.")
GlusterfsPersistentVolumeSource = Struct("io.k8s.api.core.v1.GlusterfsPersistentVolumeSource", lambda: (
    *glusterfs_fields(),
    field("endpointsNamespace", 4, STRING, pointer=True, limits=Limits(format="dns-label", empty=False),
        doc="Namespace of the Endpoints object; that of the claim when not set."),
), doc="GlusterfsPersistentVolumeSource is a volume of GlusterFS; nodes since 1.26 cannot mount it.")
ISCSIPersistentVolumeSource = Struct("io.k8s.api.core.v1.ISCSIPersistentVolumeSource",
    lambda: iscsi_fields(SecretReference, NAME_NEEDED),
    doc="ISCSIPersistentVolumeSource is a block device behind iSCSI.")
LocalVolumeSource = Struct("io.k8s.api.core.v1.LocalVolumeSource", lambda: (
    field("path", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="no-backsteps"),
        doc="Path on the node of a directory, for volumeMode Filesystem, or of a block device."),
    field("fsType", 2, STRING, pointer=True,
        doc="Filesystem that a block device has or gets, such as ext4; found out, and else ext4, when not set."),
), doc="LocalVolumeSource is a disk or directory of one node; the volume needs nodeAffinity.")
RBDPersistentVolumeSource = Struct("io.k8s.api.core.v1.RBDPersistentVolumeSource",
    lambda: rbd_fields(SecretReference),
    doc="RBDPersistentVolumeSource is a block device of Ceph; nodes since 1.31 cannot mount it.")
ScaleIOPersistentVolumeSource = Struct("io.k8s.api.core.v1.ScaleIOPersistentVolumeSource",
    lambda: scaleio_fields(SecretReference),
    doc="ScaleIOPersistentVolumeSource is a volume of ScaleIO, which is no longer supported.")
StorageOSPersistentVolumeSource = Struct("io.k8s.api.core.v1.StorageOSPersistentVolumeSource",
    lambda: storageos_fields(ObjectReference, _NAME_AND_NAMESPACE),
    doc="StorageOSPersistentVolumeSource is a volume of StorageOS, which is no longer supported.")
PersistentVolumeSource = Struct("io.k8s.api.core.v1.PersistentVolumeSource", lambda: (
    field("gcePersistentDisk", 1, GCEPersistentDiskVolumeSource, pointer=True, doc="A disk of Google Cloud."),
    field("awsElasticBlockStore", 2, AWSElasticBlockStoreVolumeSource, pointer=True, doc="A disk of Amazon's EBS."),
    field("hostPath", 3, HostPathVolumeSource, pointer=True,
        doc="A directory or device of the node, for tests with a single node."),
    field("glusterfs", 4, GlusterfsPersistentVolumeSource, pointer=True,
        doc="A volume of GlusterFS; no longer supported by nodes."),
    field("nfs", 5, NFSVolumeSource, pointer=True, doc="A directory that an NFS server exports."),
    field("rbd", 6, RBDPersistentVolumeSource, pointer=True,
        doc="A block device of Ceph; no longer supported by nodes."),
    field("iscsi", 7, ISCSIPersistentVolumeSource, pointer=True, doc="A block device behind iSCSI."),
    field("cinder", 8, CinderPersistentVolumeSource, pointer=True, doc="A volume of OpenStack's Cinder."),
    field("cephfs", 9, CephFSPersistentVolumeSource, pointer=True,
        doc="A directory of CephFS; no longer supported by nodes."),
    field("fc", 10, FCVolumeSource, pointer=True, doc="A block device behind Fibre Channel."),
    field("flocker", 11, FlockerVolumeSource, pointer=True, doc="A dataset of Flocker; no longer supported by nodes."),
    field("flexVolume", 12, FlexPersistentVolumeSource, pointer=True,
        doc="A volume of a FlexVolume driver; CSI takes its place."),
    field("azureFile", 13, AzureFilePersistentVolumeSource, pointer=True, doc="A file share of Azure."),
    field("vsphereVolume", 14, VsphereVirtualDiskVolumeSource, pointer=True, doc="A disk of vSphere."),
    field("quobyte", 15, QuobyteVolumeSource, pointer=True, doc="A volume of Quobyte; no longer supported by nodes."),
    field("azureDisk", 16, AzureDiskVolumeSource, pointer=True, doc="A data disk of Azure."),
    field("photonPersistentDisk", 17, PhotonPersistentDiskVolumeSource, pointer=True,
        doc="A disk of Photon Controller; no longer supported by nodes."),
    field("portworxVolume", 18, PortworxVolumeSource, pointer=True, doc="A volume of Portworx."),
    field("scaleIO", 19, ScaleIOPersistentVolumeSource, pointer=True,
        doc="A volume of ScaleIO; no longer supported by nodes."),
    field("local", 20, LocalVolumeSource, pointer=True, doc="A disk or directory of one node."),
    field("storageos", 21, StorageOSPersistentVolumeSource, pointer=True,
        doc="A volume of StorageOS; no longer supported by nodes."),
    field("csi", 22, CSIPersistentVolumeSource, pointer=True, doc="A volume that a CSI driver manages."),
), doc="PersistentVolumeSource is the source of a persistent volume; exactly one field is set.")
