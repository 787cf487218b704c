"""Runs a client's program against servers of this process, and says what it saw."""

from __future__ import annotations

import json
import os
import shutil
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apiserver.command import kubeconfig
from apiserver.http.server.web import Web
from apiserver.tls.self_signed import load_or_create_certificate
from tests.clients.table import PROGRAMS, Client, Program
from tests.support.patience import run_command
from tests.support.server import serve
from tests.support.wire import Wire

#: Clients from before v1 speak v1beta1, which is off unless it is asked for, as upstream has it.
_FLAGS = ("--runtime-config=resource.k8s.io/v1beta1=true",)
#: Variables that lead clients elsewhere, or make them compile themselves on every run.
_LEFT_OUT = ("_PROXY", "PYTHONDONTWRITEBYTECODE")
_MAPS = "/api/v1/namespaces/default/configmaps"
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"


@dataclass(frozen=True, slots=True)
class Servers:
    """One without TLS, where most is done, and one with TLS and tokens."""

    wire: Wire
    kubeconfig: Path
    secure: Path


@dataclass(frozen=True, slots=True)
class Played:
    client: str
    version: str
    #: What it saw, by step; an error is a text that begins with `error: `.
    saw: dict[str, Any]
    #: What the program complained about.
    errors: str


@contextmanager
def servers(directory: Path) -> Iterator[Servers]:
    certificate, key = load_or_create_certificate(directory / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    tokens = directory / "tokens.csv"
    tokens.write_text("secret,admin,1,system:masters\n")
    flags = ("--token-auth-file", str(tokens), "--authorization-mode=RBAC")
    with (
        serve(*_FLAGS) as plain,
        serve(*flags, wire=lambda server: Web(server.front, context)) as secure,
    ):
        kubeconfig.write(directory / "plain", plain.url)
        there = Wire(secure.url.replace("http:", "https:"), "secret", certificate.read_text())
        kubeconfig.write(directory / "secure", there.url, token="secret", ca=certificate.read_bytes())
        assert there.post(_MAPS, {"metadata": {"name": "hello"}}).status == 201
        devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
        pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": devices}
        assert plain.wire().post(_SLICES, {"metadata": {"name": "s"}, "spec": spec}).status == 201
        yield Servers(plain.wire(), directory / "plain", directory / "secure")


def play(client: Client, program: Program, on: Servers, directory: Path) -> Played:
    """`directory` is the program's home, its place for temporary files, and its working directory."""
    made = on.wire.post("/api/v1/namespaces", {"metadata": {"generateName": "client-"}}).json
    command = program.command
    if program.beside is not None:
        # Node looks for packages beside the script.
        shutil.copy(PROGRAMS / command[-1], directory)
        (directory / "node_modules").symlink_to(program.beside / "node_modules")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.upper().endswith(_LEFT_OUT)},
        "NAMESPACE": made["metadata"]["name"],
        "KUBECONFIG": str(on.kubeconfig),
        "SECURE_KUBECONFIG": str(on.secure),
        "HOME": str(directory),
        "TMPDIR": str(directory),
        **program.environment,
    }
    done = run_command(command, cwd=directory, env=environment, text=True)
    version, saw = "", {}
    for line in map(json.loads, filter(None, done.stdout.splitlines())):
        if "step" in line:
            saw[line["step"]] = f"error: {line['error']}" if "error" in line else line["saw"]
        else:
            version = line["version"]
    return Played(client.name, version, saw, done.stderr)
