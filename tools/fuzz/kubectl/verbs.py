"""The kubectl commands of a sequence, by verb. Each function returns one command or a few that belong together."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from tools.fuzz import patches
from tools.fuzz.kubectl.definitions import define
from tools.fuzz.kubectl.sequences import Command, Made, Writer

Verb = Callable[[Writer], list[Command]]
_OUTPUTS: Final = (
    "yaml",
    "json",
    "wide",
    "name",
    "",
    "",
    "jsonpath={.metadata.name}",
    "custom-columns=N:.metadata.name,L:.metadata.labels",
)
_SCALED: Final = ("deployments", "replicasets", "statefulsets", "replicationcontrollers", "jobs")
_ROLLED: Final = ("deployments", "statefulsets", "daemonsets")
_TEMPLATED: Final = (*_ROLLED, "replicasets", "replicationcontrollers", "jobs", "cronjobs")
_IMAGES: Final = ("i:2", "registry.example.com/x:v1", "", "i i", "I", "i:latest")


# --- creating and writing


def create(w: Writer) -> list[Command]:
    """Create, apply or replace a new object from a file, with the options of each."""
    made = w.new_object()
    w.made.append(made)
    name, files = w.file(made.body)
    given = w.pick(
        ("create",), ("create", "--save-config"), ("create", "--validate=false"), ("apply",), ("apply",), ("apply", "--server-side"),
        ("create", "--dry-run=server", "-o", "yaml"), ("create", "-o", "name"), ("apply", "--dry-run=server"), ("apply", "--server-side", "--field-manager=m"),
        ("create", "--dry-run=client", "-o", "name"), ("create", "--validate=warn"), ("create", "--field-manager=m"), ("create", "-o", "yaml"),
    )  # fmt: skip
    return [w.command(given[0], "-f", name, *given[1:], files=files)]


def rewrite(w: Writer) -> list[Command]:
    """Write an object again from a file, unchanged or with a changed field."""
    made = w.any_object()
    body = deepcopy(made.body)
    if w.chance(0.7):
        w.vary(made.version, body)
    if w.chance(0.3):
        body["metadata"]["labels"] = {**(body["metadata"].get("labels") or {}), w.pick("x", "y"): w.pick("1", "2")}
    if w.chance(0.6):
        made.body = body
    name, files = w.file(body)
    given = w.pick(
        ("apply",), ("apply",), ("apply",), ("apply", "--server-side"), ("apply", "--server-side", "--force-conflicts"), ("replace",), ("replace",),
        ("apply", "--server-side", "--field-manager=m"), ("apply", "--server-side", "--field-manager=m", "--force-conflicts"),
        ("apply", "--overwrite=false"), ("replace", "--force", "--grace-period=0"), ("create",), ("apply", "--dry-run=server", "-o", "yaml"),
        ("diff",), ("replace", "--dry-run=server"), ("apply", "view-last-applied"), ("apply", "set-last-applied", "--create-annotation"),
        ("apply", "--force"), ("delete", "--wait=false"), ("get", "-o", "name"),
    )  # fmt: skip
    return [w.command(*given[:1], *given[1:2], "-f", name, *given[2:], files=files, reads=given[0] in ("diff", "get"))]


def patch(w: Writer) -> list[Command]:
    made = w.any_object()
    head = ("patch", made.kind, made.name)
    below = ("--subresource=status",) if w.chance(0.12) else ()
    dry = w.pick((), (), (), ("--dry-run=server",), ("-o", "yaml"))
    kind = w.pick("merge", "merge", "strategic", "strategic", "json")
    if kind == "json":
        body: Any = patches.operations(w.random, made.body, made.version.schema)
    elif w.chance(0.3):
        body = {
            "metadata": w.pick(
                {"labels": {"p": "q"}},
                {"annotations": {"a": None}},
                {"finalizers": ["example.com/f"]},
                {"finalizers": None},
                {"name": "z"},
            )
        }
    else:
        varied = deepcopy(made.body)
        w.vary(made.version, varied)
        body = patches.part(
            w.random,
            {key: varied[key] for key in varied if key not in ("apiVersion", "kind", "metadata")},
            strategic=kind == "strategic",
        )
    return [w.command(*head, f"--type={kind}", "-p", json.dumps(body), *below, *dry)]


def label(w: Writer) -> list[Command]:
    made = w.any_object()
    verb = w.pick("label", "annotate")
    change = w.pick(
        ("k=v",),
        ("k=w", "--overwrite"),
        ("k-",),
        ("app=z", "--overwrite"),
        ("app-",),
        ("k=v", "l=m"),
        ("-=x",),
        ("k=é",),
        ("a/b/c=d",),
        ("--list",),
        ("k=v", "--dry-run=server"),
        ("k=v", "--resource-version=1"),
    )
    if w.chance(0.15):
        return [w.command("edit", made.kind, made.name)]
    return [w.command(verb, made.kind, made.name, *change)]


def set_(w: Writer) -> list[Command]:
    made = w.any_object()
    target = f"{made.kind}/{made.name}"
    image = w.pick(*_IMAGES)
    return [
        w.command(
            "set",
            *w.pick(
                ("image", target, f"c={image}"), ("image", target, f"*={image}"), ("image", target, "x=i"), ("env", target, "E=v"), ("env", target, "E-"), ("env", target, "--list"),
                ("resources", target, "--limits=cpu=200m,memory=64Mi"), ("resources", target, "--requests=cpu=300m"), ("resources", target, "--limits=cpu=x"),
                ("serviceaccount", target, "default"), ("selector", target, "a=c"), ("env", target, "--from=configmap/a"), ("subject", target, "--user=u"), ("subject", target, "--serviceaccount=x:y"),
            ),
        )
    ]  # fmt: skip


def scale(w: Writer) -> list[Command]:
    made = _of(w, _SCALED)
    target = f"{made.kind}/{made.name}"
    return [w.command(*w.pick(
        ("scale", target, f"--replicas={w.pick(0, 1, 2, 3)}"), ("scale", target, "--replicas=2", f"--current-replicas={w.pick(1, 2)}"), ("scale", target, "--replicas=-1"),
        ("scale", target, "--replicas=1", "--resource-version=1"), ("scale", made.kind, "--all", "--replicas=1"),
        ("autoscale", target, "--max=3"), ("autoscale", target, "--min=1", "--max=5", "--cpu=80%"), ("autoscale", target, "--max=0"),
        ("get", made.kind, made.name, "--subresource=scale", "-o", "yaml"), ("patch", made.kind, made.name, "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":2}}'),
    ))]  # fmt: skip


def rollout(w: Writer) -> list[Command]:
    made = _of(w, _ROLLED)
    target = f"{made.kind}/{made.name}"
    given = w.pick(
        "history",
        "history",
        "undo",
        "pause",
        "resume",
        "restart",
        "undo --to-revision=1",
        "history --revision=1",
        "undo --to-revision=9",
        "status --watch=false",
        "undo --dry-run=server",
    )
    verb, *flags = given.split(" ")
    return [w.command("rollout", verb, target, *flags, reads=verb in ("history", "status"))]


def expose(w: Writer) -> list[Command]:
    made = w.any_object()
    target = f"{made.kind}/{made.name}"
    w.live = True
    name = w.pick("a", "b", "svc", "S")
    return [
        w.command(
            "expose",
            target,
            f"--name={name}",
            *w.pick(
                ("--port=80",),
                ("--port=80", "--target-port=http", "--type=NodePort"),
                (),
                ("--port=80", "--cluster-ip=None"),
                ("--port=70000",),
                ("--port=80", "--protocol=UDP", "--dry-run=server", "-o", "yaml"),
                ("--port=80", "--external-ip=10.1.1.1", "--session-affinity=ClientIP"),
            ),
        )
    ]


def generate(w: Writer) -> list[Command]:
    """Create an object with one of kubectl's generators."""
    w.live = True
    name = w.pick("a", "b", "g", "G", "a.b")
    wide = f"{name}-{w.namespace}"
    given = w.pick(
        ("configmap", name, "--from-literal=k=v"), ("configmap", name, "--from-literal=k=v", "--append-hash"), ("configmap", name, "--from-literal=k/=v"), ("secret", "generic", name, "--from-literal=k=v"),
        ("secret", "generic", name, "--from-literal=k=v", "--type=kubernetes.io/basic-auth"), ("secret", "docker-registry", name, "--docker-username=u", "--docker-password=p"),
        ("deployment", name, "--image=i", "--replicas=2"), ("deployment", name, "--image=i", "--port=80"), ("deployment", name, "--image=i:1", "--image=j:2"), ("job", name, "--image=i", "--", "true"),
        ("cronjob", name, "--image=i", "--schedule=0 0 1 1 *"), ("cronjob", name, "--image=i", "--schedule=x"), ("service", "clusterip", name, "--tcp=80:8080"), ("service", "nodeport", name, "--tcp=80"),
        ("service", "externalname", name, "--external-name=example.com"), ("service", "loadbalancer", name, "--tcp=80"), ("service", "clusterip", name, "--clusterip=None"),
        ("quota", name, "--hard=pods=2,services=1"), ("quota", name, "--hard=pods=x"), ("quota", name, "--hard=count/deployments.apps=1,requests.cpu=1", "--scopes=NotTerminating"),
        ("serviceaccount", name), ("token", "default", "-o", "name"), ("role", name, "--verb=get", "--resource=pods"), ("role", name, "--verb=x", "--resource=pods,deployments.apps/scale"),
        ("rolebinding", name, f"--role={name}", "--user=u"), ("rolebinding", name, "--clusterrole=view", f"--serviceaccount={w.namespace}:default"), ("clusterrole", wide, "--verb=get", "--non-resource-url=/x"),
        ("clusterrolebinding", wide, "--clusterrole=view", "--group=g"), ("priorityclass", wide, "--value=10"), ("poddisruptionbudget", name, "--selector=app=a", "--min-available=1"),
        ("poddisruptionbudget", name, "--selector=app=a", "--max-unavailable=50%"), ("ingress", name, "--rule=a.example.com/x*=svc:80"), ("ingress", name, "--class=c", "--default-backend=svc:http"),
        ("job", "j", f"--from=cronjob/{name}"), ("namespace", "G"), ("configmap", "-h"),
    )  # fmt: skip
    dry = (
        w.pick((), (), (), ("--dry-run=server",), ("--dry-run=server", "-o", "yaml"))
        if "--" not in given and "-h" not in given
        else ()
    )
    if "-h" in given:
        return [
            w.command(
                "run",
                name,
                "--image=i",
                *w.pick(
                    (),
                    ("--restart=Never", "--port=80", "--expose"),
                    ("--labels=app=a", "--env=E=v"),
                    ("--dry-run=server", "-o", "yaml"),
                    ("--restart=OnFailure",),
                ),
            )
        ]
    return [w.command("create", *given, *dry)]


# --- deleting


def delete(w: Writer) -> list[Command]:
    made = w.any_object()
    given = w.pick(
        (made.kind, made.name), (made.kind, made.name), (made.kind, made.name, "--cascade=orphan"), (made.kind, made.name, "--cascade=foreground"), (made.kind, made.name, "--now"),
        (made.kind, made.name, "--grace-period=0", "--force"), (made.kind, made.name, "--ignore-not-found"), (made.kind, "-l", f"seq={w.namespace},app={made.name.split('-')[0]}"),
        (made.kind, made.name, "--dry-run=server"), (made.kind, "-l", f"seq={w.namespace}"), (made.kind, made.name, "--grace-period=1"), ("pods", "-l", "app=a"),
        (f"{made.kind}/{made.name}", "configmap/none"), (made.kind, made.name, "-o", "name"),
    )  # fmt: skip
    wait = w.pick("--wait=false", "--wait=false", "--timeout=5s")
    return [w.command("delete", *given, wait)]


def drain(w: Writer) -> list[Command]:
    node = f"a-{w.namespace}"
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node, "labels": {"seq": w.namespace}},
        "status": {"capacity": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    name, files = w.file(body)
    made = [w.command("create", "-f", name, files=files)]
    made += [
        w.command(*w.pick(
            ("cordon", node), ("uncordon", node), ("taint", "nodes", node, "k=v:NoSchedule"), ("taint", "nodes", node, "k-"), ("taint", "nodes", node, "k=v:X"), ("taint", "nodes", node, "k=w:NoSchedule", "--overwrite"),
            ("drain", node, "--ignore-daemonsets", "--force", "--timeout=3s"), ("label", "node", node, "zone=a"), ("get", "node", node, "-o", "wide"), ("annotate", "nodes", "-l", f"seq={w.namespace}", "a=b"),
        ))
        for _ in range(2)
    ]  # fmt: skip
    return [*made, w.command("delete", "node", node)]


# --- reading


def get(w: Writer) -> list[Command]:
    made = w.any_object()
    output = w.pick(*_OUTPUTS)
    what = w.pick((made.kind, made.name), (made.kind, made.name), (made.kind,), (made.kind, "-l", "app=a"), (made.kind, "--show-labels"), (made.kind, "-L", "app"), (made.kind, "--field-selector=metadata.name=a"),
                  (made.kind, "--sort-by=.metadata.name"), ("all",), ("pods,services,deployments",), (made.kind, "--chunk-size=1"), (made.kind, "--field-selector=spec.x=1"), ("events", "--sort-by=.reason"), (made.kind, made.name, "--show-managed-fields"))  # fmt: skip
    if not made.resource.namespaced and what[0] == made.kind and len(what) < 3 and what[-1] != made.name:
        what = (made.kind, "-l", f"seq={w.namespace}")
    elif not made.resource.namespaced and what[-1] != made.name:
        what = (made.kind, made.name)
    if what[-1] == "--show-managed-fields":
        output = "json"
    elif what[0] == "events":
        output = ""
    return [w.command("get", *what, *(("-o", output) if output else ()), reads=True)]


def describe(w: Writer) -> list[Command]:
    made = w.any_object()
    what = (made.kind, made.name) if w.chance(0.9) or not made.resource.namespaced else (made.kind, "-l", "app=a")
    return [w.command("describe", *what, reads=True)]


def ask(w: Writer) -> list[Command]:
    """Ask about the API, access, and an object's containers."""
    made = w.any_object()
    group = made.resource.group
    given = w.pick(
        ("auth", "can-i", "get", made.kind), ("auth", "can-i", "--list", "--as=u"), ("auth", "can-i", "create", "pods", "--as=system:anonymous"), ("auth", "whoami", "-o", "yaml"),
        ("api-resources", f"--api-group={group}", "-o", "wide"), ("logs", f"{made.kind}/{made.name}"), ("exec", made.name, "--", "ls"), ("attach", made.name), ("port-forward", f"pod/{made.name}", "0:80"),
        ("wait", "--for=condition=Ready", f"{made.kind}/{made.name}", "--timeout=0s"), ("wait", "--for=delete", f"{made.kind}/none", "--timeout=1s"), ("events",), ("events", f"--for={made.kind}/{made.name}"),
        ("get", "--raw", f"/apis/{group}" if group else "/api/v1/namespaces/none"), ("get", "none"), ("get", f"{made.kind}.v9"), ("wait", "--for=create", f"{made.kind}/{made.name}", "--timeout=1s"),
        ("explain", f"{made.resource.plural}.kind"), ("cp", f"{made.name}:/x", "/dev/null"), ("debug", made.name, "--image=i", "-c", "d", "--attach=false"), ("top", "pods"), ("certificate", "approve", made.name),
        ("get", made.kind, made.name, "--as=u"), ("delete", made.kind, made.name, "--as=u"), ("get", made.kind, made.name, "--subresource=status", "-o", "yaml"), ("api-versions",), ("auth", "reconcile", "-f", "none.yaml"),
    )  # fmt: skip
    return [w.command(*given, reads=given[0] not in ("debug", "certificate"))]


def _of(w: Writer, plurals: tuple[str, ...]) -> Made:
    """Return one of the objects of these kinds if there is one."""
    found = [made for made in w.made if made.resource.plural in plurals]
    return w.random.choice(found) if found and w.chance(0.95) else w.any_object()


VERBS: Final[tuple[tuple[Verb, ...], tuple[int, ...]]] = (
    (create, rewrite, patch, label, set_, scale, rollout, expose, generate, delete, drain, get, describe, ask, define),
    (16, 14, 10, 5, 5, 5, 5, 3, 8, 7, 1, 11, 7, 6, 1),
)
