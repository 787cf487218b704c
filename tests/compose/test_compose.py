"""docker-compose.yml works: every command in it is run."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kubedra.runtime import process
from tests.compose import passthrough
from tests.compose.composefile import FILE, ROOT, load, variables_used
from tests.compose.conftest import Stack, run_a_pod
from tests.support.patience import ended, wait_until
from tests.support.wire import Wire

pytestmark = pytest.mark.integration

DOCUMENT = load()
SERVICES = DOCUMENT["services"]
LASTING = sorted(name for name, service in SERVICES.items() if service.get("restart") != "no")


def test_every_variable_is_explained_at_the_top() -> None:
    header = FILE.read_text().partition("\nname:")[0]
    assert [name for name in sorted(variables_used()) if name not in header] == []


def test_every_image_has_a_version() -> None:
    assert [name for name, service in SERVICES.items() if service["image"].rpartition(":")[2] in ("", "latest")] == []


def test_every_key_is_one_that_has_been_thought_about() -> None:
    known = {
        "image", "user", "build", "restart", "read_only", "tmpfs", "cap_drop", "security_opt", "stop_grace_period",
        "command", "healthcheck", "volumes", "environment", "depends_on", "deploy", "ports", "configs", "profiles",
    }  # fmt: skip
    assert {key for service in SERVICES.values() for key in service} <= known
    assert set(DOCUMENT) == {"name", "x-kubedra", "services", "configs", "volumes"}


def test_the_image_is_built_once_however_the_services_are_started() -> None:
    """Concurrent builds of one image under one name are refused or race."""
    building = {name for name, service in SERVICES.items() if "build" in service}
    by_profile = {name: tuple(SERVICES[name].get("profiles", ())) for name in building}
    assert sorted(by_profile.values()) == [(), ("sqlite",)]
    (first,) = [name for name, profiles in by_profile.items() if not profiles]
    ours = {name for name, service in SERVICES.items() if service["image"] == SERVICES[first]["image"]}
    for name in ours - building:
        assert first in needed(name), f"{name} can be started without {first}, which builds its image"
    assert not needed("sqlite"), "it builds the image itself"


def needed(name: str) -> set[str]:
    """Return the services that start before this one."""
    direct = set(SERVICES[name].get("depends_on", {}))
    return direct.union(*(needed(other) for other in direct)) if direct else set()


def test_no_container_is_read_only_into_which_a_configuration_is_copied() -> None:
    inline = {name for name, config in DOCUMENT["configs"].items() if "content" in config}
    copied = {name for name, service in SERVICES.items() for c in service.get("configs", ()) if c["source"] in inline}
    assert copied
    assert not [name for name in copied if SERVICES[name].get("read_only")]


def test_credentials_are_read_by_their_owner_or_by_root() -> None:
    """The files have mode 0600: postgres starts as root, and the balancer gets our image's user."""
    (owner,) = re.findall(r"(?m)^USER (\S+)$", (ROOT / "Dockerfile").read_text())
    reading = {
        name: service.get("user", "")
        for name, service in SERVICES.items()
        if not service["image"].startswith("kubedra:")
        and any("credentials:" in volume for volume in service.get("volumes", ()))
    }
    assert reading == {"postgres": "", "balancer": owner}


def test_each_service_has_the_credentials_that_it_needs_and_no_others() -> None:
    """An intruder in a container reads every credential in it."""
    shared = {
        target.removeprefix("/credentials-for/"): set(files.split(","))
        for files, _, target in (
            argument.removeprefix("--share=").partition("=")
            for argument in SERVICES["credentials"]["command"]
            if argument.startswith("--share=")
        )
    }
    mounted = {
        name: volume.partition(":")[0].removesuffix("-credentials")
        for name, service in SERVICES.items()
        if name != "credentials"
        for volume in service.get("volumes", ())
        if "credentials" in volume
    }
    assert mounted == {name: name for name in ("apiserver", "postgres", "balancer", "controllers")}
    for name in mounted:
        text = str(SERVICES[name]) + str(DOCUMENT["configs"] if name == "balancer" else "")
        needed_files = set(re.findall(r"/credentials/([\w.-]+)", text))
        # People fetch theirs where the server is, which knows all tokens anyway.
        assert shared[name] - {"kubeconfig"} == needed_files, name


def test_everything_declared_is_used() -> None:
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())}
    assert used == set(DOCUMENT["volumes"])
    assert {config["source"] for service in SERVICES.values() for config in service.get("configs", ())} == set(
        DOCUMENT["configs"]
    )


@pytest.mark.parametrize("name", LASTING)
def test_what_lasts_has_a_health_check_that_is_asked_often_while_it_starts(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert check["test"][0] == "CMD"
    assert {"interval", "timeout", "retries", "start_period", "start_interval"} <= set(check)


def test_what_ends_by_itself_is_waited_for_by_something_that_lasts() -> None:
    """Otherwise `up --wait` counts the service as failed."""
    for name in set(SERVICES) - set(LASTING):
        waiting = [
            other
            for other in LASTING
            if SERVICES[other].get("depends_on", {}).get(name, {}).get("condition") == "service_completed_successfully"
        ]
        assert waiting, name


def test_ports_are_published_on_loopback_unless_asked_otherwise() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports == ["127.0.0.1:6443:6443"] * 2
    assert (
        "0.0.0.0:7000:6443"
        in load({"KUBEDRA_BIND": "0.0.0.0", "KUBEDRA_PORT": "7000"})["services"]["balancer"]["ports"]
    )


def test_whatever_listens_beyond_loopback_has_tls_tokens_and_authorization() -> None:
    serving = [
        service["command"] for service in SERVICES.values() if "--bind-address=0.0.0.0" in service.get("command", ())
    ]
    assert len(serving) == 2
    for command in serving:
        flags = {argument.partition("=")[0] for argument in command}
        assert {"--tls-cert-file", "--tls-private-key-file", "--token-auth-file", "--authorization-mode"} <= flags


def test_the_balancers_configuration_is_understood() -> None:
    sections = passthrough.parse(DOCUMENT["configs"]["balancer"]["content"])
    assert [section.kind for section in sections] == [
        "global", "defaults", "resolvers", "frontend", "backend", "frontend",
    ]  # fmt: skip
    backend = passthrough.named(sections, "backend", "apiservers")
    assert int(backend.one("server-template")[1]) >= SERVICES["apiserver"]["deploy"]["replicas"]
    with pytest.raises(ValueError, match="unknown directive"):
        passthrough.parse("backend x\n  serve y\n")


def test_every_service_becomes_healthy(stack: Stack) -> None:
    for name in LASTING:
        if "profiles" not in SERVICES[name]:
            for container in stack.of(name):
                assert stack.health(container).returncode == 0


def test_both_replicas_and_the_one_address_answer_the_token_over_tls(stack: Stack) -> None:
    first, second = (stack.wire(replica) for replica in stack.of("apiserver"))
    made = first.create_config_map("shared", a="1")
    for wire in (second, balanced(stack)):
        assert (
            wire.get("/api/v1/namespaces/default/configmaps/shared").json["metadata"]["uid"] == made["metadata"]["uid"]
        )


def balanced(stack: Stack) -> Wire:
    """Build a client through the balancer, with the kubeconfig that a user copies from it."""
    (container,) = stack.of("balancer")
    return stack.wire(container)


def test_the_kubeconfig_for_the_host_names_the_published_address(stack: Stack) -> None:
    (container,) = stack.of("balancer")
    file = stack.place(stack.of("apiserver")[0], "/credentials/kubeconfig")
    assert yaml.safe_load(file.read_text())["clusters"][0]["cluster"]["server"] == f"https://{container.address}:6443"
    done = subprocess.run(
        [sys.executable, "-m", "kubedra", "health", "--kubeconfig", str(file)],
        env=process.environment(),
        capture_output=True,
        text=True,
    )
    assert done.stdout == "ok\n"


@pytest.mark.parametrize(("token", "status"), [("", 403), ("wrong", 401)])
def test_without_the_token_nothing_is_to_be_had(stack: Stack, token: str, status: int) -> None:
    assert balanced(stack).user(token).get("/api/v1/nodes").status == status


def test_the_database_wants_its_password(stack: Stack) -> None:
    import psycopg

    (container,) = stack.of("postgres")
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(f"postgresql://kubedra@{container.address}/kubedra?passfile=/nowhere")


def test_the_controllers_make_a_pod_run(stack: Stack) -> None:
    wire = balanced(stack)
    wait_until(lambda: len(wire.get("/api/v1/nodes").json["items"]) == 2, "there are two nodes")
    run_a_pod(wire, "first")


def test_a_replica_that_is_killed_is_missed_by_nobody_and_comes_back(stack: Stack) -> None:
    wire, (lost, _) = balanced(stack), stack.of("apiserver")
    stack.processes[lost].kill()
    stack.processes[lost].wait()
    assert stack.health(lost).returncode == 1

    def answers() -> bool:
        try:
            return wire.get("/readyz").status == 200
        except OSError:
            return False

    wait_until(answers, "the other replica answers")
    run_a_pod(wire, "second")
    stack.begin(lost)
    stack.healthy(lost)
    assert stack.wire(lost).get("/api/v1/namespaces/default/pods/second").status == 200


def test_credentials_are_made_once(stack: Stack) -> None:
    (container,) = stack.of("credentials")
    directory = stack.place(container, "/credentials")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    stack.begin(container)
    assert ended(stack.processes[container]) == 0
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_the_controllers_end_when_told_within_their_grace(stack: Stack) -> None:
    (container,) = stack.of("controllers")
    stack.healthy(container)
    stack.processes[container].send_signal(signal.SIGTERM)
    assert ended(stack.processes[container]) == 0
    stack.begin(container)
    stack.healthy(container)
    run_a_pod(balanced(stack), "third")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path)
    # Without the balancer the published address is the service's own.
    stack.document = load({"KUBEDRA_HOST": stack.of("sqlite")[0].address, "KUBEDRA_NODES": "1"})
    try:
        yield stack
    finally:
        stack.stop()


def test_sqlite_alone_is_one_service_that_keeps_its_data_and_its_token(alone: Stack) -> None:
    assert "depends_on" not in SERVICES["sqlite"]
    (container,) = alone.of("sqlite")
    alone.place(container, "/data").mkdir(parents=True)
    alone.up("sqlite")
    wire = alone.wire(container, "/data/credentials/kubeconfig")
    run_a_pod(wire, "kept")
    assert wire.user("").get("/api/v1/nodes").status == 403
    alone.processes[container].terminate()
    assert ended(alone.processes[container]) == 0
    alone.begin(container)
    alone.healthy(container)
    assert wire.get("/api/v1/namespaces/default/pods/kept").json["status"]["phase"] == "Running"
