"""One server with Node, RBAC and NodeRestriction for all tests here; each test has its own namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.reviewers import Decider, decider
from tests.support.server import Running, serve
from tests.support.tokens import token_flag
from tests.support.wire import Wire

TOKENS = """root,root,1,"system:masters"
alice,alice,2,"devs"
bob,bob,3
w1,system:node:w1,4,"system:nodes"
w2,system:node:w2,5,"system:nodes"
nameless,system:node:,6,"system:nodes"
"""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
_numbers = count(1)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    tokens = token_flag(tmp_path_factory.mktemp("authorization"), TOKENS)
    # No controller makes accounts for pods here.
    plugins = ("--enable-admission-plugins=NodeRestriction", "--disable-admission-plugins=ServiceAccount")
    pods = ("--feature-gates=PodCertificateRequest=true", "--runtime-config=certificates.k8s.io/v1beta1=true")
    with serve(tokens, "--authorization-mode=Node,RBAC", *plugins, *pods) as server:
        yield server


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[Decider]:
    """Yield a webhook that authorizes."""
    with decider(tmp_path, "SubjectAccessReview", "authorization.k8s.io/v1") as found:
        yield found


@pytest.fixture
def root(running: Running) -> Wire:
    return running.wire("root")


@pytest.fixture
def alice(running: Running) -> Wire:
    return running.wire("alice")


@pytest.fixture
def bob(running: Running) -> Wire:
    return running.wire("bob")


@pytest.fixture
def node(running: Running) -> Wire:
    return running.wire("w1")


@pytest.fixture
def namespace(root: Wire) -> str:
    name = f"n{next(_numbers)}"
    root.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
def grant(root: Wire, namespace: str) -> Callable[..., None]:
    """Return a function that binds a role with rules to a subject, by default alice, in the test's namespace."""

    def bind(*rules: dict[str, Any], subject: dict[str, str] | None = None, name: str = "r") -> None:
        root.create(f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": name}, "rules": list(rules)})
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subjects = [subject or {"kind": "User", "name": "alice"}]
        root.create(
            f"{RBAC}/namespaces/{namespace}/rolebindings",
            {"metadata": {"name": name}, "subjects": subjects, "roleRef": ref},
        )

    return bind
