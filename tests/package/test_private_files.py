"""What holds secrets is its owner's alone, whatever lay there before."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubedra import ControlPlane
from kubedra.plane.control_plane import StartError
from kubedra.runtime import private_files as private

pytestmark = pytest.mark.integration


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Clear the umask: nothing may depend on the caller's."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Make a file that a link leads to."""
    path = tmp_path / "victim"
    path.write_text("precious")
    path.chmod(0o644)
    return path


def test_all_that_a_server_writes_is_closed_to_others(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with ControlPlane(storage="sqlite", data_dir=directory, args=["--tls"]) as plane:
        with plane.client() as client:
            client.get("namespaces/default")
        assert mode(directory) == 0o700
        names = {path.name for path in directory.iterdir()}
        assert {
            "kubedra.db",
            "kubedra.db-wal",
            "kubedra.db-shm",
            "lock",
            "server.json",
            "server.log",
            "tls.key",
            "kubeconfig",
        } <= names
        assert {name: oct(mode(directory / name)) for name in names if mode(directory / name) != 0o600} == {}


def test_what_an_older_release_left_open_is_closed_at_start(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with ControlPlane(storage="sqlite", data_dir=directory):
        pass
    directory.chmod(0o755)
    for path in directory.iterdir():
        path.chmod(0o644)
    with ControlPlane(storage="sqlite", data_dir=directory):
        assert mode(directory) == 0o700
        for name in ("kubedra.db", "kubedra.db-wal", "server.json", "server.log", "kubeconfig"):
            assert mode(directory / name) == 0o600


def test_a_directory_with_other_files_keeps_its_mode_and_ours_are_closed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    tmp_path.chmod(0o755)
    with ControlPlane(storage="sqlite", data_dir=tmp_path):
        assert mode(tmp_path) == 0o755
        assert mode(tmp_path / "kubedra.db") == 0o600


def test_a_file_is_not_opened_through_a_link(victim: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        private.open_file(tmp_path / "link", os.O_WRONLY | os.O_TRUNC)
    assert (victim.read_text(), mode(victim)) == ("precious", 0o644)


def test_writing_takes_the_place_of_a_link_and_leaves_what_it_led_to(victim: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(victim)
    private.write(tmp_path / "link", "secret")
    assert victim.read_text() == "precious"
    assert ((tmp_path / "link").read_text(), mode(tmp_path / "link")) == ("secret", 0o600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "victim"]


def test_a_failed_write_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "name").mkdir()
    with pytest.raises(OSError):
        private.write(tmp_path / "name", "secret")
    assert [path.name for path in tmp_path.iterdir()] == ["name"]


def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(OSError):
        private.open_file(tmp_path / "log", os.O_WRONLY | os.O_CREAT)


def test_a_server_refuses_a_database_that_is_a_link(victim: Path, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "kubedra.db").symlink_to(victim)
    with (
        pytest.raises(StartError, match="is a symbolic link"),
        ControlPlane(storage="sqlite", data_dir=directory),
    ):
        pass
    assert victim.read_text() == "precious"
