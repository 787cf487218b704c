"""Volume sources of core/v1 that name a storage system: disks of clouds, network filesystems, block devices.

A persistent volume may have the same source with another type of secret reference. The fields of such a source are
built by a function of that type and of the field's `needs`.
"""

from __future__ import annotations

from apiserver.api.schema.language import BOOL, INT32, STRING, Field, ListOf, MapOf, Struct, field, string
from apiserver.api.schema.limits import Limits
from apiserver.api.types.core.references import NAME_NEEDED, LocalObjectReference

_BYTE = "must be between 0 and 255, inclusive"
#: (0 is the whole disk.)
_PARTITION = "must be between 1 and 255, inclusive"

AzureDataDiskCachingMode = string("v1.AzureDataDiskCachingMode", "None", "ReadOnly", "ReadWrite")
AzureDataDiskKind = string("v1.AzureDataDiskKind", "Dedicated", "Managed", "Shared")


def cephfs_fields(secret: Struct) -> tuple[Field, ...]:
    return (
        field("monitors", 1, ListOf(STRING), omit=False, required=True, limits=Limits(required=True),
            doc="Addresses of the Ceph monitors, at least one."),
        field("path", 2, STRING, doc="Directory of the filesystem to mount; / when not set."),
        field("user", 3, STRING, doc="Ceph user; admin when not set."),
        field("secretFile", 4, STRING,
            doc="File on the node with the user's key; /etc/ceph/user.secret when not set. A secretRef overrides it."),
        field("secretRef", 5, secret, pointer=True, doc="Secret with the user's key."),
        field("readOnly", 6, BOOL, doc="True to mount the volume read-only; false when not set."),
    )


def cinder_fields(secret: Struct, needs: Limits) -> tuple[Field, ...]:
    return (
        field("volumeID", 1, STRING, omit=False, required=True, limits=Limits(required=True),
            doc="Identity of the Cinder volume."),
        field("fsType", 2, STRING, doc="Filesystem on the volume, such as ext4 or xfs; ext4 when not set."),
        field("readOnly", 3, BOOL, doc="True to mount the volume read-only; false when not set."),
        field("secretRef", 4, secret, pointer=True, limits=needs, doc="Secret with parameters for OpenStack."),
    )


def flex_fields(secret: Struct) -> tuple[Field, ...]:
    return (
        field("driver", 1, STRING, omit=False, required=True, limits=Limits(required=True),
            doc="Name of the FlexVolume driver, as vendor/name."),
        field("fsType", 2, STRING, doc="Filesystem on the volume; the driver decides when not set."),
        field("secretRef", 3, secret, pointer=True, doc="Secret whose keys and values are handed to the driver."),
        field("readOnly", 4, BOOL, doc="True to mount the volume read-only; false when not set."),
        field("options", 5, MapOf(STRING), doc="Further options for the driver."),
    )


def iscsi_fields(secret: Struct, needs: Limits | None = None) -> tuple[Field, ...]:
    return (
        field("targetPortal", 1, STRING, omit=False, required=True, limits=Limits(required=True),
            doc="Address of the target, with a port unless it is 3260."),
        field("iqn", 2, STRING, omit=False, required=True, limits=Limits(required=True),
            doc="Qualified name of the target."),
        field("lun", 3, INT32, omit=False, required=True, limits=Limits(least=0, most=255, words=_BYTE),
            doc="Number of the logical unit at the target, 0 to 255."),
        field("iscsiInterface", 4, STRING, default="default",
            doc="Name of the initiator's interface; default when not set."),
        field("fsType", 5, STRING, doc="Filesystem on the volume, such as ext4 or xfs; ext4 when not set."),
        field("readOnly", 6, BOOL, doc="True to mount the volume read-only; false when not set."),
        field("portals", 7, ListOf(STRING), doc="Further addresses of the target, for several paths to it."),
        field("chapAuthDiscovery", 8, BOOL,
            doc="True to authenticate with CHAP when targets are discovered; false when not set."),
        field("chapAuthSession", 11, BOOL,
            doc="True to authenticate with CHAP when the session is opened; false when not set."),
        field("secretRef", 10, secret, pointer=True, limits=needs,
            doc="Secret with the names and passwords for CHAP."),
        field("initiatorName", 12, STRING, pointer=True,
            doc="Qualified name of the initiator; that of the node when not set."),
    )


def rbd_fields(secret: Struct) -> tuple[Field, ...]:
    return (
        field("monitors", 1, ListOf(STRING), omit=False, required=True, limits=Limits(required=True),
            doc="Addresses of the Ceph monitors, at least one."),
        field("image", 2, STRING, omit=False, required=True, limits=Limits(required=True),
            doc="Name of the RADOS image."),
        field("fsType", 3, STRING, doc="Filesystem on the volume, such as ext4 or xfs; ext4 when not set."),
        field("pool", 4, STRING, default="rbd", doc="RADOS pool of the image; rbd when not set."),
        field("user", 5, STRING, default="admin", doc="Ceph user; admin when not set."),
        field("keyring", 6, STRING, default="/etc/ceph/keyring",
            doc="File on the node with the user's key; /etc/ceph/keyring when not set."),
        field("secretRef", 7, secret, pointer=True, doc="Secret with the user's key; overrides keyring."),
        field("readOnly", 8, BOOL, doc="True to mount the volume read-only; false when not set."),
    )


def scaleio_fields(secret: Struct) -> tuple[Field, ...]:
    return (
        field("gateway", 1, STRING, omit=False, required=True, limits=Limits(required=True),
            doc="Address of the ScaleIO API gateway."),
        field("system", 2, STRING, omit=False, required=True, limits=Limits(required=True),
            doc="Name of the storage system."),
        field("secretRef", 3, secret, omit=False, pointer=True, required=True,
            doc="Secret with the user's name and password."),
        field("sslEnabled", 4, BOOL, doc="True to talk to the gateway with TLS; false when not set."),
        field("protectionDomain", 5, STRING, doc="Protection domain of the volume."),
        field("storagePool", 6, STRING, doc="Storage pool in the protection domain."),
        field("storageMode", 7, STRING, default="ThinProvisioned",
            doc="ThickProvisioned or ThinProvisioned (the default)."),
        field("volumeName", 8, STRING, limits=Limits(required=True),
            doc="Name of an existing ScaleIO volume."),
        field("fsType", 9, STRING, default="xfs", doc="Filesystem on the volume; xfs when not set."),
        field("readOnly", 10, BOOL, doc="True to mount the volume read-only; false when not set."),
    )


def storageos_fields(secret: Struct, needs: Limits) -> tuple[Field, ...]:
    return (
        field("volumeName", 1, STRING, limits=Limits(required=True, format="dns-label"),
            doc="Name of the StorageOS volume, unique in its namespace."),
        field("volumeNamespace", 2, STRING, limits=Limits(format="dns-label"),
            doc="Namespace of the volume in StorageOS; the pod's namespace when not set."),
        field("fsType", 3, STRING, doc="Filesystem on the volume, such as ext4 or xfs; ext4 when not set."),
        field("readOnly", 4, BOOL, doc="True to mount the volume read-only; false when not set."),
        field("secretRef", 5, secret, pointer=True, limits=needs,
            doc="Secret with the credentials for the StorageOS API."),
    )


def azure_file_fields() -> tuple[Field, ...]:
    return (
        field("secretName", 1, STRING, omit=False, required=True, limits=Limits(required=True),
            doc="Secret with the name and key of the storage account."),
        field("shareName", 2, STRING, omit=False, required=True, limits=Limits(required=True),
            doc="Name of the file share."),
        field("readOnly", 3, BOOL, doc="True to mount the volume read-only; false when not set."),
    )


def glusterfs_fields() -> tuple[Field, ...]:
    return (
        field("endpoints", 1, STRING, omit=False, required=True, limits=Limits(required=True),
            doc="Name of the Endpoints object that lists the servers."),
        field("path", 2, STRING, omit=False, required=True, limits=Limits(required=True),
            doc="Name of the Gluster volume."),
        field("readOnly", 3, BOOL, doc="True to mount the volume read-only; false when not set."),
    )


AWSElasticBlockStoreVolumeSource = Struct("io.k8s.api.core.v1.AWSElasticBlockStoreVolumeSource", lambda: (
    field("volumeID", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Identity of the disk, such as vol-0123456789abcdef0."),
    field("fsType", 2, STRING, doc="Filesystem on the volume, such as ext4 or xfs; ext4 when not set."),
    field("partition", 3, INT32, limits=Limits(least=0, most=255, words=_PARTITION),
        doc="Number of the partition to mount, 1 to 255; 0 or not set for the whole disk."),
    field("readOnly", 4, BOOL, doc="True to mount the volume read-only; false when not set."),
), doc="AWSElasticBlockStoreVolumeSource is a disk of Amazon's EBS; the CSI driver ebs.csi.aws.com serves it.")
AzureDiskVolumeSource = Struct("io.k8s.api.core.v1.AzureDiskVolumeSource", lambda: (
    field("diskName", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Name of the disk."),
    field("diskURI", 2, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Address of the disk in its storage account, or the resource id of a managed disk."),
    field("cachingMode", 3, AzureDataDiskCachingMode, pointer=True, default="ReadWrite",
        doc="How the host caches the disk: None, ReadOnly or ReadWrite (the default)."),
    field("fsType", 4, STRING, pointer=True, default="ext4",
        doc="Filesystem on the volume, such as ext4 or xfs; ext4 when not set."),
    field("readOnly", 5, BOOL, pointer=True, default=False,
        doc="True to mount the volume read-only; false when not set."),
    field("kind", 6, AzureDataDiskKind, pointer=True, default="Shared",
        doc="Managed for a managed disk; Shared (the default) or Dedicated for a blob disk whose storage account has "
            "other disks or none."),
), doc="AzureDiskVolumeSource is a data disk of Azure; the CSI driver disk.csi.azure.com serves it.")
AzureFileVolumeSource = Struct("io.k8s.api.core.v1.AzureFileVolumeSource", azure_file_fields,
    doc="AzureFileVolumeSource is a file share of Azure; the CSI driver file.csi.azure.com serves it.")
CephFSVolumeSource = Struct("io.k8s.api.core.v1.CephFSVolumeSource",
    lambda: cephfs_fields(LocalObjectReference),
    doc="CephFSVolumeSource is a directory of CephFS; nodes since 1.31 cannot mount it.")
CinderVolumeSource = Struct("io.k8s.api.core.v1.CinderVolumeSource",
    lambda: cinder_fields(LocalObjectReference, NAME_NEEDED),
    doc="CinderVolumeSource is a volume of OpenStack's Cinder; the CSI driver cinder.csi.openstack.org serves it.")
FCVolumeSource = Struct("io.k8s.api.core.v1.FCVolumeSource", lambda: (
    field("targetWWNs", 1, ListOf(STRING), doc="World wide names of the targets."),
    field("lun", 2, INT32, pointer=True, doc="Number of the logical unit at the target."),
    field("fsType", 3, STRING, doc="Filesystem on the volume, such as ext4 or xfs; ext4 when not set."),
    field("readOnly", 4, BOOL, doc="True to mount the volume read-only; false when not set."),
    field("wwids", 5, ListOf(STRING), doc="World wide identities of the volume, any of which finds it."),
), doc="FCVolumeSource is a block device behind Fibre Channel; either targetWWNs and lun are set, or wwids.")
FlexVolumeSource = Struct("io.k8s.api.core.v1.FlexVolumeSource",
    lambda: flex_fields(LocalObjectReference),
    doc="FlexVolumeSource is a volume of a FlexVolume driver, a program on the node; CSI takes its place.")
FlockerVolumeSource = Struct("io.k8s.api.core.v1.FlockerVolumeSource", lambda: (
    field("datasetName", 1, STRING, doc="Name of the dataset; datasetUUID is to be used instead."),
    field("datasetUUID", 2, STRING, doc="Identity of the dataset."),
), doc="FlockerVolumeSource is a dataset of Flocker, which is no longer supported; exactly one field is set.")
GCEPersistentDiskVolumeSource = Struct("io.k8s.api.core.v1.GCEPersistentDiskVolumeSource", lambda: (
    field("pdName", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Name of the persistent disk."),
    field("fsType", 2, STRING, doc="Filesystem on the volume, such as ext4 or xfs; ext4 when not set."),
    field("partition", 3, INT32, limits=Limits(least=0, most=255, words=_PARTITION),
        doc="Number of the partition to mount, 1 to 255; 0 or not set for the whole disk."),
    field("readOnly", 4, BOOL, doc="True to mount the volume read-only; false when not set."),
), doc="GCEPersistentDiskVolumeSource is a disk of Google Cloud; the CSI driver pd.csi.storage.gke.io serves it.")
GlusterfsVolumeSource = Struct("io.k8s.api.core.v1.GlusterfsVolumeSource", glusterfs_fields,
    doc="GlusterfsVolumeSource is a volume of GlusterFS; nodes since 1.26 cannot mount it.")
ISCSIVolumeSource = Struct("io.k8s.api.core.v1.ISCSIVolumeSource",
    lambda: iscsi_fields(LocalObjectReference), doc="ISCSIVolumeSource is a block device behind iSCSI.")
NFSVolumeSource = Struct("io.k8s.api.core.v1.NFSVolumeSource", lambda: (
    field("server", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Host name or address of the server."),
    field("path", 2, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Absolute path of the exported directory."),
    field("readOnly", 3, BOOL, doc="True to mount the volume read-only; false when not set."),
), doc="NFSVolumeSource is a directory that an NFS server exports.")
PhotonPersistentDiskVolumeSource = Struct("io.k8s.api.core.v1.PhotonPersistentDiskVolumeSource", lambda: (
    field("pdID", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Identity of the disk."),
    field("fsType", 2, STRING, doc="Filesystem on the volume, such as ext4 or xfs; ext4 when not set."),
), doc="PhotonPersistentDiskVolumeSource is a disk of Photon Controller, which is no longer supported.")
PortworxVolumeSource = Struct("io.k8s.api.core.v1.PortworxVolumeSource", lambda: (
    field("volumeID", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Identity of the Portworx volume."),
    field("fsType", 2, STRING, doc="Filesystem on the volume: ext4 or xfs; ext4 when not set."),
    field("readOnly", 3, BOOL, doc="True to mount the volume read-only; false when not set."),
), doc="PortworxVolumeSource is a volume of Portworx; the CSI driver pxd.portworx.com serves it.")
QuobyteVolumeSource = Struct("io.k8s.api.core.v1.QuobyteVolumeSource", lambda: (
    field("registry", 1, STRING, omit=False, required=True,
        limits=Limits(required="must be a host:port pair or multiple pairs separated by commas"),
        doc="Addresses of the Quobyte registries, host:port, separated by commas."),
    field("volume", 2, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Name of the Quobyte volume."),
    field("readOnly", 3, BOOL, doc="True to mount the volume read-only; false when not set."),
    field("user", 4, STRING, doc="User that the volume is mounted as; the service account's user when not set."),
    field("group", 5, STRING, doc="Group that the volume is mounted as; none when not set."),
    field("tenant", 6, STRING, limits=Limits(length=64),
        doc="Tenant that owns the volume; set for volumes that were provisioned dynamically."),
), doc="QuobyteVolumeSource is a volume of Quobyte, which is no longer supported.")
RBDVolumeSource = Struct("io.k8s.api.core.v1.RBDVolumeSource",
    lambda: rbd_fields(LocalObjectReference),
    doc="RBDVolumeSource is a block device of Ceph; nodes since 1.31 cannot mount it.")
ScaleIOVolumeSource = Struct("io.k8s.api.core.v1.ScaleIOVolumeSource",
    lambda: scaleio_fields(LocalObjectReference),
    doc="ScaleIOVolumeSource is a volume of ScaleIO, which is no longer supported.")
StorageOSVolumeSource = Struct("io.k8s.api.core.v1.StorageOSVolumeSource",
    lambda: storageos_fields(LocalObjectReference, NAME_NEEDED),
    doc="StorageOSVolumeSource is a volume of StorageOS, which is no longer supported.")
VsphereVirtualDiskVolumeSource = Struct("io.k8s.api.core.v1.VsphereVirtualDiskVolumeSource", lambda: (
    field("volumePath", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Path of the disk in its datastore."),
    field("fsType", 2, STRING, doc="Filesystem on the volume, such as ext4 or xfs; ext4 when not set."),
    field("storagePolicyName", 3, STRING, doc="Name of the storage policy."),
    field("storagePolicyID", 4, STRING, doc="Identity of the storage policy."),
), doc="VsphereVirtualDiskVolumeSource is a disk of vSphere; the CSI driver csi.vsphere.vmware.com serves it.")
