"""Preparing a release: the changelog's section, its errors, and builds that are equal byte for byte."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path

import pytest

from kubedra.version import __version__
from tools import release

DAY = dt.date(2027, 1, 2)
CHANGELOG = """\
# Changelog

What changed.

## Unreleased

### Added

- a flag

### Fixed

- a defect

## [0.1.0] - 2026-12-01

### Added

- everything
"""


def test_unreleased_entries_become_the_dated_section_of_the_release() -> None:
    assert release.date_section(CHANGELOG, "0.2.0", DAY) == CHANGELOG.replace(
        "## Unreleased\n", "## Unreleased\n\n## [0.2.0] - 2027-01-02\n"
    )


def test_entries_join_a_section_that_was_written_ahead() -> None:
    ahead = CHANGELOG.replace("2026-12-01", "unreleased")
    assert release.date_section(ahead, "0.1.0", DAY) == (
        "# Changelog\n\nWhat changed.\n\n## Unreleased\n\n## [0.1.0] - 2027-01-02\n\n"
        "### Added\n\n- everything\n\n- a flag\n\n### Fixed\n\n- a defect\n"
    )


@pytest.mark.parametrize(
    ("changelog", "version", "message"),
    [
        (CHANGELOG, "0.1.0", "CHANGELOG.md: 0.1.0 was released on 2026-12-01"),
        ("# Changelog\n\n## Unreleased\n", "0.1.0", "CHANGELOG.md: nothing is listed under Unreleased"),
    ],
)
def test_a_changelog_that_cannot_be_released_is_refused(changelog: str, version: str, message: str) -> None:
    with pytest.raises(release.ReleaseError, match=f"^{message}$"):
        release.date_section(changelog, version, DAY)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository with a version and a changelog, as the root of the project."""
    monkeypatch.setattr(release, "ROOT", tmp_path)
    (tmp_path / "kubedra").mkdir()
    (tmp_path / release.VERSION_FILE).write_text('__version__ = "0.1.0"\n')
    (tmp_path / release.CHANGELOG).write_text(CHANGELOG)
    for command in ("init -q", "add .", "-c user.name=n -c user.email=e commit -qm first", "tag v0.1.0"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1.0"], "release: 1.0 is no version of the form X.Y.Z"),
        (["0.1.0"], "release: the tag v0.1.0 exists already"),
        (["0.2.0", "--tagged"], "release: kubedra/version.py has another version than 0.2.0"),
    ],
)
@pytest.mark.integration
def test_a_tree_that_cannot_be_released_is_refused_in_one_line(
    repository: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release.main([*arguments, f"--out={repository / 'dist'}"]) == 2
    assert capsys.readouterr().err == f"{message}\n"


@pytest.mark.integration
def test_uncommitted_changes_are_refused(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "new").touch()
    assert release.main(["0.2.0"]) == 2
    assert capsys.readouterr().err == "release: uncommitted changes: new\n"


def test_the_clients_of_other_languages_get_the_version_of_the_release() -> None:
    for name, text in release.versioned_clients("9.8.7").items():
        before = (release.ROOT / name).read_text()
        assert "9.8.7" in text, name
        assert text.replace("9.8.7", __version__) == before, name


@pytest.mark.integration
def test_two_builds_are_equal(tmp_path: Path) -> None:
    tree = release._copy_tree(tmp_path / "tree", "9.8.7", CHANGELOG)
    assert '  version: "9.8.7"' in (tree / release.RECIPE).read_text().splitlines()
    assert [file.name for file in release._build_twice(tree, tmp_path, 1_800_000_000)] == [
        "kubedra-9.8.7-py3-none-any.whl",
        "kubedra-9.8.7.tar.gz",
    ]


RANDOM_BUILD = """\
import uuid
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        Path(self.root, "p", "stamp.py").write_text(f"stamp = '{uuid.uuid4()}'")
"""


@pytest.mark.integration
def test_builds_that_differ_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tree" / "p").mkdir(parents=True)
    (tmp_path / "tree" / "p" / "__init__.py").touch()
    (tmp_path / "tree" / "hatch_build.py").write_text(RANDOM_BUILD)
    (tmp_path / "tree" / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "p"\nversion = "1"\n[tool.hatch.build.hooks.custom]\n'
    )
    with pytest.raises(release.ReleaseError, match=r"^two builds of p-1\S+ differ$"):
        release._build_twice(tmp_path / "tree", tmp_path, 1_800_000_000)
