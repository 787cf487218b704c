"""Containers as real processes: their end, their log, and edits by devices."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from apiserver.api.objects import Json
from apiserver.runtime import clock
from controllers.kubelet.dra.requests import claim_names, container_claim_names, container_requests, extended_claim_of
from controllers.kubelet.pods.containers import ContainerError
from controllers.kubelet.run import process as module
from controllers.kubelet.run.cdi import edits_of
from controllers.kubelet.run.process import Log, Process
from tests.support.patience import patience

pytestmark = [pytest.mark.integration, pytest.mark.real_time]


class Shell:
    """A process that runs a script."""

    def __init__(self, place: Path, script: str, **environment: str) -> None:
        self.over = asyncio.Event()
        self.log = Log(place / "u" / "logs" / "c.0.log")
        command = ["/bin/sh", "-c", script]
        self.process = Process(command, {"PATH": os.defpath, **environment}, place, self.log, self.over.set)

    async def end(self) -> int:
        async with patience():
            await self.over.wait()
            while not self.log.closed:
                await self.log.wait_grown()
        assert self.process.end is not None
        return self.process.end.code

    async def up(self) -> None:
        """Wait until the script has written something."""
        async with patience():
            while not self.output:
                await self.log.wait_grown()

    @property
    def output(self) -> list[str]:
        return [text for _, text in self.log.lines()[0]]


async def test_a_process_ends_with_its_code_and_its_output(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "echo out $WHO; echo err >&2; printf half; pwd -P > where; exit 3", WHO="me")
    assert await shell.end() == 3
    assert shell.output == ["out me", "err", "half"]
    assert (tmp_path / "where").read_text().strip() == str(tmp_path.resolve())
    kept = (tmp_path / "u" / "logs" / "c.0.log").read_text().splitlines()
    assert [line.partition(" ")[2] for line in kept] == shell.output
    shell.process.kill()
    assert await Shell(tmp_path, "exit 0").end() == 0


@pytest.mark.parametrize(
    ("script", "grace", "code"),
    [("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done", 30, 7),
     ("trap '' TERM; echo up; while :; do sleep 0.01; done", 0, 128 + signal.SIGKILL),
     ("echo up; exec sleep 60", 30, 128 + signal.SIGTERM)],
)  # fmt: skip
async def test_a_terminated_process_has_a_grace_period(tmp_path: Path, script: str, grace: int, code: int) -> None:
    shell = Shell(tmp_path, script)
    await shell.up()
    assert shell.process.end is None
    shell.process.terminate(0, 30)
    shell.process.terminate(0, grace)
    assert await shell.end() == code


async def test_a_process_gets_one_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(tmp_path, "echo up; exec sleep 60")
    await shell.up()
    sent: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda pid, number: sent.append(number))
        for _ in range(2):
            shell.process.terminate(0, 30)
    assert sent == [signal.SIGTERM]
    shell.process.kill()
    assert await shell.end() == 128 + signal.SIGKILL


async def test_a_process_runs_until_its_termination_is_due(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done")
    await shell.up()
    loop = asyncio.get_running_loop()
    due = loop.time() + 0.05
    shell.process.terminate(due - loop.time(), 30)
    assert await shell.end() == 7
    assert loop.time() >= due


async def test_children_of_a_process_are_killed_with_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "sleep 60 & echo up; wait")
    await shell.up()
    shell.process.kill()
    # The log ends when no process has its other end open.
    assert await shell.end() == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("command", "why"), [("no-such-command", "executable file not found in $PATH"), ("/", "permission denied")]
)
async def test_an_invalid_command_is_an_error(tmp_path: Path, command: str, why: str) -> None:
    log = Log(tmp_path / "log")
    with pytest.raises(ContainerError) as caught:
        Process([command], {}, tmp_path, log, lambda: None)
    assert (caught.value.reason, str(caught.value)) == ("RunContainerError", f'exec: "{command}": {why}')
    await asyncio.sleep(0)
    assert log.closed


async def test_a_long_log_drops_its_older_half_and_keeps_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_LOG", 10)
    log = Log(tmp_path / "log")

    def added(*texts: str) -> None:
        for text in texts:
            log._add_line((clock.now(), text))

    added("1234", "5678")
    lines, place = log.lines()
    assert ([text for _, text in lines], place) == (["1234", "5678"], 2)
    added("abc", "d")
    for since, texts in ((0, ["5678", "abc", "d"]), (1, ["5678", "abc", "d"]), (2, ["abc", "d"]), (4, [])):
        lines, place = log.lines(since)
        assert ([text for _, text in lines], place) == (texts, 4)
    added("12")
    assert [text for _, text in log.lines()[0]] == ["5678", "abc", "d", "12"]
    added("3")
    assert [text for _, text in log.lines()[0]] == ["d", "12", "3"]
    waiting = asyncio.create_task(log.wait_grown())
    await asyncio.sleep(0)
    assert not waiting.done()
    log.close()
    await waiting
    await log.wait_grown()


def spec(kind: str, *devices: Json, **edits: Any) -> str:
    return json.dumps({"kind": kind, "devices": list(devices), "containerEdits": edits})


def test_devices_edit_variables_and_files_and_common_edits_apply_once(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    mounts = [{"containerPath": "/lib", "hostPath": "/host/lib"}]
    nodes = [{"path": "/dev/x"}, {"path": "/dev/y", "hostPath": "/dev/host-y"}]
    zero = {"name": "0", "containerEdits": {"env": ["N=0", "EMPTY"], "deviceNodes": nodes}}
    one = {"name": "1", "containerEdits": {"env": ["N=1", "ALL=device=x"]}}
    (first / "gpu.json").write_text(spec("v/gpu", zero, one, {"name": "bare"}, env=["ALL=spec"], mounts=mounts))
    (first / "notes.txt").write_text(spec("v/gpu", {"name": "2"}))
    (first / "list.json").write_text("[]")
    found = edits_of(["v/gpu=1", "v/gpu=0", "v/gpu=1"], [first, tmp_path / "none"])
    assert found.env == {"ALL": "device=x", "N": "0", "EMPTY": ""}
    assert found.links == {"/lib": "/host/lib", "/dev/x": "/dev/x", "/dev/y": "/dev/host-y"}
    assert edits_of(["v/gpu=bare"], [first]).env == {"ALL": "spec"}
    assert edits_of([], []).env == {}
    (second / "gpu.yaml").write_text("kind: v/gpu\ndevices:\n- name: '1'\n  containerEdits: {env: [N=later]}\n")
    (second / "torn.yml").write_text("{")
    assert edits_of(["v/gpu=1"], [first, second]).env == {"N": "later"}
    with pytest.raises(ContainerError) as caught:
        edits_of(["v/gpu=2", "v/gpu=0", "v/gpu=3"], [first, second])
    text = f"unresolvable CDI devices v/gpu=2, v/gpu=3 (looked in {first}, {second})"
    assert (caught.value.reason, str(caught.value)) == ("CreateContainerError", f"CDI device injection failed: {text}")


def test_a_container_uses_its_named_requests_and_extended_resources() -> None:
    def container(name: str, *claims: Json, **requests: str) -> Json:
        named = {key.replace("__", "/").replace("_", "."): value for key, value in requests.items()}
        return {"name": name, "resources": {"claims": list(claims), "requests": named}}

    one = container("one", {"name": "a"}, {"name": "b", "request": "r1"}, {"name": "b", "request": "r2"},
                    example_com__gpu="1", cpu="1")  # fmt: skip
    two = container("two", example_com__gpu="0")
    none = {"name": "none"}
    mappings = [{"containerName": name, "resourceName": resource, "requestName": f"{name}-{resource}"}
                for name in ("one", "two") for resource in ("example.com/gpu", "cpu")]  # fmt: skip
    status = {"resourceClaims": [{"name": "b", "resourceClaimName": "made"}, {"name": "c"}]}
    entries = [{"name": "a", "resourceClaimName": "given"}, {"name": "b", "resourceClaimTemplateName": "t"},
               {"name": "c", "resourceClaimTemplateName": "t"}]  # fmt: skip
    metadata = {"name": "p", "namespace": "ns", "uid": "u"}
    pod: Json = {"metadata": metadata, "spec": {"resourceClaims": entries, "containers": [one, two]}}
    pod["status"] = {"resourceClaimStatuses": status["resourceClaims"],
                     "extendedResourceClaimStatus": {"resourceClaimName": "ext", "requestMappings": mappings}}  # fmt: skip
    assert claim_names(pod, extended=True) == ["given", "made", "ext"]
    assert claim_names(pod, extended=False) == ["given", "made"]
    named = {"given": [""], "made": ["r1", "r2"]}
    assert container_requests(pod, one, extended=True) == {**named, "ext": ["one-example.com/gpu"]}
    assert container_requests(pod, one, extended=False) == named
    assert container_requests(pod, two, extended=True) == container_requests(pod, none, extended=True) == {}
    assert [container_claim_names(pod, each) for each in (one, two)] == [["given", "made"], []]
    assert [extended_claim_of(pod, each) for each in (one, two, none)] == ["ext", "ext", None]
    assert extended_claim_of({**pod, "status": {}}, one) is None
