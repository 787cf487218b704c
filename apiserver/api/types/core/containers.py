"""Containers of core/v1 as they are specified: environment, ports, mounts, probes, lifecycle."""

from __future__ import annotations

from apiserver.api.schema import BOOL, INT32, INT64, INT_OR_STRING, STRING, Field, ListOf, Struct, field, string
from apiserver.api.types.core.references import (
    ConfigMapKeySelector,
    FileKeySelector,
    LocalObjectReference,
    ObjectFieldSelector,
    ResourceFieldSelector,
    SecretKeySelector,
)
from apiserver.api.types.core.resources import ResourceRequirements
from apiserver.api.types.core.security import SecurityContext

Protocol = string("v1.Protocol", "SCTP", "TCP", "UDP")
RecursiveReadOnlyMode = string("v1.RecursiveReadOnlyMode")
MountPropagationMode = string("v1.MountPropagationMode", "Bidirectional", "HostToContainer", "None")
URIScheme = string("v1.URIScheme", "HTTP", "HTTPS")
Signal = string(
    "v1.Signal", "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL",
        "SIGINT", "SIGIO", "SIGIOT", "SIGKILL",
    "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGRTMAX", "SIGRTMAX-1", "SIGRTMAX-10", "SIGRTMAX-11",
        "SIGRTMAX-12", "SIGRTMAX-13",
    "SIGRTMAX-14", "SIGRTMAX-2", "SIGRTMAX-3", "SIGRTMAX-4", "SIGRTMAX-5", "SIGRTMAX-6", "SIGRTMAX-7", "SIGRTMAX-8",
        "SIGRTMAX-9", "SIGRTMIN",
    "SIGRTMIN+1", "SIGRTMIN+10", "SIGRTMIN+11", "SIGRTMIN+12", "SIGRTMIN+13", "SIGRTMIN+14", "SIGRTMIN+15",
        "SIGRTMIN+2", "SIGRTMIN+3", "SIGRTMIN+4",
    "SIGRTMIN+5", "SIGRTMIN+6", "SIGRTMIN+7", "SIGRTMIN+8", "SIGRTMIN+9", "SIGSEGV", "SIGSTKFLT", "SIGSTOP",
        "SIGSYS", "SIGTERM", "SIGTRAP",
    "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ",
)
ResourceName = string("v1.ResourceName")
ResourceResizeRestartPolicy = string("v1.ResourceResizeRestartPolicy")
ContainerRestartRuleOnExitCodesOperator = string("v1.ContainerRestartRuleOnExitCodesOperator")
ContainerRestartRuleAction = string("v1.ContainerRestartRuleAction")
ContainerRestartPolicy = string("v1.ContainerRestartPolicy")
TerminationMessagePolicy = string("v1.TerminationMessagePolicy", "FallbackToLogsOnError", "File")
PullPolicy = string("v1.PullPolicy", "Always", "IfNotPresent", "Never")

EnvVarSource = Struct("io.k8s.api.core.v1.EnvVarSource", lambda: (
    field("fieldRef", 1, ObjectFieldSelector, pointer=True),
    field("resourceFieldRef", 2, ResourceFieldSelector, pointer=True),
    field("configMapKeyRef", 3, ConfigMapKeySelector, pointer=True),
    field("secretKeyRef", 4, SecretKeySelector, pointer=True),
    field("fileKeyRef", 5, FileKeySelector, pointer=True, gate="EnvFiles"),
))
EnvVar = Struct("io.k8s.api.core.v1.EnvVar", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("value", 2, STRING),
    field("valueFrom", 3, EnvVarSource, pointer=True),
))
ConfigMapEnvSource = Struct("io.k8s.api.core.v1.ConfigMapEnvSource", lambda: (
    field("", 1, LocalObjectReference, inline=True),
    field("optional", 2, BOOL, pointer=True),
))
SecretEnvSource = Struct("io.k8s.api.core.v1.SecretEnvSource", lambda: (
    field("", 1, LocalObjectReference, inline=True),
    field("optional", 2, BOOL, pointer=True),
))
EnvFromSource = Struct("io.k8s.api.core.v1.EnvFromSource", lambda: (
    field("prefix", 1, STRING),
    field("configMapRef", 2, ConfigMapEnvSource, pointer=True),
    field("secretRef", 3, SecretEnvSource, pointer=True),
))
ContainerPort = Struct("io.k8s.api.core.v1.ContainerPort", lambda: (
    field("name", 1, STRING),
    field("hostPort", 2, INT32),
    field("containerPort", 3, INT32, omit=False, required=True),
    field("protocol", 4, Protocol, default="TCP"),
    field("hostIP", 5, STRING),
))
VolumeMount = Struct("io.k8s.api.core.v1.VolumeMount", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("readOnly", 2, BOOL),
    field("recursiveReadOnly", 7, RecursiveReadOnlyMode, pointer=True),
    field("mountPath", 3, STRING, omit=False, required=True),
    field("subPath", 4, STRING),
    field("mountPropagation", 5, MountPropagationMode, pointer=True),
    field("subPathExpr", 6, STRING),
))
VolumeDevice = Struct("io.k8s.api.core.v1.VolumeDevice", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("devicePath", 2, STRING, omit=False, required=True),
))
ExecAction = Struct("io.k8s.api.core.v1.ExecAction", lambda: (
    field("command", 1, ListOf(STRING)),
))
HTTPHeader = Struct("io.k8s.api.core.v1.HTTPHeader", lambda: (
    field("name", 1, STRING, omit=False, required=True),
    field("value", 2, STRING, omit=False, required=True),
))
HTTPGetAction = Struct("io.k8s.api.core.v1.HTTPGetAction", lambda: (
    field("path", 1, STRING),
    field("port", 2, INT_OR_STRING, omit=False, required=True),
    field("host", 3, STRING),
    field("scheme", 4, URIScheme),
    field("httpHeaders", 5, ListOf(HTTPHeader)),
))
TCPSocketAction = Struct("io.k8s.api.core.v1.TCPSocketAction", lambda: (
    field("port", 1, INT_OR_STRING, omit=False, required=True),
    field("host", 2, STRING),
))
GRPCAction = Struct("io.k8s.api.core.v1.GRPCAction", lambda: (
    field("port", 1, INT32, omit=False, required=True),
    field("service", 2, STRING, omit=False, pointer=True, default=""),
))
SleepAction = Struct("io.k8s.api.core.v1.SleepAction", lambda: (
    field("seconds", 1, INT64, omit=False, required=True),
))
ProbeHandler = Struct("io.k8s.api.core.v1.ProbeHandler", lambda: (
    field("exec", 1, ExecAction, pointer=True),
    field("httpGet", 2, HTTPGetAction, pointer=True),
    field("tcpSocket", 3, TCPSocketAction, pointer=True),
    field("grpc", 4, GRPCAction, pointer=True),
))
Probe = Struct("io.k8s.api.core.v1.Probe", lambda: (
    field("", 1, ProbeHandler, inline=True),
    field("initialDelaySeconds", 2, INT32),
    field("timeoutSeconds", 3, INT32),
    field("periodSeconds", 4, INT32),
    field("successThreshold", 5, INT32),
    field("failureThreshold", 6, INT32),
    field("terminationGracePeriodSeconds", 7, INT64, pointer=True),
))
LifecycleHandler = Struct("io.k8s.api.core.v1.LifecycleHandler", lambda: (
    field("exec", 1, ExecAction, pointer=True),
    field("httpGet", 2, HTTPGetAction, pointer=True),
    field("tcpSocket", 3, TCPSocketAction, pointer=True),
    field("sleep", 4, SleepAction, pointer=True),
))
Lifecycle = Struct("io.k8s.api.core.v1.Lifecycle", lambda: (
    field("postStart", 1, LifecycleHandler, pointer=True),
    field("preStop", 2, LifecycleHandler, pointer=True),
    field("stopSignal", 3, Signal, pointer=True),
))
ContainerResizePolicy = Struct("io.k8s.api.core.v1.ContainerResizePolicy", lambda: (
    field("resourceName", 1, ResourceName, omit=False, required=True),
    field("restartPolicy", 2, ResourceResizeRestartPolicy, omit=False, required=True),
))
ContainerRestartRuleOnExitCodes = Struct("io.k8s.api.core.v1.ContainerRestartRuleOnExitCodes", lambda: (
    field("operator", 1, ContainerRestartRuleOnExitCodesOperator, required=True),
    field("values", 2, ListOf(INT32, "set")),
))
ContainerRestartRule = Struct("io.k8s.api.core.v1.ContainerRestartRule", lambda: (
    field("action", 1, ContainerRestartRuleAction, required=True),
    field("exitCodes", 2, ContainerRestartRuleOnExitCodes, pointer=True),
))


def _container() -> tuple[Field, ...]:
    """What every container has."""
    return (
        field("name", 1, STRING, omit=False, required=True),
        field("image", 2, STRING),
        field("command", 3, ListOf(STRING)),
        field("args", 4, ListOf(STRING)),
        field("workingDir", 5, STRING),
        field("ports", 6, ListOf(ContainerPort, "map", ("containerPort", "protocol"), merge_key="containerPort")),
        field("envFrom", 19, ListOf(EnvFromSource)),
        field("env", 7, ListOf(EnvVar, "map", ("name",), merge_key="name")),
        field("resources", 8, ResourceRequirements, omit=False),
        field("resizePolicy", 23, ListOf(ContainerResizePolicy), gate="InPlacePodVerticalScaling"),
        field("restartPolicy", 24, ContainerRestartPolicy, pointer=True),
        field("restartPolicyRules", 25, ListOf(ContainerRestartRule), gate="ContainerRestartRules"),
        field("volumeMounts", 9, ListOf(VolumeMount, "map", ("mountPath",), merge_key="mountPath")),
        field("volumeDevices", 21, ListOf(VolumeDevice, "map", ("devicePath",), merge_key="devicePath")),
        field("livenessProbe", 10, Probe, pointer=True),
        field("readinessProbe", 11, Probe, pointer=True),
        field("startupProbe", 22, Probe, pointer=True),
        field("lifecycle", 12, Lifecycle, pointer=True),
        field("terminationMessagePath", 13, STRING),
        field("terminationMessagePolicy", 20, TerminationMessagePolicy),
        field("imagePullPolicy", 14, PullPolicy),
        field("securityContext", 15, SecurityContext, pointer=True),
        field("stdin", 16, BOOL),
        field("stdinOnce", 17, BOOL),
        field("tty", 18, BOOL),
    )


Container = Struct("io.k8s.api.core.v1.Container", _container)
EphemeralContainerCommon = Struct("io.k8s.api.core.v1.EphemeralContainerCommon", _container)
EphemeralContainer = Struct("io.k8s.api.core.v1.EphemeralContainer", lambda: (
    field("", 1, EphemeralContainerCommon, inline=True),
    field("targetContainerName", 2, STRING),
))
