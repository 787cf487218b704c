"""The page client.md: every method of the Python client, the control plane and the fixture, from their signatures and
docstrings. The examples are here, because a test runs them in this order in one `kube`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("client.md")
_HEAD = """\
# The Python client

Written by `python docs/reference/generate.py` from the signatures; a test holds it current and runs the examples.

`kubedra.Client` is a small client of any Kubernetes API server for tests and scripts: `Client.from_kubeconfig(path)`, `plane.client()`. In a test `kube.get(…)` is short for
`kube.client().get(…)`, and so for all methods that are marked *kube*. `kubedra.AsyncClient` has the same methods, awaited, for an event loop.

A kubeconfig's user may have a token, a token file, a certificate, a username with a password, a program (`exec`), and another user to act as; its cluster an authority, another name
(`tls-server-name`) or `insecure-skip-tls-verify`. What is not supported (`auth-provider`, `proxy-url`) is refused in one line that names the entry.

A *target* is `KIND/NAME`; the kind may be written as a kind, a plural, a singular or a short name (`ResourceClaim/c`, `resourceclaims/c`, `pod/web`, `po/web`). Objects are plain dicts in their JSON form.
An answer of failure raises `kubedra.ApiError`, with `code` (404), `reason` ("NotFound"), `message` and the whole `status`; a server that does not answer raises `ConnectionError`.
"""
#: What the examples stand on.
PROLOGUE = """\
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
"""
#: One for each method, in the order of the page.
EXAMPLES: dict[str, str] = {
    "add_node": 'kube.add_node("worker", devices=8, labels={"zone": "a"})',
    "apply": 'kube.apply(POD)\nkube.apply("""\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: "1"}\n""")',
    "create": 'kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "job-"}, "spec": POD["spec"]})',
    "wait": 'kube.wait("pod/web", "phase=Running")\nkube.wait("pod/web", lambda pod: pod["status"].get("podIP"), timeout=10)',
    "get": 'assert kube.get("pod/web")["spec"]["nodeName"] == "worker"\nkube.get("pods", "web")',
    "list": 'kube.list("pods", labelSelector="app=web")\nkube.list("resourceclaims", namespace="")',
    "patch": 'kube.patch("pod/web", {"metadata": {"labels": {"app": "web"}}})',
    "patch_status": 'kube.patch_status("pod/web", {"message": "as the test wants it"})',
    "scale": """\
kube.apply(
    {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "set"},
        "spec": {
            "selector": {"matchLabels": {"app": "set"}},
            "template": {"metadata": {"labels": {"app": "set"}}, "spec": POD["spec"]},
        },
    }
)
kube.scale("replicaset/set", 3)
""",
    "events": 'assert any(event["reason"] == "Scheduled" for event in kube.events("pod/web"))',
    "logs": 'print(kube.logs("pod/web", container="c"))  # of an emulated container: what it would have done',
    "explain": 'assert kube.explain("pod/web")["verdict"] == "scheduled"\nprint(kube.explain("node/worker")["report"])',
    "requests": 'for request in kube.requests(verb="create", resource="pods/binding"):\n    print(request["userAgent"], request["code"], request["seconds"])',
    "watch": 'for event in kube.client().watch("/api/v1/namespaces/default/pods", timeout=1, timeoutSeconds="1"):\n    print(event["type"], event["object"]["metadata"]["name"])',
    "request": 'kube.client().request("GET", "/version")["gitVersion"]',
    "path": 'assert kube.client().path("resource.k8s.io/v1", "DeviceClass", name="gpu").endswith("/deviceclasses/gpu")',
    "resolve": 'assert kube.client().resolve("po") == ("v1", "Pod")',
    "delete": 'kube.delete("pod/web", grace_period=0)\nkube.wait("pod/web", "delete")',
}
_ASYNC = """
async def main():
    async with ControlPlane(nodes=1) as plane, plane.async_client() as client:
        await client.apply("manifests/")
        await client.wait("pod/web", "phase=Running")
"""


def page() -> str:
    """The whole page."""
    from kubedra.client.client import AsyncClient, Client, _Connected
    from kubedra.client.clock import Clock
    from kubedra.plane.control_plane import ControlPlane
    from kubedra.pytest_plugin import Kube

    parts = [_HEAD, "\n## Methods\n\nThe examples begin with\n\n", _code(PROLOGUE)]
    for name, example in EXAMPLES.items():
        mark = " *(kube)*" if name in vars(Kube) else ""
        parts += [_method(Client, name, mark), _code(example)]
    parts += [
        "\n## Making a client\n",
        _made(Client, _Connected),
        _method(Client, "from_kubeconfig"),
        _method(Client, "close"),
    ]
    parts += ["\n## In an event loop\n\n", f"{_text(AsyncClient)}\n\n", _code(_ASYNC.strip("\n"))]
    parts += ["\n## ControlPlane\n", _made(ControlPlane, ControlPlane), *_members(ControlPlane)]
    parts += ["\n## kube\n\nThe fixture of the pytest plugin, besides the methods above.\n"]
    parts += _members(Kube, leaving_out=frozenset(EXAMPLES) - {"add_node"})
    parts += [
        "\n## Time\n\n`kube.clock`, or `kubedra.client.clock.Clock(lambda: client)`; `kubedra.client.clock.AsyncClock(client)` in an event loop.\n"
    ]
    return re.sub(r"\n{3,}", "\n\n", "".join([*parts, *_members(Clock)])).rstrip("\n") + "\n"


def _members(of: type, leaving_out: frozenset[str] = frozenset()) -> Iterator[str]:
    for name, member in vars(of).items():
        if not name.startswith("_") and name not in leaving_out and (callable(member) or isinstance(member, property)):
            yield _method(of, name)


def _method(of: type, name: str, mark: str = "") -> str:
    member = inspect.getattr_static(of, name)
    if isinstance(member, property):
        returned = inspect.signature(member.fget).return_annotation  # type: ignore[arg-type]
        return f"\n### {name}\n\n`{name}: {returned}`\n\n{_text(member)}\n\n"
    member = getattr(of, name)
    return f"\n### {name}{mark}\n\n{_code(f'{name}{_signature(member)}')}\n{_text(member)}\n\n"


def _made(of: type, by: Any) -> str:
    return f"\n### {of.__name__}\n\n{_code(f'{of.__name__}{_signature(by.__init__)}')}\n{_text(of)}\n\n"


class _Words(str):
    """An annotation as it stands in the source."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(of: Any) -> str:
    """As it is called: without self."""
    found = inspect.signature(of)
    own = [
        each.replace(annotation=_Words(each.annotation)) for each in found.parameters.values() if each.name != "self"
    ]
    returned = _Words(found.return_annotation)
    text = str(found.replace(parameters=own, return_annotation=returned)).removesuffix(" -> None")
    return text.replace("datetime.timedelta", "timedelta").replace("'", '"')


def _text(of: Any) -> str:
    """A docstring as paragraphs."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(of) or "")


def _code(text: str) -> str:
    return f"```python\n{text.strip(chr(10))}\n```\n"
