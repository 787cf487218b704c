"""A wheel of this tree, and a Python with nothing but its dependencies."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.requirements import closure

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel into a directory, as pip unpacks it; its dependencies are this environment's."""
    made = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = made.glob("kubedra-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(made / "site")
    return made / "site"


@pytest.fixture(scope="session")
def bare(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a Python with only the wheel, its declared dependencies and pytest.

    No git, no compiler and no kubectl are on its PATH.
    """
    home = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    for entry in installed.iterdir():
        (site / entry.name).symlink_to(entry)
    (metadata,) = installed.glob("kubedra-*.dist-info")
    declared = importlib.metadata.Distribution.at(metadata).requires or []
    for name in closure([*declared, "pytest"]):
        for file in importlib.metadata.distribution(name).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(Path(file.locate()).parents[len(file.parts) - 1] / top)
    program = home / "bin" / "kubedra"
    program.write_text(f"#!{home}/bin/python\nimport sys\nfrom kubedra.cli import main\nsys.exit(main())\n")
    program.chmod(0o755)
    for tool in ("grep", "sort"):
        (home / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    return {"PATH": str(home / "bin"), "HOME": str(home)}
