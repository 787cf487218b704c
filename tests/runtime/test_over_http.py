"""The same client over a real connection, and the components as a process of their own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from apiserver.api.errors.status import StatusError
from apiserver.api.objects import Json
from controllers.manager.manager import COMPONENTS, UnknownComponentError, choose
from controllers.manager.start import main
from controllers.runtime.client import Client
from controllers.runtime.http import HttpTransport
from controllers.runtime.kinds import CONFIG_MAPS, NODES, PODS, key_of
from controllers.runtime.transport import TransportError
from kubedra.kubeconfig.credentials import Credentials
from kubedra.kubeconfig.reader import Cluster, KubeconfigError, read_kubeconfig
from tests.support.objects import make_node
from tests.support.patience import communicate, patience
from tests.support.wire import ROOT, Child, environment

pytestmark = pytest.mark.integration


def config_map(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"a": "b"},
    }


def speak(cluster: Cluster, scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        client = Client(HttpTransport(cluster), user_agent="test")
        try:
            async with patience():
                await scenario(client)
        finally:
            await client.close()

    asyncio.run(run())


def test_requests_errors_and_watches_work_over_tls_with_a_kubeconfigs_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,admin,1,"system:masters"\n')

    async def scenario(client: Client) -> None:
        made = await client.create(CONFIG_MAPS, config_map("one"))
        await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(f"more-{n}")) for n in range(40)))
        assert len((await client.list(CONFIG_MAPS, "default"))["items"]) == 41
        with pytest.raises(StatusError) as caught:
            await client.create(CONFIG_MAPS, config_map("one"))
        assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")
        changed = await client.patch(CONFIG_MAPS, "one", {"data": {"a": "c"}}, "default", type="merge")
        since = made["metadata"]["resourceVersion"]
        async with aclosing(
            client.watch(CONFIG_MAPS, "default", resource_version=since, field_selector="metadata.name=one")
        ) as batches:
            async for [event, *_] in batches:
                assert (event.type, event.object) == ("MODIFIED", changed)
                break
        await client.delete(CONFIG_MAPS, "one", "default", uid=made["metadata"]["uid"])

    with Child(tmp_path / "data", "--tls", f"--token-auth-file={tokens}") as child:
        speak(read_kubeconfig(Path(child.announced["kubeconfig"])), scenario)

        async def stranger(client: Client) -> None:
            with pytest.raises(StatusError) as caught:
                await client.get(CONFIG_MAPS, "one", "default")
            assert caught.value.code in (401, 403)

        speak(Cluster(server=child.url, credentials=Credentials(insecure=True, token="wrong")), stranger)


def test_a_server_that_is_not_there_or_goes_away_is_a_transport_error(tmp_path: Path) -> None:
    with Child(tmp_path / "data") as child:

        async def scenario(client: Client) -> None:
            async def watch() -> None:
                async with aclosing(client.watch(CONFIG_MAPS, initial_events=True)) as batches:
                    async for _ in batches:
                        child.process.kill()
                        child.process.wait()

            with pytest.raises(TransportError):
                await watch()
            with pytest.raises(TransportError):
                await client.get(CONFIG_MAPS, "x", "default")

        speak(Cluster(server=child.url), scenario)


def test_the_components_run_as_a_process_of_their_own(tmp_path: Path) -> None:
    with Child(tmp_path / "data") as child:
        command = [sys.executable, "-P", "-m", "controllers", "--server", child.url, "--controllers", "scheduler"]
        process = subprocess.Popen(command, env=environment(), cwd=ROOT, stderr=subprocess.PIPE, text=True)

        async def scenario(client: Client) -> None:
            node = make_node("n")
            node["metadata"] = {"name": "n"}
            made = await client.create(NODES, node)
            await client.update(NODES, {**made, "spec": {}})
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
            await client.create(PODS, {**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}})
            async with aclosing(client.watch(PODS, initial_events=True)) as batches:
                async for batch in batches:
                    if any(
                        key_of(e.object) == "default/p" and e.object["spec"].get("nodeName")
                        for e in batch
                        if e.type != "BOOKMARK"
                    ):
                        break

        try:
            speak(Cluster(server=child.url), scenario)
        finally:
            process.terminate()
            _, errors = communicate(process)
        assert process.returncode == 0, errors


def test_components_are_chosen_as_in_kube_controller_manager() -> None:
    assert choose(["*"]) == list(COMPONENTS)
    assert choose(["scheduler"]) == ["scheduler"]
    assert choose(["*", "-scheduler"]) == [name for name in COMPONENTS if name != "scheduler"]
    with pytest.raises(UnknownComponentError, match='unknown controller "nope"; use one of: '):
        choose(["*", "-nope"])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--server", "http://x", "--controllers", "nope"], 'unknown controller "nope"'),
        (["--server", "http://x", "--emulated-version", "one"], '--emulated-version: could not parse "one" as version'),
        (["--server", "http://x", "--feature-gates", "A=maybe"], '"A=maybe" is not NAME=true or NAME=false'),
        (["--kubeconfig", "/nowhere"], "/nowhere: "),
    ],
)
def test_a_wrong_flag_is_one_line_and_exit_code_two(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1


def test_a_kubeconfig_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    path = tmp_path / "config"
    cases = {
        "a: b": "no current-context",
        "current-context: c": "contexts has no 'c'",
        "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: {server: 'http://x'}}]\nusers: [{name: u, user: {auth-provider: {name: x}}}]": (
            "user 'u': auth-provider is not supported"
        ),
    }
    for text, said in cases.items():
        path.write_text(text)
        with pytest.raises(KubeconfigError, match=said):
            read_kubeconfig(path)
