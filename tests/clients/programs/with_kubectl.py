"""kubectl, the one that $KUBECTL names."""

import json
import os
import subprocess

from steps import (
    APPLIED,
    JSON,
    MANAGER,
    MERGE,
    NAME,
    NAMESPACE,
    SECURE,
    STRATEGIC,
    WATCHED,
    claim,
    config_map,
    live,
    play,
)

KUBECTL = os.environ["KUBECTL"]


def kubectl(*words, stdin=None, kubeconfig=os.environ["KUBECONFIG"]):
    """Return kubectl's output, parsed if it is JSON. Raise RuntimeError with its error output."""
    command = [KUBECTL, "--kubeconfig", kubeconfig, *words]
    done = subprocess.run(command, input=stdin and json.dumps(stdin), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout) if "json" in words else done.stdout


def here(*words, **more):
    return kubectl("--namespace", NAMESPACE, *words, **more)


def _patch(patch, form):
    return here("patch", "configmap", NAME, "--type", form, "--patch", json.dumps(patch), "-o", "json")["data"]


def _server_side(*words):
    return here("apply", "--server-side", "--field-manager", MANAGER, "-f", "-", *words, stdin=APPLIED)


def create():
    # The version before the last patch of a client-side apply is what it leaves in an annotation.
    here("apply", "-f", "-", stdin=config_map(a="0"))
    return here("apply", "-f", "-", "-o", "json", stdin=config_map(a="1"))["data"]


def follow():
    words = ["get", "configmaps", "--watch", "--output-watch-events", "--field-selector", f"metadata.name={WATCHED}"]
    columns = ["-o", "jsonpath={.type}{'\\n'}"]
    command = [KUBECTL, "--namespace", NAMESPACE, *words, *columns]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        seen = live(
            (line.strip() for line in watching.stdout),
            (
                lambda: here("create", "-f", "-", stdin=config_map(WATCHED)),
                lambda: here("patch", "configmap", WATCHED, "--patch", json.dumps(MERGE)),
                lambda: here("delete", "configmap", WATCHED),
            ),
        )
        watching.kill()
    return seen


def apply():
    try:
        _server_side()
    except RuntimeError as refused:
        _server_side("--force-conflicts")
        found = here("get", "configmap", NAME, "-o", "json")["data"]
        return {"refused": 409 if "1 conflict" in str(refused) else str(refused), "forced": found}


def devices():
    here("create", "-f", "-", stdin=claim())
    made = here("get", "resourceclaims", "-o", "json")["items"][0]
    published = kubectl("get", "resourceslices", "-o", "jsonpath={.items[0].spec.devices[*].name}")
    return {
        "class": made["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"],
        "devices": published.split(),
    }


def delete():
    here("delete", "configmap", NAME)
    try:
        here("get", "configmap", NAME)
    except RuntimeError as gone:
        return 404 if "(NotFound)" in str(gone) else str(gone)


play(
    kubectl("version", "--client", "-o", "json")["clientVersion"]["gitVersion"].removeprefix("v"),
    {
        "create": create,
        "list": lambda: [name.removeprefix("configmap/") for name in here("get", "configmaps", "-o", "name").split()],
        "watch": follow,
        "merge": lambda: _patch(MERGE, "merge"),
        "strategic": lambda: _patch(STRATEGIC, "strategic"),
        "json": lambda: _patch(JSON, "json"),
        "apply": apply,
        "devices": devices,
        "tls": lambda: (
            kubectl("get", "namespace", "default", "-o", "name", kubeconfig=SECURE).strip().partition("/")[2]
        ),
        "delete": delete,
    },
)
