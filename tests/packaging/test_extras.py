"""What an installation without extras brings, and its line for each feature that needs one."""

from __future__ import annotations

import importlib.metadata
import json
import tomllib
from pathlib import Path

import pytest

from kubedra.runtime.extras import EXTRAS
from tests.support.patience import run_command
from tests.support.requirements import closure

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Megabytes of an installation without bytecode; docs/adr/0044-python-and-footprint.md has the share of each package.
LARGEST = 62


@pytest.mark.integration
@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        ("serve --port=0 --storage=memory --feature-gates=CBORServingAndStorage=true", "cbor"),
        ("node run n1 --plugin-dir=plugins --server=http://127.0.0.1:1", "grpc"),
        ("serve --port=0 --storage=postgresql://127.0.0.1:1/kubedra", "postgres"),
        ("serve --port=0 --storage=memory --tls", "tls"),
        ("credentials --dir=credentials", "tls"),
        ("controllers --server=http://127.0.0.1:1 --cluster-signing-cert-file=x --cluster-signing-key-file=x", "tls"),
    ],
)
def test_a_feature_without_its_extra_ends_with_one_line_that_names_it(
    bare: dict[str, str], tmp_path: Path, arguments: str, extra: str
) -> None:
    done = run_command([Path(bare["PATH"]) / "kubedra", *arguments.split()], cwd=tmp_path, env=bare, text=True)
    (line,) = done.stderr.strip().splitlines()
    assert (done.returncode, line.endswith(f": pip install 'kubedra[{extra}]'")) == (2, True), done.stderr


@pytest.mark.integration
def test_a_request_and_a_driver_without_their_extras_fail_with_the_same_line(
    bare: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(
        "import json\n"
        "from kubedra import ApiError, ControlPlane\n"
        "from kubedra.driver import Driver\n"
        "with ControlPlane() as plane, plane.client() as client:\n"
        "    path = '/api/v1/namespaces/default/serviceaccounts/default/token'\n"
        "    request = {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': {}}\n"
        "    client.wait('sa/default', 'create')\n"
        "    try: client.request('POST', path, request)\n"
        "    except ApiError as error: print(json.dumps([error.code, error.message]))\n"
        "    assert 'Traceback' not in plane.log(), plane.log()\n"
        "    try: Driver().run(node='n1', plugin_dir='plugins')\n"
        "    except ImportError as error: print(json.dumps([error.name, str(error)]))\n"
    )
    done = run_command([Path(bare["PATH"]) / "python", "program.py"], cwd=tmp_path, env=bare, text=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [
            500,
            "Internal error occurred: this needs the package cryptography, which is not installed: pip install 'kubedra[tls]'",
        ],
        ["grpclib", "this needs the package grpclib, which is not installed: pip install 'kubedra[grpc]'"],
    ], done.stdout + done.stderr


def test_every_package_that_may_be_missing_belongs_to_the_extra_that_the_line_names() -> None:
    distributions = importlib.metadata.packages_distributions()
    extras = PROJECT["optional-dependencies"]
    for package, extra in EXTRAS.items():
        names = closure(extras[extra])
        assert any(name.lower() in names for name in distributions[package]), package
        base = closure(PROJECT["dependencies"])
        assert not any(name.lower() in base for name in distributions[package]), package


@pytest.mark.integration
def test_an_installation_stays_small(installed: Path) -> None:
    # Tests that run the installation leave bytecode.
    files = [path for path in installed.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    size = sum(path.stat().st_size for path in files)
    for name in closure(PROJECT["dependencies"]):
        found = importlib.metadata.distribution(name)
        paths = [Path(file.locate()) for file in found.files or () if file.parts[0] != ".."]
        size += sum(path.stat().st_size for path in paths if path.suffix != ".pyc" and path.is_file())
    assert size / 1e6 < LARGEST, f"{size / 1e6:.1f} MB"


@pytest.mark.integration
def test_the_wheel_has_the_openapi_documents_only_compressed(installed: Path) -> None:
    documents = [path for path in (installed / "kubedra/_server/openapi").rglob("*") if path.is_file()]
    assert len(documents) == sum(path.is_file() for path in (ROOT / "openapi").rglob("*"))
    assert {path.suffix for path in documents} == {".gz"}
    assert sum(path.stat().st_size for path in documents) < 1_000_000
