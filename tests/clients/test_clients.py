"""Every client that is installed does what it can do; docs/reference/clients.md says which did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apiserver.command import kubeconfig
from tests.clients import page
from tests.clients.install import PYTHON
from tests.clients.play import Servers, play, servers
from tests.clients.table import CLIENTS, STEPS, Client

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with servers(tmp_path_factory.mktemp("clients")) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_sees_what_every_client_must(
    running: Servers, tmp_path: Path, client: Client, record_property: Callable[[str, object], None]
) -> None:
    program = client.find()
    if program is None:
        pytest.skip(f"{client.name} is not there: {client.comes_with}")
    played = play(client, program, running, tmp_path)
    record_property("client", f"{page.plain(client.name)} {played.version}")
    assert played.saw == {step.name: step.sees for step in client.steps}, played.errors
    recorded = page.rows().get((page.plain(client.name), played.version))
    assert recorded in (None, page.marks(client, played)), "write the page again: ./dev run python -m tests.clients"


@pytest.mark.parametrize(
    ("server", "ca", "insecure"),
    [("http://127.0.0.1:1", b"", True), ("https://127.0.0.1:1", b"", False), ("https://127.0.0.1:1", b"ca", False)],
    ids=["plain", "system's authorities", "own authority"],
)
def test_a_kubeconfig_skips_verification_only_where_there_is_nothing_to_verify(
    tmp_path: Path, server: str, ca: bytes, insecure: bool
) -> None:
    kubeconfig.write(tmp_path / "kubeconfig", server, ca=ca)
    assert ("insecure-skip-tls-verify: true" in (tmp_path / "kubeconfig").read_text()) is insecure


def test_the_page_has_every_client_and_every_step() -> None:
    text, rows = page.PAGE.read_text(), page.rows()
    assert {page.plain(client.name) for client in CLIENTS} <= {name for name, _ in rows}
    assert all(step.means in text for step in STEPS)
    pinned = [package.partition("==")[2] for packages in PYTHON.values() for package in packages]
    assert set(pinned) <= {version for _, version in rows}, "write the page again: ./dev run python -m tests.clients"


def test_no_two_clients_have_one_name_and_none_lacks_a_step_that_is_none() -> None:
    assert len({client.name for client in CLIENTS}) == len(CLIENTS)
    assert {name for client in CLIENTS for name in client.lacks} <= {step.name for step in STEPS}
