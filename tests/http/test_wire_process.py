"""The server as a process: output, start errors, files, and its end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest
import yaml

from apiserver.runtime import lazy_imports as warming
from tests.support.patience import communicate, ended, run_command
from tests.support.tokens import token_flag
from tests.support.wire import Child, Wire, command, environment, refused

pytestmark = pytest.mark.integration

MAPS = "/api/v1/namespaces/default/configmaps"


MISTAKES: Final = [
    (["--nope"], ["--nope"]),
    (["--port=99999"], ["--port", "99999"]),
    (["--port=many"], ["--port", "many"]),
    (["--durability=maybe"], ["--durability", "maybe"]),
    (["--storage=mysql://x"], ["--storage", "mysql"]),
    (["--emulated-version=1.20"], ["--emulated-version", "1.20"]),
    (["--feature-gates=DRAAdminAccess"], ["--feature-gates", "missing bool value for DRAAdminAccess"]),
    (["--feature-gates=DRAPartitionableDevices=maybe"], ["DRAPartitionableDevices=maybe"]),
    (["--authorization-mode=RBAC,Nope"], ["--authorization-mode", "Nope"]),
    (["--enable-admission-plugins=Nope"], ["admission plugin", "Nope"]),
    (["--runtime-config=nope"], ["invalid key nope"]),
    (
        ["--runtime-config=resource.k8s.io/v1=true", "--emulated-version=1.33"],
        ["cannot enable version resource.k8s.io/v1 in runtime-config"],
    ),
    (["--token-auth-file=/nowhere/tokens.csv"], ["--token-auth-file", "/nowhere/tokens.csv"]),
    (["--tls-cert-file=/nowhere/tls.crt"], ["--tls-private-key-file"]),
    (["--bind-address=0.0.0.0"], ["0.0.0.0", "--token-auth-file"]),
    (["--bind-address=localhost"], ["--bind-address", "localhost"]),
    (["--controllers=nope"], ["--controllers", "nope"]),
]
#: Starts servers that all are expected to fail, one after the other: their flags come in as JSON, what became of each
#: goes out.
START_EACH: Final = """
import contextlib, io, json, sys
from apiserver.command.start import main
outcomes = []
for flags in json.load(sys.stdin):
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            code = main(flags)
        except SystemExit as end:
            code = end.code
    outcomes.append([code, errors.getvalue()])
json.dump(outcomes, sys.stdout)
"""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str]]:
    """Return exit code and stderr of a start with each mistake."""
    common = [f"--data-dir={tmp_path_factory.mktemp('data')}", "--storage=memory", "--port=0"]
    each = tmp_path_factory.mktemp("mistakes") / "flags"
    each.write_text(json.dumps([[*common, *flags] for flags, _ in MISTAKES]))
    with each.open() as given:
        done = run_command([sys.executable, "-P", "-c", START_EACH], env=environment(), text=True, stdin=given)
    assert done.returncode == 0, done.stderr
    return [(code, text) for code, text in json.loads(done.stdout)]


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=lambda number: MISTAKES[number][0][0])
def test_a_mistake_is_one_line_that_names_it(number: int, refusals: list[tuple[int, str]]) -> None:
    code, line = refusals[number]
    assert (code, line.count("\n")) == (2, 1), line
    for word in MISTAKES[number][1]:
        assert word in line


def test_a_busy_port_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, text = refused(f"--data-dir={tmp_path}", "--storage=memory", f"--port={port}")
    assert (code, text.count("\n")) == (2, 1)
    assert str(port) in text
    assert "in use" in text


def test_two_servers_do_not_share_a_data_directory(tmp_path: Path) -> None:
    with Child(tmp_path, "--storage=sqlite"):
        code, text = refused(f"--data-dir={tmp_path}", "--port=0")
    assert (code, text.count("\n")) == (2, 1)
    assert str(tmp_path) in text


def test_help_names_every_flag(tmp_path: Path) -> None:
    done = run_command(command("--help-all"), env=environment(), text=True)
    assert done.returncode == 0
    flags = (
        "emulated-version feature-gates runtime-config token-auth-file authorization-mode enable-admission-plugins"
        " disable-admission-plugins tls-cert-file tls-private-key-file tls port bind-address data-dir storage durability"
        " kubeconfig controllers nodes devices"
    )
    for flag in flags.split():
        assert f"--{flag}" in done.stdout


def test_a_start_prints_a_line_for_each_part_then_address_and_kubeconfig(tmp_path: Path) -> None:
    flags = command(f"--data-dir={tmp_path}", "--storage=memory", "--port=0")
    with subprocess.Popen(
        flags, env={**environment(), "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        process.send_signal(signal.SIGINT)
        last, errors = communicate(process)
    text = "".join(lines)
    assert last.splitlines() == ["stopping; send a second signal to exit immediately", "stopped; no data is kept"]
    assert "http://127.0.0.1:" in text
    assert str(tmp_path / "kubeconfig") in text
    assert (process.returncode, errors) == (0, ""), "Ctrl-C is a clean end"


def test_the_last_line_names_the_data_directory(tmp_path: Path) -> None:
    with subprocess.Popen(
        command(f"--data-dir={tmp_path}", "--port=0"), env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while "ready" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        last, _ = communicate(process)
    assert last.splitlines()[-1] == f"stopped; data is kept in {tmp_path}"


def test_a_server_whose_reader_has_gone_ends_cleanly(tmp_path: Path) -> None:
    with subprocess.Popen(
        command(f"--data-dir={tmp_path}", "--storage=memory", "--port=0"), env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        while "ready" not in process.stdout.readline():
            assert process.poll() is None
        process.stdout.close()
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_part_that_is_not_built_warns_once(tmp_path: Path) -> None:
    tokens = token_flag(tmp_path, 't,admin,1,"system:masters"\n')
    flags = ["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", tokens]
    with Child(tmp_path / "data", *flags) as child:
        warnings = [line for line in child.log().splitlines() if line.startswith("warning:")]
    assert len(warnings) == len({line.split()[1] for line in warnings}), "one line for each flag"
    assert all("docs/fidelity.md" in line for line in warnings)


def test_the_kubeconfig_is_at_the_requested_path_and_works(tmp_path: Path) -> None:
    wanted = tmp_path / "elsewhere" / "config"
    with Child(tmp_path / "data", f"--kubeconfig={wanted}") as child:
        config = yaml.safe_load(wanted.read_text())
        assert config["clusters"][0]["cluster"]["server"] == child.url
        assert child.announced["kubeconfig"] == str(wanted)
        assert wanted.stat().st_mode & 0o077 == 0, "only its owner may read it"
        assert not (tmp_path / "data" / "kubeconfig").exists()


def test_a_kubeconfig_of_another_origin_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("apiVersion: v1\nkind: Config\n")
    code, text = refused(f"--data-dir={tmp_path}", "--storage=memory", "--port=0", f"--kubeconfig={file}")
    assert (code, text.count("\n")) == (2, 1)
    assert str(file) in text
    assert file.read_text() == "apiVersion: v1\nkind: Config\n"


def test_a_kubeconfig_of_an_earlier_start_is_replaced(tmp_path: Path) -> None:
    urls = []
    for _ in range(2):
        with Child(tmp_path) as child:
            urls.append(yaml.safe_load((tmp_path / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"])
            assert urls[-1] == child.url


def test_tls_makes_a_certificate_that_the_kubeconfig_trusts_and_keeps_it(tmp_path: Path) -> None:
    import base64

    tokens = token_flag(tmp_path, 'secret,admin,1,"system:masters"\n')
    authorities = []
    for _ in range(2):
        with Child(tmp_path / "data", "--tls", tokens, "--authorization-mode=RBAC") as child:
            config = yaml.safe_load((tmp_path / "data" / "kubeconfig").read_text())
            authorities.append(
                base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
            )
            assert child.url.startswith("https://")
            wire = child.wire(config["users"][0]["user"]["token"], authorities[-1])
            wire.create_config_map("a")
            assert Wire(child.url, ca=authorities[-1]).get(MAPS).status == 403
            with wire.watch(f"{MAPS}?watch=true") as watch:
                assert watch.event()["type"] == "ADDED"
    assert authorities[0] == authorities[1]
    key = tmp_path / "data" / "tls.key"
    assert key.stat().st_mode & 0o077 == 0


def test_over_tls_an_open_servers_kubeconfig_has_credentials_as_kubectl_asks_for_a_name_without(tmp_path: Path) -> None:
    with Child(tmp_path, "--tls") as child:
        user = yaml.safe_load((tmp_path / "kubeconfig").read_text())["users"][0]["user"]
        assert child.wire(user["token"], (tmp_path / "tls.crt").read_text()).get(MAPS).status == 200


def test_a_certificate_of_the_users_is_served(tmp_path: Path) -> None:
    with Child(tmp_path / "first", "--tls"):
        pass
    certificate, key = tmp_path / "first" / "tls.crt", tmp_path / "first" / "tls.key"
    with Child(tmp_path / "second", f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}") as child:
        assert child.wire(ca=certificate.read_text()).get("/readyz").text == "ok"


def test_answered_writes_survive_a_restart_and_waiting_requests_are_not_started(tmp_path: Path) -> None:
    waits = json.dumps({"metadata": {"name": "waited"}})
    post = f"POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(waits)}"
    with Child(tmp_path, "--storage=sqlite") as child:
        made = child.wire().create_config_map("kept", k="v")
        namespaces = child.wire().get("/api/v1/namespaces").json["items"]
        with socket.create_connection(("127.0.0.1", int(child.url.rpartition(":")[2]))) as behind_a_watch:
            behind_a_watch.sendall(
                f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n{post}\r\n\r\n{waits}".encode()
            )
            assert behind_a_watch.recv(12) == b"HTTP/1.1 200"
            assert child.stop()[0] == 0, child.log()
    with Child(tmp_path, "--storage=sqlite") as child:
        wire = child.wire()
        assert wire.get(f"{MAPS}/kept").json == made
        assert wire.get(f"{MAPS}/waited").status == 404
        assert wire.get("/api/v1/namespaces").json["items"] == namespaces, "built-in objects are made once"
        assert int(wire.create_config_map("next")["metadata"]["resourceVersion"]) > int(
            made["metadata"]["resourceVersion"]
        )


def test_a_server_ends_with_its_parent(tmp_path: Path) -> None:
    with Child(tmp_path) as child:
        assert child.process.stdin is not None
        child.process.stdin.close()
        assert ended(child.process) == 0


def test_modules_for_requests_are_loaded_once_the_server_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    worked, steps = iter((0.0, 0.4, 0.5, 0.504)), list[str]()  # seconds of the processor, at one look after the other
    time = SimpleNamespace(process_time=lambda: next(worked), sleep=lambda seconds: steps.append("look"))
    monkeypatch.setattr(warming, "time", time)
    monkeypatch.setattr(warming, "importlib", SimpleNamespace(import_module=steps.append))
    warming._wait_and_import(("apiserver.cel.environments.devices",))
    assert steps == ["look", "look", "look", "apiserver.cel.environments.devices"]
