"""setup-envtest's command line for `kubedra envtest-assets`: `use`, `list`, `cleanup` and `version`.

Makefiles of operators call `$(ENVTEST) use VERSION --bin-dir DIR -p path`. Nothing is downloaded: `use` writes the
stand-ins of that release. Source of facts: setup-envtest of controller-runtime 0.24.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kubedra.command.envtest_files import default_directory, is_written_by_kubedra, write_assets
from kubedra.version import __version__

__all__ = ["COMMANDS", "RELEASES", "add_flags", "run"]

COMMANDS: Final = ("use", "list", "cleanup", "sideload", "version")
#: The releases that the server emulates, newest first, and the patch that it reports.
RELEASES: Final = ((1, 36), (1, 35), (1, 34), (1, 33))
PATCH: Final = 2
_SELECTOR: Final = re.compile(r"(?P<sign><=|<|~)?v?(?P<major>\d+)\.(?P<minor>\d+)(?:\.(?P<patch>\d+|x|\*))?!?")
_DIRECTORY: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)-(\w+)-(\w+)")
_BINARIES: Final = ("kube-apiserver", "etcd", "kubectl")
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}

Version = tuple[int, int, int]


class _Installed(NamedTuple):
    version: Version
    os: str
    arch: str
    path: Path


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of setup-envtest. Those about downloads have no effect."""
    flags = parser.add_argument_group("flags of setup-envtest")
    flags.add_argument(
        "--bin-dir", type=Path, metavar="DIR", help="directory of the releases, as DIR/k8s/1.36.2-linux-amd64"
    )
    flags.add_argument("-p", "--print", choices=("overview", "path", "env"), default="overview", help="output of `use`")
    flags.add_argument("--use-env", action="store_true", help="print $KUBEBUILDER_ASSETS if it is set and complete")
    flags.add_argument("-i", "--installed-only", action="store_true", help="list only written releases")
    flags.add_argument("--os", default=platform.system().lower(), help="part of the directory's name")
    machine = platform.machine().lower()
    flags.add_argument("--arch", default=_MACHINES.get(machine, machine), help="part of the directory's name")
    for name in ("--force", "--verify", "--use-deprecated-gcs"):
        flags.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    for name in ("--index", "--remote-bucket", "--remote-server", "-v"):
        flags.add_argument(name, help=argparse.SUPPRESS)


def run(options: argparse.Namespace, command: str, selector: str) -> None:
    """Run one command. Raises ValueError, OSError."""
    directory = (options.bin_dir or default_directory()).absolute() / "k8s"
    if command == "use":
        _use(options, directory, selector)
    elif command == "list":
        _list(options, directory, selector)
    elif command == "cleanup":
        _clean_up(options, directory, selector)
    elif command == "version":
        print(f"setup-envtest version: kubedra {__version__}")
    else:
        raise ValueError("sideload: the assets of kubedra are not archives; use `use`")


def _use(options: argparse.Namespace, directory: Path, selector: str) -> None:
    given = os.environ.get("KUBEBUILDER_ASSETS", "")
    if (options.use_env or os.environ.get("ENVTEST_USE_ENV")) and given and _is_complete(Path(given)):
        _print(options, Path(given), "from KUBEBUILDER_ASSETS")
        return
    version = _choose(selector)
    path = directory / f"{_text(version)}-{options.os}-{options.arch}"
    write_assets(path, release=f"{version[0]}.{version[1]}")
    _print(options, path, _text(version))


def _print(options: argparse.Namespace, path: Path, version: str) -> None:
    if options.print == "path":
        print(path, end="")
    elif options.print == "env":
        print(f"export KUBEBUILDER_ASSETS={shlex.quote(str(path))}")
    else:
        print(f"Version: {version}\nOS/Arch: {options.os}/{options.arch}\nPath: {path}")


def _list(options: argparse.Namespace, directory: Path, selector: str) -> None:
    matches = _matcher(selector)
    for each in _installed(options, directory):
        if matches(each.version):
            print(f"(installed)  v{_text(each.version)}  {each.os}/{each.arch}")
    if not options.installed_only and not os.environ.get("ENVTEST_INSTALLED_ONLY"):
        for release in RELEASES:
            if matches((*release, PATCH)):
                print(f"(available)  v{_text((*release, PATCH))}  {options.os}/{options.arch}")


def _clean_up(options: argparse.Namespace, directory: Path, selector: str) -> None:
    matches = _matcher(selector)
    for each in _installed(options, directory):
        if matches(each.version) and is_written_by_kubedra(each.path / "kube-apiserver"):
            shutil.rmtree(each.path)
            print(f"removed {each.path.name}")


def _installed(options: argparse.Namespace, directory: Path) -> list[_Installed]:
    """Return the releases in a directory for the selected platform, newest first."""

    def find() -> Iterator[_Installed]:
        for path in directory.glob("*"):
            parts = _DIRECTORY.fullmatch(path.name)
            if parts and options.os in ("*", parts[4]) and options.arch in ("*", parts[5]) and _is_complete(path):
                yield _Installed((int(parts[1]), int(parts[2]), int(parts[3])), parts[4], parts[5], path)

    return sorted(find(), reverse=True)


def _is_complete(path: Path) -> bool:
    return all((path / name).exists() for name in _BINARIES)


def _choose(selector: str) -> Version:
    """Return the version that a selector asks for. A patch is kept: it is part of the directory's name."""
    parts = _SELECTOR.fullmatch(selector)
    if parts and not parts["sign"] and (parts["patch"] or "x").isdigit():
        version = (int(parts["major"]), int(parts["minor"]), int(parts["patch"]))
        if version[:2] in RELEASES:
            return version
    matches = _matcher(selector)
    for release in RELEASES:
        if matches((*release, PATCH)):
            return (*release, PATCH)
    known = ", ".join(f"{major}.{minor}" for major, minor in reversed(RELEASES))
    raise ValueError(f"version {selector} is not emulated; use one of {known}")


def _matcher(selector: str) -> Callable[[Version], bool]:
    """Parse a version selector of setup-envtest. Raises ValueError."""
    if selector in ("", "latest", "latest-on-disk"):
        return lambda _: True
    parts = _SELECTOR.fullmatch(selector)
    if parts is None:
        raise ValueError(f"version {selector!r} is invalid; use 1.36, 1.36.x, 1.36.2, ~1.36.0, <1.36 or latest")
    release = int(parts["major"]), int(parts["minor"])
    patch = int(parts["patch"]) if (parts["patch"] or "x").isdigit() else None
    if parts["sign"] == "~":
        return lambda version: version[:2] == release and version[2] >= (patch or 0)
    if parts["sign"]:
        equals = parts["sign"] == "<="
        bound = release if patch is None else (*release, patch)
        return lambda version: version[: len(bound)] < bound or (equals and version[: len(bound)] == bound)
    return lambda version: version[:2] == release and patch in (None, version[2])


def _text(version: Version) -> str:
    return ".".join(map(str, version))
