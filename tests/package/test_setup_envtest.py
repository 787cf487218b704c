"""`kubedra envtest-assets use …` answers as setup-envtest does for Makefiles, without a download."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from apiserver.api.features.gates import RELEASES as SERVED
from apiserver.command import fake_apiserver
from kubedra.command import setup_envtest
from kubedra.command.envtest import envtest_assets
from kubedra.runtime import process
from tests.support.patience import run_command

PLATFORM = ("--os=linux", "--arch=amd64")
#: The rules of a Makefile that kubebuilder 4 writes.
MAKEFILE = """\
LOCALBIN ?= $(shell pwd)/bin
ENVTEST ?= $(LOCALBIN)/setup-envtest
ENVTEST_K8S_VERSION ?= 1.35

$(LOCALBIN):
\tmkdir -p "$(LOCALBIN)"

.PHONY: test
test: setup-envtest
\t@echo "assets: $(shell "$(ENVTEST)" use $(ENVTEST_K8S_VERSION) --bin-dir "$(LOCALBIN)" -p path)"

.PHONY: setup-envtest
setup-envtest: $(ENVTEST)
\t@"$(ENVTEST)" use $(ENVTEST_K8S_VERSION) --bin-dir "$(LOCALBIN)" -p path || exit 1

$(ENVTEST): $(LOCALBIN)
\tfalse # would install setup-envtest from the network
"""


@pytest.fixture(autouse=True)
def no_settings_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBEBUILDER_ASSETS", "ENVTEST_USE_ENV", "ENVTEST_INSTALLED_ONLY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("kubedra.command.envtest_files._compile", lambda: None)


def test_the_releases_are_those_that_the_server_emulates(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(reversed(SERVED)) == setup_envtest.RELEASES
    assert fake_apiserver.main(["--version"]) == 0
    assert capsys.readouterr().out == f"Kubernetes v1.36.{setup_envtest.PATCH}\n"


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("1.34", "1.34.2"),
        ("1.34.x", "1.34.2"),
        ("1.34.*!", "1.34.2"),
        ("v1.34.1", "1.34.1"),
        ("~1.34.1", "1.34.2"),
        ("<1.35", "1.34.2"),
        ("<=1.35", "1.35.2"),
        ("latest", "1.36.2"),
        ("", "1.36.2"),
    ],
)
def test_a_version_selector_chooses_the_newest_matching_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], selector: str, name: str
) -> None:
    words = ["use", *filter(None, [selector]), f"--bin-dir={tmp_path}", "-p", "path", *PLATFORM]
    assert envtest_assets(words) == 0
    path = tmp_path / "k8s" / f"{name}-linux-amd64"
    assert capsys.readouterr().out == str(path)
    assert f"--emulated-version={name[:4]} " in (path / "kube-apiserver").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["use", "1.27.1"], "version 1.27.1 is not emulated; use one of 1.33, 1.34, 1.35, 1.36"),
        (["use", "one"], "version 'one' is invalid; use 1.36, 1.36.x, 1.36.2, ~1.36.0, <1.36 or latest"),
        (["sideload", "1.36.2"], "sideload: the assets of kubedra are not archives; use `use`"),
    ],
)
def test_an_impossible_request_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert envtest_assets(words) == 2
    assert capsys.readouterr().err == f"kubedra: {message}\n"


def test_binaries_of_somebody_else_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = tmp_path / "k8s" / "1.35.2-linux-amd64" / "kube-apiserver"
    real.parent.mkdir(parents=True)
    real.write_bytes(b"\x7fELF")
    words = ["use", "1.35", f"--bin-dir={tmp_path}", *PLATFORM]
    assert envtest_assets(words) == 2
    assert capsys.readouterr().err == (
        f"kubedra: {real.parent}: has binaries that kubedra did not write; delete it or use another directory\n"
    )
    assert envtest_assets(["cleanup", f"--bin-dir={tmp_path}"]) == 0
    assert [item.name for item in real.parent.iterdir()] == ["kube-apiserver"]


def test_the_forms_of_output_and_the_flags_of_downloads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "it's"
    words = ["--verify=false", "-i=true", "use", f"--bin-dir={directory}", "1.36", *PLATFORM, "-v", "debug"]
    assert envtest_assets([*words, "--index=https://example.com/index.yaml"]) == 0
    path = directory / "k8s" / "1.36.2-linux-amd64"
    assert capsys.readouterr().out == f"Version: 1.36.2\nOS/Arch: linux/amd64\nPath: {path}\n"
    assert envtest_assets([*words, "-p", "env"]) == 0
    sourced = run_command(
        ["sh", "-c", f'{capsys.readouterr().out}printf %s "$KUBEBUILDER_ASSETS"'], env=dict(os.environ), text=True
    )
    assert sourced.stdout == str(path)


def test_written_releases_are_listed_and_cleaned_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = [f"--bin-dir={tmp_path}", *PLATFORM]
    for version in ("1.34.1", "1.36"):
        assert envtest_assets(["use", version, *where]) == 0
    capsys.readouterr()
    assert envtest_assets(["list", "<1.36", *where]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "(installed)  v1.34.1  linux/amd64",
        "(available)  v1.35.2  linux/amd64",
        "(available)  v1.34.2  linux/amd64",
        "(available)  v1.33.2  linux/amd64",
    ]
    assert envtest_assets(["cleanup", "<1.36", *where]) == 0
    assert envtest_assets(["list", "-i", *where]) == 0
    assert capsys.readouterr().out.splitlines() == ["removed 1.34.1-linux-amd64", "(installed)  v1.36.2  linux/amd64"]


def test_complete_assets_of_the_environment_are_used_if_that_is_requested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(given))
    words = ["use", f"--bin-dir={tmp_path}", "-p", "path", "--use-env", *PLATFORM]
    assert envtest_assets(words) == 0
    assert capsys.readouterr().out == str(tmp_path / "k8s" / "1.36.2-linux-amd64"), "these are incomplete"
    for name in ("kube-apiserver", "etcd", "kubectl"):
        (given / name).touch()
    assert envtest_assets(words) == 0
    assert capsys.readouterr().out == str(given)


@pytest.mark.integration
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_makefile_of_kubebuilder_takes_the_script_as_its_setup_envtest(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "bin").mkdir()
    command = [sys.executable, "-m", "kubedra", "envtest-assets", str(tmp_path / "assets")]
    written = run_command(command, env=process.environment(), text=True)
    assert written.returncode == 0, written.stderr
    script = f"{written.stdout.strip()}/setup-envtest"
    made = run_command(["make", "test", f"ENVTEST={script}", "-o", script], cwd=tmp_path, env=os.environ, text=True)
    assert made.returncode == 0, made.stderr
    (assets,) = (tmp_path / "bin" / "k8s").iterdir()
    assert assets.name.startswith("1.35.2-")
    assert made.stdout.endswith(f"assets: {assets}\n")
