"""Feature gates of Kubernetes 1.36.2 that change nothing in kubedra. They are accepted with a warning.

Facts: pkg/features and the features packages of apiserver, apiextensions-apiserver, client-go, controller-manager and
component-base.
"""

from __future__ import annotations

from typing import Final

__all__ = ["OTHER_GATES"]

OTHER_GATES: Final = frozenset((
    "APIResponseCompression", "APIServerTracing", "APIServingWithRoutine", "AggregatedDiscoveryRemoveBetaType",
    "AllowDNSOnlyNodeCSR", "AllowInsecureKubeletCertificateSigningRequests",
    "AllowOverwriteTerminationGracePeriodSeconds", "AllowServiceExternalIPs", "AllowUnsafeMalformedObjectDeletion",
    "AtomicFIFO", "BtreeWatchCache", "CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions",
    "CPUManagerPolicyOptions", "CRDObservedGenerationTracking", "CRDValidationRatcheting", "CRIListStreaming",
    "CSIVolumeHealth", "ChangeContainerStatusOnKubeletRestart", "ClientsAllowCARotation", "ClientsAllowCBOR",
    "ClientsAllowTLSCacheGC", "ClientsPreferCBOR", "CloudControllerManagerWatchBasedRoutesReconciliation",
    "CloudControllerManagerWebhook", "ConcurrentWatchObjectDecode", "ConsistentListFromCache",
    "ContainerCheckpoint", "ContextualLogging", "ControllerManagerReleaseLeaderElectionLockOnExit",
    "CustomCPUCFSQuotaPeriod", "CustomResourceFieldSelectors", "DeclarativeValidationTakeover",
    "DetectCacheInconsistency", "DisableAllocatorDualWrite", "DisableCPUQuotaWithExclusiveCPUs",
    "DisableNodeKubeProxyVersion", "EventedPLEG", "ExecProbeTimeout", "ExtendWebSocketsToKubelet",
    "GitRepoVolumeDriver", "GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority", "ImageMaximumGCAge",
    "InOrderInformers", "InOrderInformersBatchProcess", "InPlacePodVerticalScalingExclusiveCPUs",
    "InPlacePodVerticalScalingExclusiveMemory", "InformerResourceVersion", "JobBackoffLimitPerIndex",
    "JobSuccessPolicy", "KMSv1", "KubeletCgroupDriverFromCRI", "KubeletCrashLoopBackOffMax",
    "KubeletEnsureSecretPulledImages", "KubeletFineGrainedAuthz", "KubeletInUserNamespace", "KubeletPSI",
    "KubeletPodResourcesListUseActivePods", "KubeletRegistrationGetOnExistsOnly", "KubeletSeparateDiskGC",
    "KubeletTracing", "ListFromCacheSnapshot", "LocalStorageCapacityIsolationFSQuotaMonitoring",
    "LogarithmicScaleDown", "LoggingAlphaOptions", "LoggingBetaOptions", "LoggingStableOptions",
    "MatchLabelKeysInPodAffinity", "MatchLabelKeysInPodTopologySpreadSelectorMerge", "MemoryQoS",
    "MultiCIDRServiceAllocator", "NFTablesProxyMode", "NativeHistograms", "NodeInclusionPolicyInPodTopologySpread",
    "NodeLogQuery", "NodeSwap", "OpenAPIEnums", "OpportunisticBatching", "OrderedNamespaceDeletion",
    "PLEGOnDemandRelist", "PersistentVolumeClaimUnusedSinceTime", "PodAndContainerStatsFromCRI",
    "PodLevelResourceManagers", "PodLifecycleSleepActionAllowZero", "PodLogsQuerySplitStreams",
    "PodReadyToStartContainersCondition", "PodSchedulingReadiness", "PodsAPI", "PortForwardWebsockets",
    "PreventStaticPodAPIReferences", "QOSReserved", "RecursiveReadOnlyMounts", "ReduceDefaultCrashLoopBackOffDecay",
    "RelaxedDNSSearchValidation", "RelaxedEnvironmentVariableValidation", "ReloadKubeletServerCertificateFile",
    "RemoteRequestHeaderUID", "ResilientWatchCacheInitialization", "RestartAllContainersOnContainerExits",
    "RetryGenerateName", "RotateKubeletServerCertificate", "RuntimeClassInImageCriApi",
    "SchedulerAsyncPreemption", "SeparateCacheWatchRPC", "SeparateTaintEvictionController",
    "ServiceAccountTokenJTI", "ServiceAccountTokenNodeBinding", "ServiceAccountTokenNodeBindingValidation",
    "SidecarContainers", "SizeBasedListCostEstimate", "StaleControllerConsistencyDaemonSet",
    "StaleControllerConsistencyJob", "StaleControllerConsistencyReplicaSet",
    "StaleControllerConsistencyStatefulSet", "StatefulSetSemanticRevisionComparison", "StorageNamespaceIndex",
    "StorageVersionAPI", "StorageVersionHash", "StorageVersionMigrator", "StreamingCollectionEncodingToJSON",
    "StreamingCollectionEncodingToProtobuf", "StructuredAuthenticationConfigurationEgressSelector",
    "TopologyManagerPolicyAlphaOptions", "TopologyManagerPolicyBetaOptions", "TopologyManagerPolicyOptions",
    "TranslateStreamCloseWebsocketRequests", "UnauthenticatedHTTP2DOSMitigation",
    "UnknownVersionInteroperabilityProxy", "UnlockWhileProcessingFIFO", "UserNamespacesHostNetworkSupport",
    "WatchCacheInitializationPostStartHook", "WatchListClient", "WinDSR", "WinOverlay",
    "WindowsCPUAndMemoryAffinity", "WindowsGracefulNodeShutdown", "WindowsHostNetwork",
))  # fmt: skip
