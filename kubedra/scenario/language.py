"""The language of scenario files, as the JSON schema that checks them and documents them.

Editors use the schema (`kubedra scenario schema`), `check` applies it, and docs/reference/scenario.md is its text.
"""

from __future__ import annotations

from typing import Any, Final

from kubedra.runtime.crash_points import POINTS
from kubedra.runtime.objects import Json
from kubedra.scenario.words import (
    COUNT,
    DURATION,
    OBJECT,
    TARGET,
    TARGETS,
    VALUES,
    choice,
    flag,
    items,
    mapping,
    number,
    record,
    step,
    text,
    with_text,
)

__all__ = ["ACTIONS", "SCHEMA"]

_NAMESPACE: Final = text("namespace of the object (default: the scenario's)")
_TIMEOUT: Final = with_text(
    DURATION, "time limit (default: 30s or $KUBEDRA_WAIT_TIMEOUT); of virtual time with a virtual clock"
)
_WITHIN: Final = with_text(
    DURATION,
    "repeat the check until it succeeds, for at most this long (default: 5s, with a virtual clock 0s); virtual with a"
    " virtual clock",
)
_COUNT: Final = with_text(COUNT, 'the expected number, or a bound such as ">=2"')
_NODE_FIELDS: Final[dict[str, Json]] = {
    "devices": number("number of example GPUs (driver gpu.example.com)", minimum=0),
    "profile": text("hardware: a name from `kubedra profiles`, or a file"),
    "slices": items(text("file"), "files of captured ResourceSlices to publish"),
    "slicesOf": text("name of the node in the slices, if different"),
    "labels": with_text(VALUES, "labels of the node"),
    "capacity": with_text(VALUES, "capacity of the node, such as cpu: 8"),
    "taints": items(OBJECT, "taints of the node, as in its spec"),
    "jobsExitAfter": with_text(DURATION, "end the emulated containers of Jobs on the node this long after their start"),
    "drivers": flag("run the kubelet of this node as a process that real drivers can register with"),
    "run": flag("run the commands of containers as local processes; implies drivers"),
}
_COMMAND: Final[Json] = {
    "title": "a command line or a list of words",
    "type": ["string", "array"],
    "items": {"title": "a text or a number", "type": ["string", "number"]},
    "minItems": 1,
}
_PROCESS_FIELDS: Final[dict[str, Json]] = {
    "env": with_text(VALUES, "further environment variables"),
    "node": text("node with drivers: sets NODE_NAME and the directories of its kubelet in the environment"),
    "directory": text("working directory (default: the directory of the scenario file)"),
}
_REQUEST_FILTERS: Final = {
    "user": text("user name"),
    "userAgent": text("prefix of the user agent"),
    "verb": text("verb of the API, such as get, create, update"),
    "resource": text("plural, or with a subresource: pods/status"),
    "namespace": text("namespace"),
    "name": text("name of the object"),
    "code": number("status code of the response"),
}
_CALL_FILTERS: Final = {
    "node": text("node"),
    "driver": text("driver"),
    "method": text("gRPC method, such as NodePrepareResources"),
    "claim": text("NAMESPACE/NAME of a claim"),
    "code": text("gRPC code of the answer, such as OK or Unavailable"),
}
_MATCH: Final = {
    key: text(f"pattern of the {words}")
    for key, words in (
        ("verb", "verb"),
        ("group", "API group"),
        ("resource", "resource, such as pods or pods/status"),
        ("namespace", "namespace"),
        ("name", "object's name"),
        ("user", "user"),
        ("userAgent", "user agent"),
        ("path", "path"),
    )
}
_NAMED: Final[Json] = {
    "title": "node/NAME or process/NAME",
    "type": "string",
    "pattern": r"^(node|process)/[^/\s]+$",
}
_TAINT: Final[Json] = {
    "title": "KEY:EFFECT or KEY=VALUE:EFFECT",
    "type": "string",
    "pattern": r"^[^=:\s]+(=[^:\s]*)?:(NoSchedule|PreferNoSchedule|NoExecute|None)$",
}
_NODE_NAME: Final = text("name of the node", pattern=r"^(node/)?[^/\s]+$")
_MANIFEST: Final[Json] = {
    "title": "a file, a directory, YAML text, an object, or a list of these",
    "type": ["string", "object", "array"],
    "items": {"title": "a file, a directory, YAML text or an object", "type": ["string", "object"]},
    "minItems": 1,
}

#: The steps by action, in the order of the reference.
ACTIONS: Final[dict[str, Json]] = {
    "apply": step(
        "apply",
        with_text(_MANIFEST, "objects to apply; paths are relative to the scenario file"),
        "Apply objects with server-side apply.",
        force=flag("take over fields of other managers"),
        strict=flag("false drops unknown fields (default true: they are errors)"),
        fieldManager=text("field manager (default kubedra)"),
    ),
    "delete": step(
        "delete",
        with_text(TARGETS, "objects to delete"),
        "Delete objects. Use `wait` with `until: delete` to wait.",
        namespace=_NAMESPACE,
        gracePeriod=with_text(DURATION, "0 deletes a pod immediately"),
    ),
    "patch": step(
        "patch",
        with_text(TARGET, "object to change"),
        "Merge-patch an object.",
        "with",
        namespace=_NAMESPACE,
        subresource=text("subresource, such as status"),
        **{"with": with_text(OBJECT, "merge patch; null removes a field")},
    ),
    "annotate": step(
        "annotate",
        with_text(TARGET, "object to change"),
        "Set annotations, such as those for [faults of an emulated node](../howto/simulated-hardware.md#faults).",
        "with",
        namespace=_NAMESPACE,
        **{"with": with_text(VALUES, "annotations by name; null removes one")},
    ),
    "label": step(
        "label",
        with_text(TARGET, "object to change"),
        "Set labels.",
        "with",
        namespace=_NAMESPACE,
        **{"with": with_text(VALUES, "labels by name; null removes one")},
    ),
    "scale": step(
        "scale",
        with_text(TARGET, "workload"),
        "Set the number of replicas.",
        "to",
        namespace=_NAMESPACE,
        to=number("number of replicas", minimum=0),
    ),
    "wait": step(
        "wait",
        with_text(TARGETS, "objects to wait for"),
        "Wait until objects meet a condition. With a virtual clock time advances timer by timer. The wait fails early"
        " if the control plane is idle and no process of the scenario runs.",
        "until",
        namespace=_NAMESPACE,
        until=text(
            "phase=X, condition=TYPE[=STATUS], create or delete",
            title="phase=X, condition=TYPE[=STATUS], create or delete",
            pattern=r"^(phase=.+|condition=[^=]+(=[^=]+)?|create|delete)$",
        ),
        timeout=_TIMEOUT,
        failFast=flag("false waits until the timeout also if the control plane is idle (default true)"),
    ),
    "expect": step(
        "expect",
        text(
            "KIND/NAME, or KIND for the objects of a kind",
            title="KIND or KIND/NAME",
            pattern=r"^[A-Za-z][A-Za-z0-9.-]*(/[^/\s]+)?$",
        ),
        "Check objects. Without `count`, one object must match; without `matches`, it must exist.",
        namespace=text('namespace of the objects (default: the scenario\'s); "" means all'),
        matches=with_text(
            OBJECT, "fields that the object must have, others are ignored; an item of a list must match any item"
        ),
        count=with_text(COUNT, 'expected number of matching objects, or a bound such as ">=2"; 0 means none'),
        labelSelector=text("with KIND: only objects with these labels"),
        fieldSelector=text("with KIND: only objects with these fields"),
        within=_WITHIN,
    ),
    "explain": step(
        "explain",
        with_text(TARGET, "pod/NAME, claim/NAME, node/NAME or podgroup/NAME"),
        "Check the [explanation](../howto/explain.md) of an object.",
        namespace=_NAMESPACE,
        verdict=text("expected verdict of a pod, such as scheduled or unschedulable"),
        contains=text("text that the report must have"),
        within=_WITHIN,
    ),
    "logs": step(
        "logs",
        with_text(TARGET, "pod"),
        "Check the log of a container.",
        "contains",
        namespace=_NAMESPACE,
        container=text("container (default: the only one)"),
        contains=text("text that the log must have"),
        within=_WITHIN,
    ),
    "snapshot": step(
        "snapshot",
        text("a name of your own, for `restore`"),
        "Keep the state of the cluster in the server's memory.",
        file=text("also write it to this file"),
    ),
    "restore": step(
        "restore",
        text("name of a snapshot of this scenario, or a file"),
        "Go back to a snapshot: objects, their uids and revisions, and virtual time.",
    ),
    "advance": step(
        "advance",
        {
            **DURATION,
            "title": "a duration such as 5m, or next or idle",
            "pattern": rf"{DURATION['pattern']}|^(next|idle)$",
            "description": "by a duration, to the `next` timer, or until the control plane is `idle`",
        },
        "Advance [virtual time](../howto/virtual-time.md). Needs `clock: virtual`.",
        limit=with_text(DURATION, "with next and idle: advance by at most this (default 1h)"),
        pause=with_text(
            DURATION, "real time before each timer for processes to react (default 10ms if the scenario runs any)"
        ),
    ),
    "fault": step(
        "fault",
        text("a name of your own, for `clear` and `fired`"),
        "Inject a [fault](../howto/faults-and-requests.md) into requests, until `clear` or the end of the scenario.",
        match=record("Patterns with *, ? and […] that a request must match; by default all do.", _MATCH),
        status=choice("return this status without any effect", 409, 410, 429, 500, 503),
        retryAfter=with_text(DURATION, "Retry-After of the response, in whole seconds"),
        message=text("message of the response"),
        close=choice("close the connection before or after the request takes effect", "before", "after"),
        watch=choice(
            "end a watch as at its timeout, with its connection, or with the event 410", "end", "close", "expired"
        ),
        watchAfter=with_text(DURATION, "end the watch this long after it opened"),
        latency=with_text(DURATION, "delay the request"),
        count=number("hit at most this many requests", minimum=1),
        probability={
            "title": "a number from 0 to 1",
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "hit each request with this probability",
        },
        seed=number("selects the requests that `probability` hits (default 0)"),
    ),
    "clear": step("clear", text("name of a fault"), "End a fault."),
    "fired": step(
        "fired",
        text("name of a fault, also after `clear`"),
        "Check how many requests a fault has hit.",
        "count",
        count=_COUNT,
        within=_WITHIN,
    ),
    "requests": step(
        "requests",
        record("Filters; all must match.", _REQUEST_FILTERS),
        "Check the number of requests that the server got in this scenario, its components' included.",
        "count",
        count=_COUNT,
        within=_WITHIN,
    ),
    "calls": step(
        "calls",
        record("Filters; all must match.", _CALL_FILTERS),
        "Check the number of calls between kubelets and real drivers.",
        "count",
        count=_COUNT,
        within=_WITHIN,
    ),
    "addNode": step(
        "addNode",
        text("name of the node"),
        "Add a node and wait until it is Ready.",
        **_NODE_FIELDS,
    ),
    "drain": step(
        "drain",
        with_text(_NODE_NAME, "node"),
        "Cordon a node, evict its pods as `kubectl drain --ignore-daemonsets` does, and wait until they are gone.",
        timeout=_TIMEOUT,
        gracePeriod=with_text(DURATION, "grace period of the pods (default: their own)"),
    ),
    "cordon": step("cordon", with_text(_NODE_NAME, "node"), "Mark a node unschedulable."),
    "uncordon": step("uncordon", with_text(_NODE_NAME, "node"), "Mark a node schedulable again."),
    "taint": step(
        "taint",
        with_text(_NODE_NAME, "node"),
        "Taint a node, or one of its emulated devices.",
        "with",
        device=text("device, as NAME or DRIVER/NAME; without it the node is tainted"),
        **{"with": with_text(_TAINT, "KEY:EFFECT or KEY=VALUE:EFFECT")},
    ),
    "untaint": step(
        "untaint",
        with_text(_NODE_NAME, "node"),
        "Remove the taints of a node, or of one of its emulated devices.",
        device=text("device, as NAME or DRIVER/NAME"),
        key=text("key of the node's taint (default: all that have no prefix kubernetes.io)"),
    ),
    "kill": step(
        "kill",
        with_text(_NAMED, "node/NAME or process/NAME"),
        "Kill a node or a process without a shutdown. A killed node stops renewing its lease; its objects stay.",
        at=choice(
            "node with drivers: arm a [crash point](../howto/go-driver.md#from-pytest) instead; the next `start` of"
            " the node waits until it was reached",
            *POINTS,
        ),
    ),
    "start": step(
        "start",
        with_text(_NAMED, "node/NAME that was killed, or process/NAME"),
        "Start a killed node, or a process beside the scenario, which is stopped at the end. `kill`, `stop` and"
        " another `start` without `command` refer to it by name.",
        command=with_text(_COMMAND, "command of a new process; a text runs in a shell"),
        ready=text("text in the output of the process that ends this step"),
        timeout=_TIMEOUT,
        **_PROCESS_FIELDS,
    ),
    "stop": step(
        "stop", with_text(_NAMED, "node with drivers, or process"), "Stop a process as Ctrl-C does (SIGTERM)."
    ),
    "run": step(
        "run",
        with_text(_COMMAND, "command; a text runs in a shell"),
        "Run a command and check its exit code and output. Its environment has KUBECONFIG and KUBEDRA_URL.",
        exitCode=number("expected exit code (default 0)"),
        output=text("text that the output must have"),
        timeout=_TIMEOUT,
        **_PROCESS_FIELDS,
    ),
}

_PLANE: Final = record(
    "The control plane of the scenario. Ignored with --kubeconfig and --server.",
    {
        "release": text(
            "Kubernetes release to emulate, such as 1.35", pattern=r"^1\.[0-9]+$", title="a release such as 1.35"
        ),
        "gates": mapping(flag("on or off"), "feature gates by name"),
        "runtimeConfig": mapping(flag("on or off"), "API versions by name, such as resource.k8s.io/v1beta2: true"),
        "clock": text(
            "virtual, virtual=TIME, or real (default)",
            pattern=r"^(real|virtual(=.+)?)$",
            title="real, virtual or virtual=TIME",
        ),
        "seed": number("makes UIDs, names and random choices repeatable"),
        "controllers": flag("false starts only the API server (default true)"),
        "storage": text("memory (default), sqlite or a database URL"),
        "from": text("begin with the objects of this file of `kubedra import` or `kubedra snapshot`"),
        "jobsExitAfter": with_text(DURATION, "end the emulated containers of Jobs this long after their start"),
        "flags": items(text("flag"), "further flags of `kubedra serve`"),
    },
)

_VARIABLE: Final[Json] = {
    "title": "a text, a number, true, false or null",
    "type": ["string", "number", "boolean", "null"],
}

SCHEMA: Final[dict[str, Any]] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "kubedra scenario",
    **record(
        "A scenario for `kubedra scenario run`: a control plane and steps.",
        {
            "name": text("name in reports (default: the file's)"),
            "vars": mapping(
                _VARIABLE,
                "values of ${NAME} in this file; `--set NAME=VALUE` overrides them and is required for empty ones",
            ),
            "matrix": mapping(
                items(_VARIABLE, "values", minItems=1),
                "run the scenario with each combination of these values of variables",
            ),
            "namespace": text("default namespace of objects (default: default); it is created if it does not exist"),
            "plane": {"$ref": "#/definitions/plane"},
            "nodes": items({"$ref": "#/definitions/node"}, "nodes to add before the first step"),
            "steps": items({"$ref": "#/definitions/step"}, "what happens, in order", minItems=1),
        },
        "steps",
    ),
    "definitions": {
        "plane": _PLANE,
        "node": record(
            "A node with emulated devices, or with real drivers.",
            {
                "name": text("name of the node"),
                "count": number("add NAME-1 to NAME-COUNT instead", minimum=1),
                **_NODE_FIELDS,
            },
            "name",
        ),
        "step": {
            "title": "a step",
            "description": "One action with its fields.",
            "oneOf": [{"$ref": f"#/definitions/{action}"} for action in ACTIONS],
        },
        **ACTIONS,
    },
}
