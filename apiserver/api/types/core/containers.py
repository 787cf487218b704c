"""Specified containers of core/v1: environment, ports, mounts, probes, lifecycle."""

from __future__ import annotations

from apiserver.api.features.gated_fields import gated
from apiserver.api.schema.language import (
    BOOL,
    INT32,
    INT64,
    INT_OR_STRING,
    STRING,
    Field,
    ListOf,
    Struct,
    field,
    string,
)
from apiserver.api.schema.limits import Limits, between
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

#: Limits of a port that is given by number or by name.
PORT_OR_NAME = Limits(least=1, most=65535, words="must be between 1 and 65535, inclusive", format="port-name")
_SOURCE_NAME = Limits(required=True, format="subdomain-prefix")

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
    field("fieldRef", 1, ObjectFieldSelector, pointer=True, doc="A field of the pod."),
    field("resourceFieldRef", 2, ResourceFieldSelector, pointer=True, doc="A request or limit of a container."),
    field("configMapKeyRef", 3, ConfigMapKeySelector, pointer=True, doc="A key of a ConfigMap."),
    field("secretKeyRef", 4, SecretKeySelector, pointer=True, doc="A key of a Secret."),
    field("fileKeyRef", 5, FileKeySelector, pointer=True, gate="EnvFiles",
        doc="A variable of a file in an emptyDir volume, which an init container wrote."),
), doc="EnvVarSource is the source of the value of an environment variable; exactly one field is set.")
EnvVar = Struct("io.k8s.api.core.v1.EnvVar", lambda: (
    field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="env-var-name"),
        doc="Name of the variable; any printable ASCII characters but `=`."),
    field("value", 2, STRING,
        doc="The value; `$(NAME)` is replaced with an earlier variable, and `$$` stands for a dollar sign. Empty when "
            "not set."),
    field("valueFrom", 3, EnvVarSource, pointer=True,
        doc="Where the value comes from; not allowed together with value."),
), doc="EnvVar is one environment variable.")
ConfigMapEnvSource = Struct("io.k8s.api.core.v1.ConfigMapEnvSource", lambda: (
    field("", 1, LocalObjectReference, inline=True),
    field("optional", 2, BOOL, pointer=True,
        doc="True when the container may start without the ConfigMap; false when not set."),
), doc="ConfigMapEnvSource names a ConfigMap that all variables are taken from.")
SecretEnvSource = Struct("io.k8s.api.core.v1.SecretEnvSource", lambda: (
    field("", 1, LocalObjectReference, inline=True),
    field("optional", 2, BOOL, pointer=True,
        doc="True when the container may start without the Secret; false when not set."),
), doc="SecretEnvSource names a Secret that all variables are taken from.")
EnvFromSource = Struct("io.k8s.api.core.v1.EnvFromSource", lambda: (
    field("prefix", 1, STRING, limits=Limits(format="env-var-name"),
        doc="Text that is put in front of every key to make the variable's name."),
    field("configMapRef", 2, ConfigMapEnvSource, pointer=True, limits=Limits(parts={"name": _SOURCE_NAME}),
        doc="The ConfigMap whose keys become variables."),
    field("secretRef", 3, SecretEnvSource, pointer=True, limits=Limits(parts={"name": _SOURCE_NAME}),
        doc="The Secret whose keys become variables."),
), doc="EnvFromSource turns every key of a ConfigMap or Secret into a variable.")
ContainerPort = Struct("io.k8s.api.core.v1.ContainerPort", lambda: (
    field("name", 1, STRING, limits=Limits(format="port-name"),
        doc="Name by which services and probes may refer to the port: at most 15 characters, unique in the pod."),
    field("hostPort", 2, INT32, limits=between(1, 65535, empty=False),
        doc="Port of the node that is forwarded to this one, 1 to 65535; with hostNetwork it must be equal to "
            "containerPort."),
    field("containerPort", 3, INT32, omit=False, required=True, limits=between(1, 65535, required=True),
        doc="Port in the pod, 1 to 65535."),
    field("protocol", 4, Protocol, default="TCP", limits=Limits(required=True),
        doc="TCP (the default), UDP or SCTP."),
    field("hostIP", 5, STRING, doc="Address of the node to which hostPort is bound; all of them when empty."),
), doc="ContainerPort documents a port that a container listens on.")
VolumeMount = Struct("io.k8s.api.core.v1.VolumeMount", lambda: (
    field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Name of the volume in the pod's spec.volumes."),
    field("readOnly", 2, BOOL, doc="True to mount the volume read-only; false when not set."),
    field("recursiveReadOnly", 7, RecursiveReadOnlyMode, pointer=True,
        limits=Limits(values=("Disabled", "Enabled", "IfPossible")),
        doc="Whether mounts below a read-only one are read-only, too: Disabled (the default), IfPossible or Enabled."),
    field("mountPath", 3, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Where the volume appears in the container; it must not contain `:`."),
    field("subPath", 4, STRING, limits=Limits(format="relative-path"),
        doc="Path in the volume that is mounted; its root when empty."),
    field("mountPropagation", 5, MountPropagationMode, pointer=True,
        doc="Whether later mounts are passed on: None (the default), HostToContainer, or Bidirectional for privileged "
            "containers."),
    field("subPathExpr", 6, STRING, limits=Limits(format="relative-path"),
        doc="Like subPath, with `$(NAME)` replaced with environment variables; not allowed together with subPath."),
), doc="VolumeMount puts a volume into a container's filesystem.")
VolumeDevice = Struct("io.k8s.api.core.v1.VolumeDevice", lambda: (
    field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Name of a volume that is a PersistentVolumeClaim with volumeMode Block."),
    field("devicePath", 2, STRING, omit=False, required=True, limits=Limits(required=True),
        doc="Path of the device file in the container."),
), doc="VolumeDevice puts a volume as a raw block device into a container.")
ExecAction = Struct("io.k8s.api.core.v1.ExecAction", lambda: (
    field("command", 1, ListOf(STRING), limits=Limits(required=True),
        doc="Program and arguments, run without a shell in the root directory; exit code 0 means success."),
), doc="ExecAction runs a command in a container.")
HTTPHeader = Struct("io.k8s.api.core.v1.HTTPHeader", lambda: (
    field("name", 1, STRING, omit=False, required=True, doc="Name of the header."),
    field("value", 2, STRING, omit=False, required=True, doc="Value of the header."),
), doc="HTTPHeader is a header of a request.")
HTTPGetAction = Struct("io.k8s.api.core.v1.HTTPGetAction", lambda: (
    field("path", 1, STRING, fills="/", limits=Limits(required=True),
        doc="Path of the request; / when not set."),
    field("port", 2, INT_OR_STRING, omit=False, required=True,
        limits=PORT_OR_NAME,
        doc="Port of the container, as a number or by name."),
    field("host", 3, STRING,
        doc="Host to connect to; the pod's address when not set. For a virtual host set the header Host instead."),
    field("scheme", 4, URIScheme, fills="HTTP", limits=Limits(empty=True),
        doc="HTTP (the default) or HTTPS; certificates are not verified."),
    field("httpHeaders", 5, ListOf(HTTPHeader), doc="Headers of the request; a name may be repeated."),
), doc="HTTPGetAction sends a GET request; an answer from 200 to 399 is success.")
TCPSocketAction = Struct("io.k8s.api.core.v1.TCPSocketAction", lambda: (
    field("port", 1, INT_OR_STRING, omit=False, required=True,
        limits=PORT_OR_NAME,
        doc="Port of the container, as a number or by name."),
    field("host", 2, STRING, doc="Host to connect to; the pod's address when not set."),
), doc="TCPSocketAction opens a connection; that it can be opened is success.")
GRPCAction = Struct("io.k8s.api.core.v1.GRPCAction", lambda: (
    field("port", 1, INT32, omit=False, required=True, limits=between(1, 65535),
        doc="Port of the gRPC server, 1 to 65535."),
    field("service", 2, STRING, omit=False, pointer=True, default="",
        doc="Service name in the health request; empty when not set, for the server as a whole."),
), doc="GRPCAction calls the standard gRPC health service.")
SleepAction = Struct("io.k8s.api.core.v1.SleepAction", lambda: (
    field("seconds", 1, INT64, omit=False, required=True,
        doc="How long to wait, in seconds; not longer than the termination grace period."),
), doc="SleepAction waits.")
ProbeHandler = Struct("io.k8s.api.core.v1.ProbeHandler", lambda: (
    field("exec", 1, ExecAction, pointer=True, doc="Run a command in the container."),
    field("httpGet", 2, HTTPGetAction, pointer=True, doc="Send an HTTP request."),
    field("tcpSocket", 3, TCPSocketAction, pointer=True, doc="Open a TCP connection."),
    field("grpc", 4, GRPCAction, pointer=True, doc="Call the gRPC health service."),
), doc="ProbeHandler is the check that a probe makes; exactly one field is set.")
Probe = Struct("io.k8s.api.core.v1.Probe", lambda: (
    field("", 1, ProbeHandler, inline=True),
    field("initialDelaySeconds", 2, INT32, limits=Limits(least=0),
        doc="Seconds between the start of the container and the first check; 0 when not set."),
    field("timeoutSeconds", 3, INT32, fills=1, limits=Limits(least=0),
        doc="Seconds after which a check counts as failed; 1 when not set."),
    field("periodSeconds", 4, INT32, fills=10, limits=Limits(least=0),
        doc="Seconds from one check to the next; 10 when not set."),
    field("successThreshold", 5, INT32, fills=1, limits=Limits(least=0),
        doc="Successes in a row that are needed after a failure; 1 when not set, and always 1 for liveness and startup "
            "probes."),
    field("failureThreshold", 6, INT32, fills=3, limits=Limits(least=0),
        doc="Failures in a row after which the probe as a whole has failed; 3 when not set."),
    field("terminationGracePeriodSeconds", 7, INT64, pointer=True,
        limits=Limits(least=1, words="must be greater than 0"),
        doc="Seconds to shut down after this probe has failed, at least 1; the pod's own period when not set. Not for "
            "readiness probes."),
), doc="Probe checks a container periodically.")
LifecycleHandler = Struct("io.k8s.api.core.v1.LifecycleHandler", lambda: (
    field("exec", 1, ExecAction, pointer=True, doc="Run a command in the container."),
    field("httpGet", 2, HTTPGetAction, pointer=True, doc="Send an HTTP request."),
    field("tcpSocket", 3, TCPSocketAction, pointer=True,
        doc="Not supported: a handler with it fails. It is kept so that old objects stay valid."),
    field("sleep", 4, SleepAction, pointer=True, gate=gated("PodLifecycleSleepAction", prunes=True),
        doc="Wait for some seconds."),
), doc="LifecycleHandler is an action at a point of a container's life; exactly one field is set.")
Lifecycle = Struct("io.k8s.api.core.v1.Lifecycle", lambda: (
    field("postStart", 1, LifecycleHandler, pointer=True,
        doc="Done right after the start; the container is killed when it fails. It may run before the container's own "
            "process."),
    field("preStop", 2, LifecycleHandler, pointer=True,
        doc="Done before the container is stopped; the stop signal is sent when it has ended. The grace period runs "
            "meanwhile."),
    field("stopSignal", 3, Signal, pointer=True, gate=gated("ContainerStopSignals", prunes=True),
        doc="Signal that stops the container, such as SIGTERM; the image's or the runtime's when not set. Needs "
            "spec.os.name."),
), doc="Lifecycle has the actions at the start and the stop of a container.")
ContainerResizePolicy = Struct("io.k8s.api.core.v1.ContainerResizePolicy", lambda: (
    field("resourceName", 1, ResourceName, omit=False, required=True, limits=Limits(values=("cpu", "memory")),
        doc="The resource: cpu or memory."),
    field("restartPolicy", 2, ResourceResizeRestartPolicy, omit=False, required=True,
        limits=Limits(values=("NotRequired", "RestartContainer")),
        doc="NotRequired (the default) changes it while the container runs, RestartContainer restarts the container."),
), doc="ContainerResizePolicy decides whether a change of a resource restarts the container.")
ContainerRestartRuleOnExitCodes = Struct("io.k8s.api.core.v1.ContainerRestartRuleOnExitCodes", lambda: (
    field("operator", 1, ContainerRestartRuleOnExitCodesOperator, required=True,
        limits=Limits(empty=True, values=("In", "NotIn")),
        doc="In for the listed exit codes, NotIn for all others."),
    field("values", 2, ListOf(INT32, "set"), limits=Limits(items=255),
        doc="Exit codes, 0 to 255; at most 255 of them."),
), doc="ContainerRestartRuleOnExitCodes selects exit codes.")
ContainerRestartRule = Struct("io.k8s.api.core.v1.ContainerRestartRule", lambda: (
    field("action", 1, ContainerRestartRuleAction, required=True,
        limits=Limits(empty=True, values=("Restart", "RestartAllContainers")),
        doc="Restart to start the container again, RestartAllContainers to start all containers of the pod again."),
    field("exitCodes", 2, ContainerRestartRuleOnExitCodes, pointer=True, limits=Limits(required="must be specified"),
        doc="Exit codes for which the rule holds."),
), doc="ContainerRestartRule is an action for certain exit codes of a container.")


def _container(*, resizable: bool = True) -> tuple[Field, ...]:
    """Return the fields common to all containers. `resizable`: a resize policy counts as a use of its gate."""
    return (
        field("name", 1, STRING, omit=False, required=True, limits=Limits(required=True, format="dns-label"),
            doc="Name of the container: a DNS label, unique in the pod, and fixed once the pod exists."),
        field("image", 2, STRING, limits=Limits(required=True),
            doc="Reference of the image to run."),
        field("command", 3, ListOf(STRING),
            doc="Program to run instead of the image's entry point; `$(NAME)` is replaced with environment variables."),
        field("args", 4, ListOf(STRING),
            doc="Arguments instead of the image's; `$(NAME)` is replaced with environment variables."),
        field("workingDir", 5, STRING, doc="Directory in which the program starts; the image's when not set."),
        field("ports", 6, ListOf(ContainerPort, "map", ("containerPort", "protocol"), merge_key="containerPort"),
            doc="Ports that the container listens on, for information; a port that is not listed can be reached as "
                "well."),
        field("envFrom", 19, ListOf(EnvFromSource),
            doc="ConfigMaps and Secrets whose keys become environment variables; later ones win, and env wins over "
                "all."),
        field("env", 7, ListOf(EnvVar, "map", ("name",), merge_key="name"),
            doc="Environment variables of the container."),
        field("resources", 8, ResourceRequirements, omit=False, doc="Resources that the container needs and may use."),
        field("resizePolicy", 23, ListOf(ContainerResizePolicy),
            gate=gated("InPlacePodVerticalScaling", "object", counts=resizable),
            doc="Effect of a change of each resource on the running container."),
        field("restartPolicy", 24, ContainerRestartPolicy, pointer=True,
            limits=Limits(values=("Always", "Never", "OnFailure")),
            doc="When the container is restarted: Always, OnFailure or Never; the pod's policy when not set. Always "
                "makes an init container a sidecar."),
        field("restartPolicyRules", 25, ListOf(ContainerRestartRule), gate=gated("ContainerRestartRules", "rule"),
            limits=Limits(items=20, all_items=True),
            doc="Rules by exit code that come before restartPolicy, the first match counts; at most 20. They need a "
                "restartPolicy."),
        field("volumeMounts", 9, ListOf(VolumeMount, "map", ("mountPath",), merge_key="mountPath"),
            doc="Volumes of the pod that appear as directories or files in the container."),
        field("volumeDevices", 21, ListOf(VolumeDevice, "map", ("devicePath",), merge_key="devicePath"),
            doc="Volumes of the pod that appear as block devices in the container."),
        field("livenessProbe", 10, Probe, pointer=True, doc="Probe whose failure restarts the container."),
        field("readinessProbe", 11, Probe, pointer=True,
            doc="Probe that must succeed for services to send traffic to the pod."),
        field("startupProbe", 22, Probe, pointer=True,
            doc="Probe that holds the other two back until it succeeds; its failure restarts the container."),
        field("lifecycle", 12, Lifecycle, pointer=True,
            doc="Actions after the start and before the stop of the container."),
        field("terminationMessagePath", 13, STRING, fills="/dev/termination-log",
            doc="File from which the container's last message is read; /dev/termination-log when not set."),
        field("terminationMessagePolicy", 20, TerminationMessagePolicy, fills="File",
            limits=Limits(required=True, values=("File", "FallbackToLogsOnError")),
            doc="File (the default) reads only terminationMessagePath, FallbackToLogsOnError uses the end of the log "
                "when that is empty."),
        field("imagePullPolicy", 14, PullPolicy, limits=Limits(required=True),
            doc="Always, IfNotPresent or Never; when not set, Always for the tag latest or none, else IfNotPresent."),
        field("securityContext", 15, SecurityContext, pointer=True,
            doc="Security settings of the container; each overrides the pod's."),
        field("stdin", 16, BOOL,
            doc="True to keep standard input open, so that a client can attach to it; false when not set."),
        field("stdinOnce", 17, BOOL,
            doc="True to close standard input after the first client that attached has left; false when not set."),
        field("tty", 18, BOOL,
            doc="True to give the container a terminal, for which stdin must be true; false when not set."),
    )


Container = Struct("io.k8s.api.core.v1.Container", _container, doc="Container is one container of a pod.")
EphemeralContainerCommon = Struct("io.k8s.api.core.v1.EphemeralContainerCommon", lambda: _container(resizable=False),
    doc="EphemeralContainerCommon has the fields that ephemeral containers share with others.")
EphemeralContainer = Struct("io.k8s.api.core.v1.EphemeralContainer", lambda: (
    field("", 1, EphemeralContainerCommon, inline=True),
    field("targetContainerName", 2, STRING,
        doc="Container whose process namespace is shared; the pod's own namespaces are used when empty."),
),
    doc="EphemeralContainer is a container that is added to a running pod for debugging; it is never restarted or "
        "removed.")
