"""Prepare a release: `./dev release X.Y.Z` (docs/howto/contributing/release.md).

Without --dry-run it also changes the version and the changelog in the working tree. Nothing is committed, tagged or
published. The distributions are built twice from a clean copy, because two builds must give the same bytes.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION_FILE = "kubedra/version.py"
#: Files of the clients in other languages with the same version, and the text around it.
CLIENT_VERSIONS = {
    "clients/java/pom.xml": r"(<artifactId>kubedra</artifactId>\s*<version>)[^<]+(</version>)",
    "docs/howto/testcontainers.md": r"(ghcr\.io/kubedra/kubedra:v)[^\"`]+([\"`])",
    "examples/testcontainers/kubedra_container.py": r"(kubedra/kubedra:v)[^\"]+(\")",
    "examples/go-driver/e2e/go.mod": r"(clients/go v)\S+(\n)",
    "examples/go-project/go.mod": r"(clients/go v)\S+(\n)",
}
CHANGELOG = "CHANGELOG.md"
RECIPE = "recipe/recipe.yaml"
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_HEADING = re.compile(r"^## (?:\[?(?P<version>[^\]\s]+)\]?)(?: - (?P<date>\S+))?$", re.MULTILINE)
_SUBJECT = re.compile(r"^### (.+)$", re.MULTILINE)


class ReleaseError(Exception):
    """The tree cannot be released; the message names the reason."""


def main(arguments: list[str] | None = None) -> int:
    """Return 0 after the files of the release were written, 2 after an error."""
    parser = argparse.ArgumentParser(prog="./dev release", description="Prepare a release; nothing is published.")
    parser.add_argument("version", help="X.Y.Z, or with a1, b1, rc1 for a pre-release")
    parser.add_argument("--dry-run", action="store_true", help="leave the working tree as it is")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="directory for the files (default dist/)")
    parser.add_argument("--tagged", action="store_true", help="build the release again from its tag")
    given = parser.parse_args(arguments)
    try:
        prepare(given.version, given.out, dry_run=given.dry_run, tagged=given.tagged)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 2
    return 0


def prepare(version: str, out: Path, *, dry_run: bool = False, tagged: bool = False) -> None:
    """Check the tree, then write distributions, notes, SBOM and checksums to `out`. Raise ReleaseError."""
    _check(version, tagged=tagged)
    seconds = int(_git("log", "-1", "--format=%ct"))
    changelog = (ROOT / CHANGELOG).read_text()
    if not tagged:
        changelog = date_section(changelog, version, dt.datetime.fromtimestamp(seconds, dt.UTC).date())
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kubedra-release-") as name:
        directory = Path(name)
        tree = _copy_tree(directory / "tree", version, changelog)
        made = [*_build_twice(tree, directory, seconds), _write_sbom(tree, version)]
        files = [Path(shutil.copy(file, out)) for file in made]
    (out / "NOTES.md").write_text(f"# kubedra {version}\n\n{_sections(changelog)[version].body.strip()}\n")
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (out / "SHA256SUMS").write_text(sums)
    print(sums, end="")
    if not dry_run and not tagged:
        (ROOT / VERSION_FILE).write_text(_versioned(version))
        (ROOT / RECIPE).write_text(_versioned_recipe(version))
        for name, text in versioned_clients(version).items():
            (ROOT / name).write_text(text)
        (ROOT / CHANGELOG).write_text(changelog)
        print(
            f"{VERSION_FILE}, {RECIPE}, {CHANGELOG} and the clients are changed;"
            f" commit them, tag v{version} and push the tag"
        )


def _check(version: str, *, tagged: bool) -> None:
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"{version} is no version of the form X.Y.Z")
    if changes := _git("status", "--porcelain"):
        raise ReleaseError(f"uncommitted changes: {', '.join(line[3:] for line in changes.splitlines()[:5])}")
    if tagged:
        if _versioned(version) != (ROOT / VERSION_FILE).read_text():
            raise ReleaseError(f"{VERSION_FILE} has another version than {version}")
        if (section := _sections((ROOT / CHANGELOG).read_text()).get(version)) is None or not section.released:
            raise ReleaseError(f"{CHANGELOG} has no dated section {version}")
    elif _git("tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists already")


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the changelog: the text with its heading, the text below it, and its date."""

    text: str
    body: str
    date: str

    @property
    def released(self) -> bool:
        return self.date not in {"", "unreleased"}


def _sections(changelog: str) -> dict[str, Section]:
    """Return the sections by version, in order."""
    headings = list(_HEADING.finditer(changelog))
    ends = [heading.start() for heading in headings[1:]] + [len(changelog)]
    return {
        heading["version"]: Section(
            changelog[heading.start() : end], changelog[heading.end() : end], heading["date"] or ""
        )
        for heading, end in zip(headings, ends, strict=True)
    }


def date_section(changelog: str, version: str, day: dt.date) -> str:
    """Return the changelog with the dated section of the release, to which the unreleased entries move.

    Raise ReleaseError if the release has a date already or no entries.
    """
    sections = _sections(changelog)
    if version in sections and sections[version].released:
        raise ReleaseError(f"{CHANGELOG}: {version} was released on {sections[version].date}")
    entries = _merge([sections[name].body for name in (version, "Unreleased") if name in sections])
    if not entries:
        raise ReleaseError(f"{CHANGELOG}: nothing is listed under Unreleased")
    start = changelog.index(next(iter(sections.values())).text)
    older = "".join(section.text for name, section in sections.items() if name not in {version, "Unreleased"})
    dated = f"## Unreleased\n\n## [{version}] - {day.isoformat()}\n\n{entries}\n"
    return changelog[:start] + "\n".join(part for part in (dated, older) if part)


def _merge(bodies: list[str]) -> str:
    """Join the entries of several sections by subject (Added, Changed, …), in the order of their first occurrence."""
    subjects: dict[str, list[str]] = {}
    for body in bodies:
        head, *parts = _SUBJECT.split(body)
        for name, text in zip(["", *parts[::2]], [head, *parts[1::2]], strict=True):
            if text.strip():
                subjects.setdefault(name, []).append(text.strip())
    return "\n\n".join((f"### {name}\n\n" if name else "") + "\n\n".join(texts) for name, texts in subjects.items())


def _copy_tree(tree: Path, version: str, changelog: str) -> Path:
    """Copy the tracked files, with the version and the changelog of the release."""
    for name in _git("ls-files", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    (tree / VERSION_FILE).write_text(_versioned(version))
    (tree / RECIPE).write_text(_versioned_recipe(version))
    (tree / CHANGELOG).write_text(changelog)
    return tree


def _build_twice(tree: Path, directory: Path, seconds: int) -> list[Path]:
    """Build wheel and sdist in two directories. Raise ReleaseError unless they are equal byte for byte."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
    builds = []
    for name in ("first", "second"):
        made = directory / name
        result = subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", str(made)],
            cwd=tree, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if result.returncode:
            raise ReleaseError(f"the build failed: {result.stderr.strip().splitlines()[-1]}")
        builds.append(sorted(made.iterdir()))
    for first, second in zip(*builds, strict=True):
        if first.read_bytes() != second.read_bytes():
            raise ReleaseError(f"two builds of {first.name} differ")
    return builds[0]


def _write_sbom(tree: Path, version: str) -> Path:
    """Write a CycloneDX list of the packages of the container image (constraints.txt)."""
    made = tree.with_name(f"kubedra-{version}.cdx.json")
    command = [
        sys.executable, "-m", "cyclonedx_py", "requirements", str(tree / "constraints.txt"),
        "--pyproject", str(tree / "pyproject.toml"), "--output-reproducible", "--of", "JSON", "-o", str(made),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ReleaseError(f"the list of packages (SBOM) failed: {result.stderr.strip().splitlines()[-1]}")
    return made


def versioned_clients(version: str) -> dict[str, str]:
    """Return the files of CLIENT_VERSIONS with another version."""
    texts = {name: (ROOT / name).read_text() for name in CLIENT_VERSIONS}
    return {name: re.sub(CLIENT_VERSIONS[name], rf"\g<1>{version}\g<2>", text) for name, text in texts.items()}


def _versioned(version: str) -> str:
    text = (ROOT / VERSION_FILE).read_text()
    return re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', text)


def _versioned_recipe(version: str) -> str:
    return re.sub(
        r'^  version: ".*"', f'  version: "{version}"', (ROOT / RECIPE).read_text(), count=1, flags=re.MULTILINE
    )


def _git(*arguments: str) -> str:
    result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ReleaseError(f"git {arguments[0]}: {result.stderr.strip()}")
    return result.stdout.rstrip("\n")


if __name__ == "__main__":
    sys.exit(main())
