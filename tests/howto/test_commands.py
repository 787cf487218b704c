"""The commands of README, tutorial and how-to pages run from top to bottom, and print what the page shows.

A block `sh` has commands. A block `console` has commands after `$ ` and their output (`…` matches anything).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kubedra.runtime import process
from tests.support.patience import run_command, wait_until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs/tutorial").glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/howto").rglob("*.md")),
    ROOT / "CONTRIBUTING.md",
]
_BLOCK = re.compile(r"^ *```(sh|console)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"`(\S+\.yaml)`\n\n```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)

#: Pages whose commands need more than this, and where they are run.
ELSEWHERE = {
    "any-language": "test_howto.py: the page is a project in each language",
    "envtest": "tests/package/test_envtest.py: envtest itself is Go",
    "docker-compose": "a container engine; tests/compose",
    "damage": "a damaged file; tests/storage/test_damage.py",
    "index": "an installation from PyPI; README and tests/packaging have the rest",
    "release": "tests/packaging/test_release.py",
    "CONTRIBUTING": "the suite itself",
    "add-a-conversation": "the suite itself",
    "add-a-gated-field": "the suite itself",
    "add-a-storage-backend": "the suite itself",
}
#: Binaries without which a page is not run.
NEEDS = {
    "go-driver": ("kubectl", "dra-test-driver"),
    "real-kube-scheduler": ("kubectl", "kube-scheduler", "kube-controller-manager"),
    "helm": ("kubectl", "helm"),
    "cel": (),
    "several-servers": (),
    "simulate": (),
    "scenarios": (),
}
#: Commands that go on until they are stopped: their reader has a terminal for each.
GO_ON = ("kube-scheduler", "kube-controller-manager", "dra-test-driver", "kubedra node run", "kubedra serve")
#: Commands that are no part of a session: this suite.
LEFT_OUT = {"./dev test"}
#: What a command prints, as a pattern, where it is more than nothing; read again until it does.
PRINTS = {
    "kubectl get nodes": r"node-1 +Ready",
    "kubedra status": r"(?m)^node-1 +Ready +8 +\d +\d +\d$",
    "kubectl get resourceslices": r"gpu\.example\.com-node-1",
    "kubectl get pods,resourceclaims -n quickstart": r"(?s)trainer-a +1/1 +Running.*allocated,reserved",
    "kubectl get pods,resourceclaims -n quickstart -o wide": r"(?s)trainer-a +1/1 +Running.*allocated,reserved",
    "kubectl get pods -n quickstart -w": r"trainer-a +1/1 +Running",
    "kubectl describe pod greedy -n quickstart": r"FailedScheduling.*0/2 nodes are available",
    "kubedra node add node-1 --as that-machine --slices slices.yaml": r"^node/that-machine created\n$",
    "kubedra explain pod greedy -n quickstart": r"(?s)0/2 nodes are available.*what would help.* more devices? like ",
    "kubedra import --kubeconfig .kubedra-production/kubeconfig -o production.kubedra": r"^imported \d+ objects into",
    "kubedra replay day.kubedra": r"^replayed \d+ s: \d+ writes of users",
    "kubedra replay audit.log": r"(?m)^\d+ pods: ",
    "kubectl get pods -n quickstart -o wide": r"(?s)greedy +0/1 +Pending.*trainer-a +1/1 +Running",
    "kubedra explain node node-1": r"8 devices: ",
    "kubedra timeline pod/trainer-a -n quickstart": r"(?s)attempt 1 +scheduled: to node.*reserved.*bound.*running",
    "kubedra history pod/trainer-a -n quickstart": r"(?s)create binding .*kubectl.*delete, removed",
    "kubedra get pods -n quickstart --at -1s": r"(?s)NAME +READY.*trainer-b",
    "kubedra explain pod greedy -n quickstart --kubeconfig .kubedra-explain/kubeconfig": r"greedy: unschedulable",
    "kubectl get --raw /-/explain/pod/quickstart/greedy": r'"verdict":"unschedulable"',
    "kubectl get pods": r"tolerant +1/1 +Running",
    "kubedra profiles": r"(?m)^8xh100 ",
    "kubectl --kubeconfig .kubedra-drivers/kubeconfig get resourceslices": r"test-driver\.cdi\.k8s\.io-n1",
    "kubectl --kubeconfig .kubedra-scheduler/kubeconfig get pods,resourceclaims -n quickstart -o wide": r"(?s)trainer-a +1/1 +Running",
    "kube-scheduler --kubeconfig .kubedra-scheduler/kubeconfig --leader-elect=false --secure-port=0 -v=2": "Caches populated",
    "kubectl --kubeconfig .kubedra-scheduler/kubeconfig rollout status deployment/web": "successfully rolled out",
    'curl -s "$URL/-/faults"': r'"id":"fault-1"',
    'curl -s "$URL/-/requests?verb=list&resource=pods&limit=1"': r'"userAgent":"kubectl/',
}


def commands(page: Path) -> list[str]:
    return [command for command, _ in said(page)]


def said(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page with the output that it shows; "" where it shows none."""
    found: list[tuple[str, str]] = []
    for kind, text in _BLOCK.findall(page.read_text()):
        if kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, printed = part.partition("\n")
                found.append((command, printed))
        else:
            lines = text.replace("\\\n", " ").splitlines()
            bare = (re.sub(r"\s+#.*$", "", line).strip() for line in lines)
            found += [(command, "") for command in whole(bare) if command not in LEFT_OUT]
    return found


def loosely(printed: str) -> str:
    """Build the pattern of an output as a page shows it: columns may be wider, and an ellipsis matches anything."""
    lines = [r"[ \t]+".join(map(re.escape, line.split())) for line in printed.splitlines() if line.strip()]
    return r"(?s)" + r"\s*\n\s*".join(lines).replace(re.escape("…"), ".*")


def whole(lines: Iterable[str]) -> Iterator[str]:
    """Join commands that continue inside quotes over several lines."""
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
KUBECTL = ("kubectl",)


class Session:
    """A reader's terminal in a directory that has the examples, with `kubedra` on the PATH and variables that last."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "work"
        self._running: dict[str, tuple[subprocess.Popen[str], Path]] = {}
        #: Paths of sockets have at most 107 bytes.
        self.short = Path(tempfile.mkdtemp(prefix="kubedra-"))
        tools = directory / "bin"
        self.environment = {**process.environment(), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
        self.environment.pop("KUBECONFIG", None)

    def run(self, command: str, *, shown: bool = False) -> str:
        """Run a command that must succeed; return its output.

        A server goes to the background; a watch ends after its first output.
        """
        words = command.split()
        if words[0] == "export":
            self.environment.update(dict(word.split("=", 1) for word in words[1:]))
            return ""
        if goes_on(command):
            return self._begin(command)
        if re.match(r"[A-Z_]+=", command):
            name, _, value = command.partition("=")
            said = run_command(["sh", "-c", f"printf %s {value}"], cwd=self.directory, env=self.environment, text=True)
            self.environment[name] = said.stdout
            return ""
        if words[:2] in (["./dev", "up"], ["kubedra", "up"]):
            # On a port that is free.
            flags = re.sub(r"--port[ =]\d+", "", " ".join(words[2:]))
            command = f"kubedra up {flags.replace('--detach', '')} --detach --port=0 --durability=off"
        if words[-1] == "-w":
            return self._watch(words)
        done = run_command(["sh", "-c", command], cwd=self.directory, env=self.environment, text=True)
        # What a page shows of a failure is what it says of it.
        assert done.returncode == 0 or shown, f"{command}: {done.stdout}{done.stderr}"
        return str(done.stdout + done.stderr) if shown else str(done.stdout)

    def _begin(self, command: str) -> str:
        """Start a command that does not end, in a terminal of its own."""
        log = self.directory / f"log-{len(self._running)}"
        with log.open("w") as out:
            begun = subprocess.Popen(
                ["sh", "-c", re.sub(r"^((?:\w+=\S+ )*)", r"\1exec ", command)],
                cwd=self.directory,
                env=self.environment,
                stdout=out,
                stderr=out,
                text=True,
            )
        self._running[command] = begun, log
        return ""

    def said(self, command: str) -> str:
        """Return the output so far of a background command."""
        return self._running[command][1].read_text()

    def check(self) -> None:
        """Assert that no background command has ended."""
        for command, (begun, log) in self._running.items():
            assert begun.poll() is None, f"{command} ended: {log.read_text()}"

    def end(self) -> None:
        """End the background commands and the server."""
        for begun, _ in self._running.values():
            begun.terminate()
            begun.wait()
        for data_dir in self.directory.glob(".kubedra*"):
            run_command(["kubedra", "down", f"--data-dir={data_dir}"], cwd=self.directory, env=self.environment)
        shutil.rmtree(self.short)

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


@pytest.fixture(scope="module")
def readers_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the one directory in which a reader follows all pages, one after the other."""
    directory = tmp_path_factory.mktemp("reader")
    work, tools = directory / "work", directory / "bin"
    work.mkdir()
    (work / "examples").symlink_to(ROOT / "examples")
    tools.mkdir()
    (tools / "kubedra").write_text(f'#!/bin/sh\nexec {sys.executable} -m kubedra "$@"\n')
    (tools / "kubedra").chmod(0o755)
    return directory


@pytest.fixture
def session(readers_directory: Path) -> Iterator[Session]:
    made = Session(readers_directory)
    yield made
    made.end()


@pytest.mark.parametrize("page", sorted((ROOT / "docs/howto").rglob("*.md")), ids=lambda page: page.stem)
def test_a_page_has_a_data_directory_of_its_own_and_stops_its_server(page: Path) -> None:
    text = page.read_text()
    starts = [line for block in _BLOCK.findall(text) for line in block[1].splitlines() if "kubedra up" in line]
    found = [re.search(r"--data-dir=(\S+)", line) for line in starts if "--detach" in line]
    assert len(found) == len(starts), f"a start that blocks the terminal: {starts}"
    for each in found:
        assert each is not None, f"a start in .kubedra: {starts}"
        assert f"kubedra down --data-dir={each[1]}" in text
        pages = (ROOT / "docs/howto").rglob("*.md")
        others = [other for other in pages if other != page and each[0] in other.read_text()]
        assert not others, f"{each[1]} is also the data directory of {others}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_every_command_of_a_page_does_what_the_page_says(
    session: Session, page: Path, request: pytest.FixtureRequest
) -> None:
    missing = [tool for tool in NEEDS.get(page.stem, KUBECTL) if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    for name, text in _FILE.findall(page.read_text()):
        (session.directory / name).write_text(text)
    for command, shown in said(page):
        pattern = loosely(shown) if shown else PRINTS.get(command, "")
        done = here(command, session, request)
        printed = [session.run(done, shown=bool(shown))]

        def as_said(
            command: str = command, pattern: str = pattern, printed: list[str] = printed, done: str = done
        ) -> bool:
            if goes_on(command):
                printed.append(session.said(done))
            elif not re.search(pattern, printed[-1]) and command.startswith("kubectl"):
                printed.append(session.run(done))
            return re.search(pattern, printed[-1]) is not None

        wait_until(as_said, f"{command} prints {pattern}: {printed[-1]}")
        session.check()


def here(command: str, session: Session, request: pytest.FixtureRequest) -> str:
    """Replace a database and directories by those of this machine."""
    if "postgresql://kubedra:secret@db/kubedra" in command:
        database = request.getfixturevalue("postgres_url")
        command = command.replace("postgresql://kubedra:secret@db/kubedra", database)
    if goes_on(command):
        command = re.sub(r"--port[ =]\d+", "--port=0", command).removesuffix("&").strip()
    return command.replace("/var/lib/", f"{session.short}/").replace("/tmp/n1", f"{session.short}/n1")


def goes_on(command: str) -> bool:
    return re.sub(r"^(\w+=\S+ )+", "", command).startswith(GO_ON)


def test_the_pages_that_are_run_are_the_ones_with_commands() -> None:
    assert {page.stem for page in RUN} >= {"README", "first-steps", "device-taints", "virtual-time", "cel"}
    assert set(ELSEWHERE) <= {page.stem for page in PAGES if commands(page)} | {"any-language"}
    assert set(NEEDS) <= {page.stem for page in RUN}
    # What is expected of a command that no page has any more.
    assert set(PRINTS) <= {command for page in RUN for command in commands(page)}
