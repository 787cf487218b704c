"""A control plane in the background, as a user starts, asks and stops it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubedra import ControlPlane, cli
from kubedra.command.completion import commands
from kubedra.plane import background as lifecycle
from kubedra.plane.background import LOG, LifecycleError, log_lines, running, stop
from kubedra.runtime import process
from kubedra.runtime.server_record import RECORD, ServerRecord
from tests.support.patience import run_command, wait_until

pytestmark = pytest.mark.integration


def kubedra(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kubedra", *args]
    return run_command(command, cwd=directory, env=process.environment(), text=True)


def record_of(directory: Path) -> dict[str, Any]:
    """Return the record of the server that runs on a data directory."""
    record = running(directory)
    assert record is not None
    return record


@pytest.fixture
def detached(tmp_path: Path) -> Iterator[Path]:
    started = kubedra(tmp_path, "up", "--detach", "--port=0", "--nodes=1", "--durability=off")
    assert started.returncode == 0, started.stderr
    yield tmp_path
    kubedra(tmp_path, "down")


def test_a_detached_server_is_ready_when_the_command_returns(detached: Path) -> None:
    status = kubedra(detached, "status")
    assert status.returncode == 0
    assert record_of(detached / ".kubedra")["url"] in status.stdout
    assert re.search(r"(?m)^node-1 +Ready +8 +0 +8 +0$", status.stdout), status.stdout


def test_a_second_server_on_the_same_directory_is_refused_with_the_firsts_address(detached: Path) -> None:
    again = kubedra(detached, "up", "--detach", "--port=0")
    assert again.returncode == 2
    assert f"a server is already running at {record_of(detached / '.kubedra')['url']}" in again.stderr


def test_its_log_can_be_read(detached: Path) -> None:
    assert "api server" in kubedra(detached, "logs").stdout


def test_its_log_is_followed_to_its_last_line(detached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_at_first_pause(_: float) -> None:
        monkeypatch.undo()
        kubedra(detached, "down")

    monkeypatch.setattr("kubedra.plane.background.time.sleep", stop_at_first_pause)
    lines = [*log_lines(detached / ".kubedra", follow=True)]
    assert lines[-1].startswith("stopped; ")
    assert "".join(lines) == (detached / ".kubedra" / LOG).read_text()


def test_down_stops_it_and_leaves_its_data(detached: Path) -> None:
    done = kubedra(detached, "down")
    assert done.stdout.startswith("stopped the server of .kubedra (pid ")
    assert running(detached / ".kubedra") is None
    assert (detached / ".kubedra" / "kubedra.db").exists()
    ended = kubedra(detached, "status")
    assert ended.returncode == 1
    assert re.search(r"the last server \(pid \d+\) stopped at \S+Z: stopped by SIGTERM", ended.stdout)
    assert kubedra(detached, "down").returncode == 2


def test_what_was_written_is_there_after_a_restart(detached: Path) -> None:
    kubedra(detached, "down")
    restarted = kubedra(detached, "serve", "--detach", "--port=0")
    assert restarted.returncode == 0, restarted.stderr
    assert "node-1" in kubedra(detached, "status").stdout


def test_a_server_that_cannot_start_says_why_in_one_line(tmp_path: Path) -> None:
    done = kubedra(tmp_path, "up", "--detach", "--emulated-version=1.20")
    assert done.returncode == 2
    assert "1.20" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_stale_record_ends_no_process_that_has_its_id_now(tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", "-m", "apiserver"], start_new_session=True
    )
    try:
        (tmp_path / RECORD).write_text(json.dumps({"pid": other.pid, "url": "http://127.0.0.1:1"}))
        assert running(tmp_path) is None
        with pytest.raises(LifecycleError, match="no server is running"):
            stop(tmp_path)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_killed_server_is_not_found_though_its_record_is_there(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with ControlPlane(data_dir=data_dir, controllers=False) as plane:
        found = record_of(data_dir)
        assert (found["pid"], found["url"]) == (plane.pid, plane.url)
        os.kill(plane.pid, signal.SIGKILL)
        wait_until(lambda: running(data_dir) is None, "the kernel has dropped its lock")
        assert (data_dir / RECORD).exists()


def test_a_server_withdraws_no_record_of_another(tmp_path: Path) -> None:
    first, second = ServerRecord(tmp_path), ServerRecord(tmp_path)
    first.publish({"url": "first"})
    second.publish({"url": "second"})
    first.withdraw()
    assert json.loads((tmp_path / RECORD).read_text()) == {"url": "second"}
    second.withdraw()
    assert not (tmp_path / RECORD).exists()
    ServerRecord(tmp_path).withdraw()


def test_a_server_that_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "STOP_TIMEOUT", 0.1)
    with ControlPlane(data_dir=tmp_path, controllers=False) as plane:
        os.kill(plane.pid, signal.SIGSTOP)
        assert stop(tmp_path) == plane.pid
        assert running(tmp_path) is None


def test_the_kernels_word_counts_not_the_records(tmp_path: Path) -> None:
    with ControlPlane(data_dir=tmp_path, controllers=False) as plane:
        record = tmp_path / RECORD
        record.write_text(json.dumps({**json.loads(record.read_text()), "pid": os.getpid()}))
        assert record_of(tmp_path)["pid"] == plane.pid
        assert stop(tmp_path) == plane.pid


def test_log_records_are_lines_of_json_where_that_is_asked_for(tmp_path: Path) -> None:
    code = (
        "import logging; from apiserver.options.logs import configure; configure('json', 0);"
        " logging.getLogger('a').warning('two\\nlines')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=process.environment(), capture_output=True, text=True, check=True
    )
    (line,) = done.stderr.splitlines()
    record = json.loads(line)
    assert (record["level"], record["logger"], record["msg"]) == ("warning", "a", "two\nlines")


def test_completion_knows_every_command() -> None:
    found = commands(cli.USAGE)
    assert set(found) == {*cli._DELEGATES, *cli._COMMANDS, *cli._MODULES, "version"}
    assert (found["node"], found["data"]) == (["add", "run"], ["check", "repair"])


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("kubedra comp", "completion"),
        ("kubedra node r", "run"),
        ("kubedra data c", "check"),
        ("kubedra completion z", "zsh"),
        ("kubedra up --emu", "--emulated-version"),
        ("kubedra node run --plugin-d", "--plugin-dir"),
    ],
)
def test_completion_offers_commands_their_second_words_and_their_flags(
    tmp_path: Path, words: str, offered: str
) -> None:
    program = tmp_path / "kubedra"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kubedra "$@"\n')
    program.chmod(0o755)
    asked = (
        f"PATH={tmp_path}:$PATH; source <(kubedra completion bash); COMP_WORDS=({words});"
        f" COMP_CWORD={len(words.split()) - 1}; _kubedra; echo ${{COMPREPLY[@]}}"
    )
    done = run_command(["bash", "-c", asked], env=process.environment(), text=True)
    assert (done.stdout.strip(), done.stderr) == (offered, "")


def test_a_shells_script_is_the_same_for_both_but_for_the_first_line(tmp_path: Path) -> None:
    bash, zsh = (kubedra(tmp_path, "completion", shell).stdout for shell in ("bash", "zsh"))
    assert zsh.partition("\n")[2] == bash
