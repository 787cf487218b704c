"""The commands of README, tutorial and how-to pages, run from top to bottom, with what they print compared loosely."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kubedra import process
from tests.support.patience import run_command, wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs/tutorial").glob("*.md")),
    *sorted((ROOT / "docs/howto").glob("*.md")),
]
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"`(\S+\.yaml)`\n\n```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)

#: Pages whose commands need more than kubectl, and where they are run.
ELSEWHERE = {
    "any-language": "test_howto.py",
    "docker-compose": "a container engine; tests/compose",
    "go-driver": "a driver's binary; tests/node",
    "real-kube-scheduler": "kube-scheduler; tests/scheduler",
}
#: Commands that are no part of a session: this suite.
LEFT_OUT = {"./dev test"}
#: What a command prints, as a pattern, where it is more than nothing; read again until it does.
PRINTS = {
    "kubectl get nodes": r"node-1 +Ready",
    "kubectl get resourceslices": r"node-1-gpu\.example\.com",
    "kubectl get pods,resourceclaims -n quickstart": r"(?s)trainer-a +1/1 +Running.*allocated,reserved",
    "kubectl get pods,resourceclaims -n quickstart -o wide": r"(?s)trainer-a +1/1 +Running.*allocated,reserved",
    "kubectl get pods -n quickstart -w": r"trainer-a +1/1 +Running",
    "kubectl describe pod greedy -n quickstart": r"FailedScheduling.*0/2 nodes are available",
    "kubedra node add node-1 --as that-machine --slices slices.yaml": r"^node/that-machine created\n$",
    "kubectl get pods": r"tolerant +1/1 +Running",
    "kubedra profiles": r"(?m)^8xh100 ",
    'curl -s "$URL/-/faults"': r'"id":"fault-1"',
    'curl -s "$URL/-/requests?verb=list&resource=pods&limit=1"': r'"userAgent":"kubectl/',
}

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def commands(page: Path) -> list[str]:
    lines = "\n".join(_BLOCK.findall(page.read_text())).replace("\\\n", " ").splitlines()
    bare = (re.sub(r"\s+#.*$", "", line).strip() for line in lines)
    return [command for command in whole(bare) if command not in LEFT_OUT]


def whole(lines: Iterable[str]) -> Iterator[str]:
    """Commands, of which one may go over several lines inside of quotes."""
    begun: list[str] = []
    for line in lines:
        if not begun and (not line or line.startswith("#")):
            continue
        begun.append(line)
        try:
            shlex.split("\n".join(begun))
        except ValueError:
            continue
        yield "\n".join(begun)
        begun = []


RUN = [page for page in PAGES if page.stem not in ELSEWHERE and commands(page)]


class Session:
    """A reader's terminal: a directory with the examples, `kubedra` on the PATH, variables that last."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "work"
        self.directory.mkdir()
        (self.directory / "examples").symlink_to(ROOT / "examples")
        tools = directory / "bin"
        tools.mkdir()
        (tools / "kubedra").write_text(f'#!/bin/sh\nexec {sys.executable} -m kubedra "$@"\n')
        (tools / "kubedra").chmod(0o755)
        self.environment = {**process.environment(), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
        self.environment.pop("KUBECONFIG", None)

    def run(self, command: str) -> str:
        """What it printed; it must succeed. A server goes to the background, a watch ends when it has printed."""
        words = command.split()
        if words[0] == "export":
            self.environment.update(word.split("=", 1) for word in words[1:])
            return ""
        if re.match(r"[A-Z_]+=", command):
            name, _, value = command.partition("=")
            said = run_command(["sh", "-c", f"printf %s {value}"], cwd=self.directory, env=self.environment, text=True)
            self.environment[name] = said.stdout
            return ""
        if words[:2] in (["./dev", "up"], ["kubedra", "up"]):
            # On a port that is free.
            flags = re.sub(r"--port[ =]\d+", "", " ".join(words[2:]))
            command = f"kubedra up {flags} --detach --port=0 --durability=off"
        if words[-1] == "-w":
            return self._watch(words)
        done = run_command(["sh", "-c", command], cwd=self.directory, env=self.environment, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return str(done.stdout)

    def _watch(self, words: list[str]) -> str:
        watching = subprocess.Popen(
            words, cwd=self.directory, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        with watching:
            assert watching.stdout is not None
            printed = watching.stdout.readline() + watching.stdout.readline()
            assert watching.poll() is None, printed
            watching.terminate()
        return printed


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(tmp_path)
    yield made
    run_command(["sh", "-c", "kubedra down"], cwd=made.directory, env=made.environment)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_every_command_of_a_page_does_what_the_page_says(session: Session, page: Path) -> None:
    for name, text in _FILE.findall(page.read_text()):
        (session.directory / name).write_text(text)
    for command in commands(page):
        printed = [session.run(command)]
        pattern = PRINTS.get(command, "")

        def as_said(command: str = command, pattern: str = pattern, printed: list[str] = printed) -> bool:
            if not re.search(pattern, printed[-1]) and command.startswith("kubectl"):
                printed.append(session.run(command))
            return re.search(pattern, printed[-1]) is not None

        wait_until(as_said, f"{command} prints {pattern}: {printed[-1]}")


def test_the_pages_that_are_run_are_the_ones_with_commands() -> None:
    assert {page.stem for page in RUN} >= {"README", "first-steps", "device-taints", "virtual-time"}
    assert set(ELSEWHERE) <= {page.stem for page in PAGES}
    # What is expected of a command that no page has any more.
    assert set(PRINTS) <= {command for page in RUN for command in commands(page)}
