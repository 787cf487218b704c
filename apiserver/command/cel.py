"""`kubedra cel EXPRESSION`: evaluate a device selector against every device.

    kubedra cel 'device.attributes["gpu.example.com"].model == "A100"' --slices slices.yaml
    kubectl get resourceslices -o json | kubedra cel '…' --slices -
    kubedra cel '…' --kubeconfig .kubedra/kubeconfig

Exit codes: 0, the expression compiles (whatever its results); 1, it does not compile, or the API would reject it;
2, wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from apiserver import cel
from apiserver.api.features.gates import FeatureError, parse_release
from apiserver.cel import CompileError, Device, EvaluationError, Program
from apiserver.cel.environments.missing_attributes import find_missing
from kubedra.command.arguments import Parser, program
from kubedra.kubeconfig.reader import KubeconfigError, default_files, read_kubeconfig
from kubedra.runtime.failures import IS_IT_RUNNING, describe_failure

if TYPE_CHECKING:
    import httpx

#: Page size for listing slices.
_PAGE = 500
_SLICES = "/apis/resource.k8s.io/{version}/resourceslices"
_VERSIONS = ("v1", "v1beta2", "v1beta1")
_NOT_FOUND = 404
_PATIENCE = 30.0


class _UsageError(Exception):
    """A mistake of the caller; the message is one line."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A device and its location."""

    driver: str
    pool: str
    name: str
    device: Device


@dataclass(frozen=True, slots=True)
class Outcome:
    """The selector's result for one device."""

    entry: Entry
    match: bool | None
    error: str
    cost: int


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = _parser()
    try:
        options = parser.parse_args(argv)
        release = _release(options.emulated_version)
        features = _gates(options.feature_gates)
        entries = list(_entries(_slices(options)))
        return _run(options.expression, release, features, entries, options.output)
    except _UsageError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2


class _Parser(Parser):
    """An argument parser with one-line errors."""

    def fail(self, message: str) -> NoReturn:
        raise _UsageError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program("python -m apiserver.command.cel"),
        description="Evaluate a device selector on every device of the given ResourceSlices.",
    )
    parser.add_argument("expression", help="CEL expression over `device`")
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--slices",
        action="append",
        metavar="FILE",
        help="YAML or JSON file of ResourceSlices, - for standard input; repeatable",
    )
    source.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="read the slices from this cluster (default: $KUBECONFIG, .kubedra/kubeconfig)",
    )
    parser.add_argument(
        "--emulated-version",
        default="1.36",
        metavar="1.NN",
        help="Kubernetes release whose CEL libraries are available (default 1.36)",
    )
    parser.add_argument(
        "--feature-gates", default="", metavar="A=true,B=false", help="feature gates, as for the API server"
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "table", "json"), default="text", help="output format (default text)"
    )
    return parser


def _release(text: str) -> tuple[int, int]:
    try:
        return parse_release(text)
    except FeatureError as error:
        raise _UsageError(f"--emulated-version: {error}") from None


def _gates(text: str) -> dict[str, bool]:
    gates: dict[str, bool] = {"DRAConsumableCapacity": True}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or value.lower() not in ("true", "false"):
            raise _UsageError(f"--feature-gates {part}: expected NAME=true or NAME=false")
        gates[name] = value.lower() == "true"
    return gates


def _slices(options: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
    if options.slices:
        for name in options.slices:
            yield from _from_file(name)
        return
    path = Path(options.kubeconfig) if options.kubeconfig else None
    first = path or default_files()[0]
    if not first.exists():
        raise _UsageError(f"{first} does not exist; give --slices FILE or --kubeconfig FILE")
    yield from _from_cluster(path)


def _from_file(name: str) -> Iterator[Mapping[str, Any]]:
    import yaml

    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        documents = [json.loads(text)] if text.lstrip().startswith("{") else list(yaml.safe_load_all(text))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _UsageError(f"{name}: {describe_failure(error)}") from None
    for document in documents:
        items = document.get("items", [document]) if isinstance(document, dict) else []
        yield from (
            item for item in items if isinstance(item, dict) and item.get("kind", "ResourceSlice") == "ResourceSlice"
        )


def _from_cluster(path: Path | None) -> Iterator[Mapping[str, Any]]:
    import httpx

    try:
        cluster = read_kubeconfig(path)
    except KubeconfigError as error:
        raise _UsageError(str(error)) from None
    try:
        trust = cluster.tls_context()
        with httpx.Client(
            base_url=cluster.server,
            headers=[*cluster.headers()],
            verify=True if trust is None else trust,
            timeout=_PATIENCE,
        ) as client:
            yield from _pages(client)
    except (httpx.HTTPError, ValueError, OSError) as error:
        hint = f"; {IS_IT_RUNNING}" if isinstance(error, httpx.ConnectError) else ""
        raise _UsageError(f"{cluster.server}: {' '.join(str(error).split())}{hint}") from None


def _pages(client: httpx.Client) -> Iterator[Mapping[str, Any]]:
    """Return all slices, in the newest version that the server has."""
    location = ""
    answer = None
    for version in _VERSIONS:
        location = _SLICES.format(version=version)
        answer = client.get(location, params={"limit": _PAGE})
        if answer.status_code != _NOT_FOUND:
            break
    assert answer is not None
    while True:
        answer.raise_for_status()
        page = answer.json()
        yield from page.get("items") or []
        following = (page.get("metadata") or {}).get("continue")
        if not following:
            return
        answer = client.get(location, params={"limit": _PAGE, "continue": following})


def _entries(slices: Iterable[Mapping[str, Any]]) -> Iterator[Entry]:
    for found in slices:
        spec = found.get("spec") or {}
        driver = spec.get("driver", "")
        pool = (spec.get("pool") or {}).get("name", "")
        for device in spec.get("devices") or []:
            # v1beta1 nests a device's description one level deeper.
            described = device.get("basic") or device
            yield Entry(driver, pool, device.get("name", ""), Device.from_slice(driver, described))


def _run(
    expression: str, release: tuple[int, int], features: Mapping[str, bool], entries: list[Entry], output: str
) -> int:
    if len(expression.encode()) > cel.MAX_EXPRESSION_LENGTH:
        print(f"the API refuses it: may not be more than {cel.MAX_EXPRESSION_LENGTH} bytes", file=sys.stderr)
        return 1
    program = cel.compile(expression, cel.device_environment(release, features, stored=False))
    if isinstance(program, CompileError):
        print(program.text, file=sys.stderr)
        return 1
    refused = program.max_cost > cel.COST_LIMIT
    outcomes = [_evaluate(program, entry) for entry in entries]
    absent = [(str(a), a.nearest) for a in find_missing(expression, ((e.driver, e.device) for e in entries))]
    if output == "table":
        print("\n".join(_table(outcomes)))
    else:
        print((_json if output == "json" else _text)(program, outcomes, absent))
    if refused:
        print(f"the API refuses it: {cel.TOO_EXPENSIVE}", file=sys.stderr)
    return int(refused)


def _evaluate(program: Program, entry: Entry) -> Outcome:
    try:
        match, cost = program.evaluate_with_cost(entry.device)
    except EvaluationError as error:
        return Outcome(entry, None, error.text, error.cost)
    return Outcome(entry, match, "", cost)


def _table(outcomes: list[Outcome]) -> list[str]:
    rows = [("DRIVER", "POOL", "DEVICE", "RESULT", "COST")]
    rows += [
        (
            outcome.entry.driver,
            outcome.entry.pool,
            outcome.entry.name,
            outcome.error or str(outcome.match).lower(),
            str(outcome.cost),
        )
        for outcome in outcomes
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _text(program: Program, outcomes: list[Outcome], absent: list[tuple[str, str]]) -> str:
    lines = _table(outcomes) if outcomes else []
    matching = sum(outcome.match is True for outcome in outcomes)
    failing = sum(outcome.match is None for outcome in outcomes)
    summary = f"{matching} of {len(outcomes)} devices match"
    lines.append(f"{summary}, {failing} give an error" if failing else summary)
    lines.append(f"type {program.output_type}, cost at most {program.max_cost} of {cel.COST_LIMIT}")
    for what, nearest in absent:
        lines.append(f"no device has {what}" + (f"; the nearest is {nearest}" if nearest else ""))
    return "\n".join(lines)


def _json(program: Program, outcomes: list[Outcome], absent: list[tuple[str, str]]) -> str:
    devices = [
        {
            "driver": outcome.entry.driver, "pool": outcome.entry.pool, "device": outcome.entry.name,
            **({"error": outcome.error} if outcome.match is None else {"match": outcome.match}), "cost": outcome.cost,
        }
        for outcome in outcomes
    ]  # fmt: skip
    document = {
        "outputType": program.output_type, "maxCost": program.max_cost, "devices": devices,
        "absent": [{"name": what, "nearest": nearest or None} for what, nearest in absent],
    }  # fmt: skip
    return json.dumps(document, indent=2, ensure_ascii=False)


if __name__ == "__main__":
    raise SystemExit(main())
