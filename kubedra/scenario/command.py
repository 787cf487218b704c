"""`kubedra scenario run|check|schema`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubedra.command.arguments import Parser
from kubedra.runtime.failures import describe_failure
from kubedra.scenario.document import ScenarioError, parse_value

if TYPE_CHECKING:
    from kubedra.scenario.cases import Case
    from kubedra.scenario.runner import Result, Servers

__all__ = ["scenario"]


def scenario(args: Sequence[str]) -> int:
    """Run `kubedra scenario`. Return 0 if all scenarios passed, 1 if one failed, 2 for unusable files or flags."""
    options = _parser().parse_args(args)
    try:
        if options.command == "schema":
            return _schema(options)
        cases = _load(options)
        if options.command == "check":
            print(f"{len(cases)} scenario{'' if len(cases) == 1 else 's'} valid")
            return 0
        return _run(options, cases)
    except (ScenarioError, OSError) as error:
        for line in str(error).splitlines() if isinstance(error, ScenarioError) else [_describe(error)]:
            print(f"kubedra: {line}", file=sys.stderr)
        return 2


def _describe(error: OSError) -> str:
    return f"{error.filename}: {describe_failure(error)}" if error.filename else describe_failure(error)


def _parser() -> Parser:
    parser = Parser(prog="kubedra scenario", description="Run scenario files: faults, time, workloads, expectations.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="run|check|schema")
    run = commands.add_parser("run", help="run scenarios; exit code 0 if all passed, 1 if one failed")
    check = commands.add_parser("check", help="check scenario files without running them")
    schema = commands.add_parser("schema", help="print the JSON schema of scenario files, for editors")
    for each in (run, check):
        each.add_argument(
            "files", nargs="+", type=Path, metavar="FILE", help="scenario file, or a directory of *.yaml files"
        )
        each.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="value of a variable; repeatable"
        )
    schema.add_argument("-o", "--output", type=Path, metavar="FILE", help="output file (default: standard output)")
    _add_run_flags(run)
    return parser


def _add_run_flags(run: argparse.ArgumentParser) -> None:
    server = run.add_mutually_exclusive_group()
    server.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="run on the server of this kubeconfig instead of starting control planes; objects stay",
    )
    server.add_argument("--server", metavar="URL", help="the same for the address of an open server")
    run.add_argument(
        "--reset", action="store_true", help="with --kubeconfig or --server: delete all objects before each scenario"
    )
    run.add_argument("--junit", type=Path, metavar="FILE", help="write the results as JUnit XML")
    run.add_argument("-o", "--output", choices=("text", "json"), default="text", help="output format (default text)")
    run.add_argument("-x", "--exitfirst", action="store_true", help="stop after the first failing scenario")
    run.add_argument("--keep", action="store_true", help="leave the control plane of the first failure running")
    run.add_argument("-q", "--quiet", action="store_true", help="print only failures and the summary")
    run.add_argument("-v", "--verbose", action="store_true", help="print all objects and events of a failing scenario")


def _schema(options: argparse.Namespace) -> int:
    from kubedra.scenario.language import SCHEMA

    text = json.dumps(SCHEMA, indent=2, ensure_ascii=False) + "\n"
    if options.output is None:
        print(text, end="")
    else:
        options.output.write_text(text)
    return 0


def _load(options: argparse.Namespace) -> list[Case]:
    from kubedra.scenario.cases import load_cases

    settings: dict[str, Any] = {}
    for pair in options.set:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ScenarioError(f"--set {pair}: expected NAME=VALUE")
        settings[name] = parse_value(value)
    return load_cases(options.files, settings)


def _run(options: argparse.Namespace, cases: Sequence[Case]) -> int:
    from kubedra.scenario.output import TextReport, to_json, write_junit
    from kubedra.scenario.runner import OwnServers, RunningServer, run_case

    on_running = options.kubeconfig is not None or options.server is not None
    if options.reset and not on_running:
        raise ScenarioError("--reset needs --kubeconfig or --server")
    if options.junit is not None:
        # An unusable path fails before the scenarios run.
        options.junit.parent.mkdir(parents=True, exist_ok=True)
        options.junit.touch()
    servers: Servers = (
        RunningServer(url=options.server or "", kubeconfig=options.kubeconfig, reset=options.reset)
        if on_running
        else OwnServers(keeping=options.keep)
    )
    as_json = options.output == "json"
    report = TextReport(quiet=options.quiet or as_json, verbose=options.verbose)
    results: list[Result] = []
    try:
        for case in cases:
            report.begin(case)
            results.append(run_case(case, servers, report.step))
            if not as_json:
                report.end(results[-1])
            if options.exitfirst and not results[-1].passed:
                break
    except KeyboardInterrupt:
        print("kubedra: interrupted", file=sys.stderr)
        return 130
    finally:
        servers.close()
        if options.junit is not None:
            write_junit(options.junit, results)
    if as_json:
        print(json.dumps(to_json(results), indent=2))
    else:
        report.summary(results)
    return 0 if all(result.passed for result in results) else 1
