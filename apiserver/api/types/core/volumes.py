"""Volumes of core/v1, and the sources that live with the pod: config maps, secrets, claims, directories, images."""

from __future__ import annotations

from apiserver.api.features.gated_fields import EVERY_GATE, gated
from apiserver.api.schema.language import BOOL, INT32, INT64, QUANTITY, STRING, ListOf, MapOf, Struct, field, string
from apiserver.api.schema.limits import FIXED, Limits
from apiserver.api.types.core.containers import PullPolicy
from apiserver.api.types.core.references import (
    FILE_MODE,
    NAME_NEEDED,
    KeyToPath,
    LocalObjectReference,
    ObjectFieldSelector,
    ResourceFieldSelector,
    TypedLocalObjectReference,
    TypedObjectReference,
)
from apiserver.api.types.core.resources import VolumeResourceRequirements
from apiserver.api.types.core.volumesources import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CephFSVolumeSource,
    CinderVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    GlusterfsVolumeSource,
    ISCSIVolumeSource,
    NFSVolumeSource,
    PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource,
    QuobyteVolumeSource,
    RBDVolumeSource,
    ScaleIOVolumeSource,
    StorageOSVolumeSource,
    VsphereVirtualDiskVolumeSource,
)
from apiserver.api.types.meta import LabelSelector, ObjectMeta

TOO_SHORT_A_LIFE = "may not specify a duration less than 10 minutes"
TOO_LONG_A_LIFE = "may not specify a duration larger than 2^32 seconds"

StorageMedium = string("v1.StorageMedium")
PersistentVolumeAccessMode = string("v1.PersistentVolumeAccessMode", "ReadOnlyMany", "ReadWriteMany",
    "ReadWriteOnce", "ReadWriteOncePod")
PersistentVolumeMode = string("v1.PersistentVolumeMode", "Block", "Filesystem")
HostPathType = string("v1.HostPathType", "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File",
    "FileOrCreate", "Socket")

CSIVolumeSource = Struct("io.k8s.api.core.v1.CSIVolumeSource", lambda: (
    field("driver", 1, STRING, omit=False, required=True,
        limits=Limits(required=True, length=63, format="driver-name"),
        doc="Name of the CSI driver, which must support the mode Ephemeral."),
    field("readOnly", 2, BOOL, pointer=True, doc="True to mount the volume read-only; false when not set."),
    field("fsType", 3, STRING, pointer=True,
        doc="Filesystem on the volume, such as ext4 or xfs; the driver decides when not set."),
    field("volumeAttributes", 4, MapOf(STRING), doc="Parameters for the driver, as its documentation lists them."),
    field("nodePublishSecretRef", 5, LocalObjectReference, pointer=True,
        doc="Secret of the pod's namespace that the driver gets for mounting the volume."),
), doc="CSIVolumeSource is a volume that a CSI driver makes for the pod and removes with it.")
ClusterTrustBundleProjection = Struct("io.k8s.api.core.v1.ClusterTrustBundleProjection", lambda: (
    field("name", 1, STRING, pointer=True, doc="One ClusterTrustBundle by name; not allowed together with signerName."),
    field("signerName", 2, STRING, pointer=True, doc="All ClusterTrustBundles of a signer that match labelSelector."),
    field("labelSelector", 3, LabelSelector, pointer=True,
        doc="Which bundles of the signer are taken: none when not set, all when empty."),
    field("optional", 5, BOOL, pointer=True,
        doc="True when the pod may start without the bundles, with an empty file; false when not set."),
    field("path", 4, STRING, omit=False, required=True, doc="Path of the file, relative to the root of the volume."),
), doc="ClusterTrustBundleProjection writes certificates of trusted authorities into a file.")
ConfigMapProjection = Struct("io.k8s.api.core.v1.ConfigMapProjection", lambda: (
    field("", 1, LocalObjectReference, inline=True, limits=NAME_NEEDED),
    field("items", 2, ListOf(KeyToPath), doc="Keys and their paths; when empty every key becomes a file of its name."),
    field("optional", 4, BOOL, pointer=True,
        doc="True when the pod may start without the ConfigMap or the keys; false when not set."),
), doc="ConfigMapProjection writes keys of a ConfigMap into files.")
ConfigMapVolumeSource = Struct("io.k8s.api.core.v1.ConfigMapVolumeSource", lambda: (
    field("", 1, LocalObjectReference, inline=True, limits=NAME_NEEDED),
    field("items", 2, ListOf(KeyToPath), doc="Keys and their paths; when empty every key becomes a file of its name."),
    field("defaultMode", 3, INT32, pointer=True, fills=0o644, limits=FILE_MODE,
        doc="Permission bits of files that have no mode of their own, 0 to 0777; 0644 (420 in decimal) when not set."),
    field("optional", 4, BOOL, pointer=True,
        doc="True when the pod may start without the ConfigMap or the keys; false when not set."),
), doc="ConfigMapVolumeSource is a directory with the keys of a ConfigMap as files, which follow its changes.")
DownwardAPIVolumeFile = Struct("io.k8s.api.core.v1.DownwardAPIVolumeFile", lambda: (
    field("path", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="file-path"),
        doc="Path of the file, relative to the root of the volume; it must not contain `..`."),
    field("fieldRef", 2, ObjectFieldSelector, pointer=True,
        doc="Field of the pod's metadata whose value becomes the content."),
    field("resourceFieldRef", 3, ResourceFieldSelector, pointer=True,
        doc="Request or limit of a container whose value becomes the content."),
    field("mode", 4, INT32, pointer=True, limits=FILE_MODE,
        doc="Permission bits of the file, 0 to 0777 (511 in decimal); the volume's defaultMode when not set."),
), doc="DownwardAPIVolumeFile is a file with a fact about the pod; either fieldRef or resourceFieldRef is set.")
DownwardAPIProjection = Struct("io.k8s.api.core.v1.DownwardAPIProjection", lambda: (
    field("items", 1, ListOf(DownwardAPIVolumeFile), doc="The files."),
), doc="DownwardAPIProjection writes facts about the pod into files.")
DownwardAPIVolumeSource = Struct("io.k8s.api.core.v1.DownwardAPIVolumeSource", lambda: (
    field("items", 1, ListOf(DownwardAPIVolumeFile), doc="The files."),
    field("defaultMode", 2, INT32, pointer=True, fills=0o644, limits=FILE_MODE,
        doc="Permission bits of files that have no mode of their own, 0 to 0777; 0644 (420 in decimal) when not set."),
), doc="DownwardAPIVolumeSource is a directory with facts about the pod as files.")
EmptyDirVolumeSource = Struct("io.k8s.api.core.v1.EmptyDirVolumeSource", lambda: (
    field("medium", 1, StorageMedium,
        doc="Memory for a filesystem in memory, HugePages or HugePages-SIZE for huge pages; the node's disk when "
            "empty."),
    field("sizeLimit", 2, QUANTITY, pointer=True,
        doc="Greatest size; a pod that uses more is evicted. No limit but that of the medium when not set."),
), doc="EmptyDirVolumeSource is a directory that begins empty and lives as long as the pod.")
PersistentVolumeClaimSpec = Struct("io.k8s.api.core.v1.PersistentVolumeClaimSpec", lambda: (
    field("accessModes", 1, ListOf(PersistentVolumeAccessMode),
        limits=Limits(required="at least 1 access mode is required"),
        doc="Ways in which the volume must be mountable: ReadWriteOnce, ReadOnlyMany, ReadWriteMany, "
            "ReadWriteOncePod."),
    field("selector", 4, LabelSelector, pointer=True,
        doc="Labels that an existing volume must have to be bound; with it no volume is made dynamically."),
    field("resources", 2, VolumeResourceRequirements, omit=False,
        doc="Size that the volume must have; the request may grow later where the StorageClass allows expansion."),
    field("volumeName", 3, STRING, doc="Volume to which the claim is bound; set to ask for that one."),
    field("storageClassName", 5, STRING, pointer=True, limits=Limits(format="subdomain", empty=False),
        doc="StorageClass of the volume; the default class when not set, no class and no dynamic volume when empty."),
    field("volumeMode", 6, PersistentVolumeMode, pointer=True, fills="Filesystem", limits=Limits(immutable=FIXED),
        doc="Filesystem (the default) to mount a directory, Block for a raw device."),
    field("dataSource", 7, TypedLocalObjectReference, pointer=True,
        doc="VolumeSnapshot or PersistentVolumeClaim of the namespace whose content the volume begins with."),
    field("dataSourceRef", 8, TypedObjectReference, pointer=True, gate=gated("AnyVolumeDataSource", "place"),
        doc="Like dataSource, for any kind that a populator handles; for one in the same namespace the two are kept "
            "equal."),
    field("volumeAttributesClassName", 9, STRING, pointer=True, gate=gated("VolumeAttributesClass", "place"),
        limits=Limits(format="subdomain", empty=False),
        doc="VolumeAttributesClass whose parameters the volume gets; unlike the StorageClass it may be changed."),
), doc="PersistentVolumeClaimSpec describes the requested storage.")
PersistentVolumeClaimTemplate = Struct("io.k8s.api.core.v1.PersistentVolumeClaimTemplate", lambda: (
    field("metadata", 1, ObjectMeta, omit=False, doc="Labels and annotations of the claim; nothing else is allowed."),
    field("spec", 2, PersistentVolumeClaimSpec, omit=False, required=True, doc="Spec of the claim, copied as it is."),
), doc="PersistentVolumeClaimTemplate is the template of the claim that is created for a pod.")
EphemeralVolumeSource = Struct("io.k8s.api.core.v1.EphemeralVolumeSource", lambda: (
    field("volumeClaimTemplate", 1, PersistentVolumeClaimTemplate, pointer=True, ungated=EVERY_GATE,
        limits=Limits(required=True),
        doc="Pattern of the claim; its name is the pod's and the volume's name with `-` between them."),
), doc="EphemeralVolumeSource is a volume with a claim of its own, which lives as long as the pod.")
GitRepoVolumeSource = Struct("io.k8s.api.core.v1.GitRepoVolumeSource", lambda: (
    field("repository", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Address of the repository."),
    field("revision", 2, STRING, doc="Commit to check out."),
    field("directory", 3, STRING, limits=Limits(format="relative-path"),
        doc="Directory in the volume for the clone; the volume itself for `.`, the repository's name when empty. It "
            "must not contain `..`."),
), doc="GitRepoVolumeSource is a clone of a git repository; it is disabled, an init container does the same.")
HostPathVolumeSource = Struct("io.k8s.api.core.v1.HostPathVolumeSource", lambda: (
    field("path", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="no-backsteps"),
        doc="Path on the node."),
    field("type", 2, HostPathType, pointer=True, fills="",
        doc="Required type: Directory, DirectoryOrCreate, File, FileOrCreate, Socket, CharDevice or BlockDevice; not "
            "checked when empty."),
), doc="HostPathVolumeSource is a file, directory or device of the node itself.")
ImageVolumeSource = Struct("io.k8s.api.core.v1.ImageVolumeSource", lambda: (
    field("reference", 1, STRING,
        doc="Reference of the image, as for containers. Required in pods; templates may leave it to other software."),
    field("pullPolicy", 2, PullPolicy, limits=Limits(empty=True),
        doc="When the image is pulled: Always, IfNotPresent or Never; Always for the tag latest or none, else "
            "IfNotPresent, when not set."),
), doc="ImageVolumeSource is the content of an OCI image or artifact, mounted read-only.")
PersistentVolumeClaimVolumeSource = Struct("io.k8s.api.core.v1.PersistentVolumeClaimVolumeSource", lambda: (
    field("claimName", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="PersistentVolumeClaim of the pod's namespace."),
    field("readOnly", 2, BOOL, doc="True to mount the volume read-only for all containers; false when not set."),
), doc="PersistentVolumeClaimVolumeSource is the volume that a claim is bound to.")
PodCertificateProjection = Struct("io.k8s.api.core.v1.PodCertificateProjection", lambda: (
    field("signerName", 1, STRING, required=True, doc="Signer that issues the certificate."),
    field("keyType", 2, STRING, required=True,
        doc="Type of the key: RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521 or ED25519."),
    field("maxExpirationSeconds", 3, INT32, pointer=True,
        doc="Longest requested lifetime of the certificate in seconds, at least 3600; 86400 (24 hours) when not set."),
    field("credentialBundlePath", 4, STRING,
        doc="File with the key and the chain of certificates, as PEM; preferred to two files because it changes as "
            "one."),
    field("keyPath", 5, STRING, doc="File with only the key, as PEM."),
    field("certificateChainPath", 6, STRING, doc="File with only the chain of certificates, as PEM."),
    field("userAnnotations", 7, MapOf(STRING),
        doc="Further facts for the signer, which are copied into the request; each key has a domain as its prefix."),
), doc="PodCertificateProjection makes a key for the pod and gets a certificate for it, which is renewed in time.")
SecretProjection = Struct("io.k8s.api.core.v1.SecretProjection", lambda: (
    field("", 1, LocalObjectReference, inline=True, limits=NAME_NEEDED),
    field("items", 2, ListOf(KeyToPath), doc="Keys and their paths; when empty every key becomes a file of its name."),
    field("optional", 4, BOOL, pointer=True,
        doc="True when the pod may start without the Secret or the keys; false when not set."),
), doc="SecretProjection writes keys of a Secret into files.")
ServiceAccountTokenProjection = Struct("io.k8s.api.core.v1.ServiceAccountTokenProjection", lambda: (
    field("audience", 1, STRING,
        doc="Audience of the token; a receiver must reject tokens for others. The API server when empty."),
    field("expirationSeconds", 2, INT64, pointer=True, fills=3600,
        limits=Limits(least=600, most=1 << 32, words=TOO_SHORT_A_LIFE, most_words=TOO_LONG_A_LIFE),
        doc="Lifetime of the token in seconds, at least 600; 3600 (1 hour) when not set."),
    field("path", 3, STRING, omit=False, required=True, limits=Limits(format="file-path", empty=False),
        doc="Path of the file, relative to the root of the volume."),
), doc="ServiceAccountTokenProjection writes a token of the pod's service account into a file, renewed in time.")
VolumeProjection = Struct("io.k8s.api.core.v1.VolumeProjection", lambda: (
    field("secret", 1, SecretProjection, pointer=True, doc="Keys of a Secret."),
    field("downwardAPI", 2, DownwardAPIProjection, pointer=True, doc="Facts about the pod."),
    field("configMap", 3, ConfigMapProjection, pointer=True, doc="Keys of a ConfigMap."),
    field("serviceAccountToken", 4, ServiceAccountTokenProjection, pointer=True,
        doc="A token of the pod's service account."),
    field("clusterTrustBundle", 5, ClusterTrustBundleProjection, pointer=True, gate="ClusterTrustBundleProjection",
        doc="Certificates of trusted authorities."),
    field("podCertificate", 6, PodCertificateProjection, pointer=True, gate="PodCertificateRequest",
        doc="A key and a certificate for the pod."),
), doc="VolumeProjection is one source of a projected volume; exactly one field is set.")
ProjectedVolumeSource = Struct("io.k8s.api.core.v1.ProjectedVolumeSource", lambda: (
    field("sources", 1, ListOf(VolumeProjection), omit=False,
        doc="Sources of the files; their paths must not collide."),
    field("defaultMode", 2, INT32, pointer=True, fills=0o644, limits=FILE_MODE,
        doc="Permission bits of files that have no mode of their own, 0 to 0777; 0644 (420 in decimal) when not set."),
), doc="ProjectedVolumeSource is one directory with files from several sources.")
SecretVolumeSource = Struct("io.k8s.api.core.v1.SecretVolumeSource", lambda: (
    field("secretName", 1, STRING, limits=Limits(required=True),
        doc="Secret of the pod's namespace."),
    field("items", 2, ListOf(KeyToPath), doc="Keys and their paths; when empty every key becomes a file of its name."),
    field("defaultMode", 3, INT32, pointer=True, fills=0o644, limits=FILE_MODE,
        doc="Permission bits of files that have no mode of their own, 0 to 0777; 0644 (420 in decimal) when not set."),
    field("optional", 4, BOOL, pointer=True,
        doc="True when the pod may start without the Secret or the keys; false when not set."),
), doc="SecretVolumeSource is a directory in memory with the keys of a Secret as files, which follow its changes.")
VolumeSource = Struct("io.k8s.api.core.v1.VolumeSource", lambda: (
    field("hostPath", 1, HostPathVolumeSource, pointer=True,
        doc="A file, directory or device of the node; it gives a pod access to the node itself."),
    field("emptyDir", 2, EmptyDirVolumeSource, pointer=True,
        doc="A directory that begins empty and lives as long as the pod; meant when no source is set."),
    field("gcePersistentDisk", 3, GCEPersistentDiskVolumeSource, pointer=True, doc="A disk of Google Cloud."),
    field("awsElasticBlockStore", 4, AWSElasticBlockStoreVolumeSource, pointer=True, doc="A disk of Amazon's EBS."),
    field("gitRepo", 5, GitRepoVolumeSource, pointer=True, doc="A clone of a git repository; disabled."),
    field("secret", 6, SecretVolumeSource, pointer=True, doc="The keys of a Secret as files."),
    field("nfs", 7, NFSVolumeSource, pointer=True, doc="A directory that an NFS server exports."),
    field("iscsi", 8, ISCSIVolumeSource, pointer=True, doc="A block device behind iSCSI."),
    field("glusterfs", 9, GlusterfsVolumeSource, pointer=True,
        doc="A volume of GlusterFS; no longer supported by nodes."),
    field("persistentVolumeClaim", 10, PersistentVolumeClaimVolumeSource, pointer=True,
        doc="The volume that a PersistentVolumeClaim of the namespace is bound to."),
    field("rbd", 11, RBDVolumeSource, pointer=True, doc="A block device of Ceph; no longer supported by nodes."),
    field("flexVolume", 12, FlexVolumeSource, pointer=True,
        doc="A volume of a FlexVolume driver; CSI takes its place."),
    field("cinder", 13, CinderVolumeSource, pointer=True, doc="A volume of OpenStack's Cinder."),
    field("cephfs", 14, CephFSVolumeSource, pointer=True, doc="A directory of CephFS; no longer supported by nodes."),
    field("flocker", 15, FlockerVolumeSource, pointer=True, doc="A dataset of Flocker; no longer supported by nodes."),
    field("downwardAPI", 16, DownwardAPIVolumeSource, pointer=True, doc="Facts about the pod as files."),
    field("fc", 17, FCVolumeSource, pointer=True, doc="A block device behind Fibre Channel."),
    field("azureFile", 18, AzureFileVolumeSource, pointer=True, doc="A file share of Azure."),
    field("configMap", 19, ConfigMapVolumeSource, pointer=True, doc="The keys of a ConfigMap as files."),
    field("vsphereVolume", 20, VsphereVirtualDiskVolumeSource, pointer=True, doc="A disk of vSphere."),
    field("quobyte", 21, QuobyteVolumeSource, pointer=True, doc="A volume of Quobyte; no longer supported by nodes."),
    field("azureDisk", 22, AzureDiskVolumeSource, pointer=True, doc="A data disk of Azure."),
    field("photonPersistentDisk", 23, PhotonPersistentDiskVolumeSource, pointer=True,
        doc="A disk of Photon Controller; no longer supported by nodes."),
    field("projected", 26, ProjectedVolumeSource, pointer=True, doc="Files from several sources in one directory."),
    field("portworxVolume", 24, PortworxVolumeSource, pointer=True, doc="A volume of Portworx."),
    field("scaleIO", 25, ScaleIOVolumeSource, pointer=True, doc="A volume of ScaleIO; no longer supported by nodes."),
    field("storageos", 27, StorageOSVolumeSource, pointer=True,
        doc="A volume of StorageOS; no longer supported by nodes."),
    field("csi", 28, CSIVolumeSource, pointer=True, doc="A volume that a CSI driver makes for the pod."),
    field("ephemeral", 29, EphemeralVolumeSource, pointer=True,
        doc="A volume with a PersistentVolumeClaim of its own, which is made for the pod and deleted with it."),
    field("image", 30, ImageVolumeSource, pointer=True, gate=gated("ImageVolume", "rule"),
        doc="The content of an OCI image or artifact."),
), doc="VolumeSource is the source of a volume; exactly one field is set.")
Volume = Struct("io.k8s.api.core.v1.Volume", lambda: (
    field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="dns-label"),
        doc="Name by which containers refer to the volume: a DNS label, unique in the pod."),
    field("", 2, VolumeSource, inline=True),
), doc="Volume is a directory or device that containers of a pod can use.")
