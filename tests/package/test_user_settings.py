"""Flags from the environment and from a file: the command line wins over variables, variables win over the file."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from kubedra.command.arguments import Parser
from kubedra.kubeconfig.reader import default_files
from kubedra.runtime.user_settings import data_dir, source_of, suggest


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parser(*, all_settings: bool = True, prog: str = "kubedra up") -> Parser:
    made = Parser(prog=prog, all_settings=all_settings, owns_file=prog == "kubedra up")
    made.add_argument("--nodes", type=int, default=2)
    made.add_argument("--data-dir", type=Path, default=Path(".kubedra"))
    made.add_argument("--tls", action="store_true")
    made.add_argument("-v", "--verbose", action="count", default=0)
    made.add_argument("--feature-gates", action="append", default=[])
    either = made.add_mutually_exclusive_group()
    either.add_argument("--server")
    either.add_argument("--kubeconfig")
    return made


def parse(*args: str) -> argparse.Namespace:
    return parser().parse_args(args)


def test_a_file_sets_flags_a_variable_overrides_it_and_the_command_line_overrides_both(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parse().nodes == 2
    (directory / "kubedra.toml").write_text("nodes = 3\n")
    assert parse().nodes == 3
    monkeypatch.setenv("KUBEDRA_NODES", "4")
    assert parse().nodes == 4
    assert parse("--nodes", "5").nodes == 5
    assert parse("--nodes=6").nodes == 6


def test_values_of_every_kind_are_set(directory: Path) -> None:
    (directory / "pyproject.toml").write_text(
        '[tool.kubedra]\ntls = true\nverbose = 2\ndata-dir = "d"\n[tool.kubedra.feature-gates]\nA = true\nB = false\n'
    )
    found = parse()
    assert (found.tls, found.verbose, found.data_dir, found.feature_gates) == (True, 2, Path("d"), ["A=true,B=false"])
    (directory / "kubedra.toml").write_text('tls = false\nfeature-gates = ["A=true", "B=true"]\n')
    found = parse()
    assert (found.tls, found.verbose, found.feature_gates) == (False, 0, ["A=true", "B=true"]), "kubedra.toml wins"


def test_a_flag_of_the_command_line_replaces_the_other_one_of_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEDRA_KUBECONFIG", "k")
    assert parse().kubeconfig == "k"
    found = parse("--server", "http://x")
    assert (found.server, found.kubeconfig) == ("http://x", None)


def test_commands_that_run_nothing_take_only_the_data_directory_and_the_kubeconfig(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "kubedra.toml").write_text('nodes = 3\ndata-dir = "d"\n')
    monkeypatch.setenv("KUBEDRA_KUBECONFIG", "k")
    found = parser(all_settings=False, prog="kubedra status").parse_args([])
    assert (found.nodes, found.data_dir, found.kubeconfig) == (2, Path("d"), "k")
    assert data_dir() == Path("d")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert default_files() == (Path("d/kubeconfig"),)


def test_controllers_take_their_flags_from_a_file_that_has_others(directory: Path) -> None:
    (directory / "kubedra.toml").write_text("nodes = 3\nport = 8002\n")
    assert parser(prog="kubedra controllers").parse_args([]).nodes == 3


def test_a_module_that_a_fixture_starts_takes_nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEDRA_NODES", "4")
    assert parser(prog="python -m apiserver").parse_args([]).nodes == 2


def test_flags_may_follow_positional_arguments_in_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEDRA_NODES", "4")
    made = parser()
    made.add_argument("kind")
    made.add_argument("name", nargs="?")
    found = made.parse_intermixed_args(["pod", "--nodes", "7", "web"])
    assert (found.kind, found.name, found.nodes) == ("pod", "web", 7)
    assert made.parse_intermixed_args(["pod", "--tls", "web"]).nodes == 4


@pytest.mark.parametrize(
    ("file", "variables", "message"),
    [
        ("nodes = 'x'", {}, "kubedra up: argument --nodes: invalid int value: 'x' (set by kubedra.toml)\n"),
        ("", {"NODES": "x"}, "kubedra up: argument --nodes: invalid int value: 'x' (set by KUBEDRA_NODES)\n"),
        ("node = 3", {}, "kubedra up: kubedra.toml: 'node' is not a flag of kubedra up; did you mean nodes?\n"),
        ("nodes = ", {}, "kubedra up: kubedra.toml: Invalid value (at end of document)\n"),
        ("", {"TLS": "maybe"}, "kubedra up: KUBEDRA_TLS: --tls is 'maybe'; use true or false\n"),
        ("nodes = [1]", {}, "kubedra up: kubedra.toml: --nodes has one value, not a list\n"),
        ("verbose = 'x'", {}, "kubedra up: kubedra.toml: --verbose is 'x'; use a number\n"),
    ],
)
def test_an_error_names_its_source(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    variables: dict[str, str],
    message: str,
) -> None:
    (directory / "kubedra.toml").write_text(file)
    for name, value in variables.items():
        monkeypatch.setenv(f"KUBEDRA_{name}", value)
    with pytest.raises(SystemExit) as ended:
        parse()
    assert (ended.value.code, capsys.readouterr().err) == (2, message)


def test_a_later_error_names_the_source_of_its_flag_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEDRA_NODES", "-1")
    parse()
    assert source_of("--nodes -1: cannot be negative") == "--nodes -1: cannot be negative (set by KUBEDRA_NODES)"
    assert source_of("--tls: no") == "--tls: no"
    parse("--nodes", "1")
    assert source_of("--nodes -1: cannot be negative") == "--nodes -1: cannot be negative"


def test_the_most_similar_flag_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--feature-gate=A=true")
    assert capsys.readouterr().err.endswith("--feature-gate=A=true; did you mean --feature-gates?\n")
    assert suggest("SCHEDULR", ["scheduler", "node-agent"]) == "; did you mean scheduler?"
    assert suggest("x", ["scheduler"]) == ""


def test_help_lists_the_common_flags_and_help_all_lists_every_one(capsys: pytest.CaptureFixture[str]) -> None:
    made = Parser(prog="kubedra up", common=("--nodes",))
    made.add_argument("--nodes", help="nodes")
    made.add_argument("--rare", help="rare")
    for flag, listed in (("--help", False), ("--help-all", True)):
        with pytest.raises(SystemExit):
            made.parse_args([flag])
        printed = capsys.readouterr().out
        assert "--nodes" in printed
        assert "--help-all" in printed
        assert ("--rare" in printed) is listed
