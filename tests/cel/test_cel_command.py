"""The output of `kubedra cel` for people and scripts."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.command import cel as cel_command
from tests.support.server import Running, serve

ATTRIBUTES = 'device.attributes["gpu.example.com"]'


def resource_slice(name: str, *devices: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "driver": "gpu.example.com",
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": list(devices),
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def device(name: str, **attributes: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


SLICES = [
    resource_slice(
        "node-a",
        device("gpu-0", model={"string": "A100"}, index={"int": 0}),
        device("gpu-1", model={"string": "H100"}, index={"int": 1}),
    ),
    resource_slice("node-b", device("gpu-0", model={"string": "A100"})),
]


@pytest.fixture
def slices(tmp_path: Path) -> str:
    path = tmp_path / "slices.yaml"
    path.write_text(yaml.safe_dump_all(SLICES))
    return str(path)


def test_the_table_has_a_row_for_every_device(slices: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cel_command.main([f'{ATTRIBUTES}.model == "A100" && {ATTRIBUTES}.index == 0', "--slices", slices]) == 0
    header, *rows, summary, limits = capsys.readouterr().out.splitlines()
    assert header.split() == ["DRIVER", "POOL", "DEVICE", "RESULT", "COST"]
    at = header.index("RESULT"), header.index("COST")
    assert [(*row[: at[0]].split()[1:], row[at[0] : at[1]].strip()) for row in rows] == [
        ("node-a", "gpu-0", "true"), ("node-a", "gpu-1", "false"), ("node-b", "gpu-0", "no such key: index"),
    ]  # fmt: skip
    assert all(0 < int(row[at[1] :]) < 100 for row in rows)
    assert summary == "1 of 3 devices match, 1 give an error"
    assert limits.startswith("type bool, cost at most ")
    assert limits.endswith(" of 1000000")


def test_json_is_for_scripts(slices: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cel_command.main([f"{ATTRIBUTES}.index == 0", "--slices", slices, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["outputType"], answer["absent"]) == ("bool", [])
    assert [
        (found["pool"], found["device"], found.get("match"), found.get("error")) for found in answer["devices"]
    ] == [
        ("node-a", "gpu-0", True, None),
        ("node-a", "gpu-1", False, None),
        ("node-b", "gpu-0", None, "no such key: index"),
    ]
    assert all(0 < found["cost"] <= answer["maxCost"] for found in answer["devices"])


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        (f'{ATTRIBUTES}.modle == "A100"', "no device has attributes gpu.example.com/modle; the nearest is model"),
        (
            'device.attributes["gpu.exampel.com"].model == "A100"',
            "no device has attributes of domain gpu.exampel.com; the nearest is gpu.example.com",
        ),
        (
            'device.capacity["gpu.example.com"].Memory == quantity("1")',
            "no device has capacity gpu.example.com/Memory; the nearest is memory",
        ),
        (f"has({ATTRIBUTES}.qqqq)", "no device has attributes gpu.example.com/qqqq"),
    ],
)
def test_names_that_no_device_has_are_shown_with_the_nearest(
    expression: str, line: str, slices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cel_command.main([expression, "--slices", slices]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == line


def test_a_list_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"apiVersion": "v1", "kind": "List", "items": SLICES})))
    assert cel_command.main(["true", "--slices", "-"]) == 0
    assert "3 of 3 devices match" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("device.drvier == 'x'", "ERROR: <input>:1:7: undefined field 'drvier'\n | device.drvier == 'x'\n | ......^"),
        ("'" + "x" * 10240 + "' == device.driver", "the API refuses it: may not be more than 10240 bytes"),
        (
            f"device.attributes.all(a, b, {ATTRIBUTES}.all(c, d, {ATTRIBUTES}.all(e, f, {ATTRIBUTES}.all(g, h, true))))",
            "the API refuses it: too complex",
        ),
    ],
)
def test_what_the_api_would_refuse_ends_with_1(
    expression: str, shown: str, slices: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cel_command.main([expression, "--slices", slices]) == 1
    assert shown in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--slices", "/nowhere.yaml"], "/nowhere.yaml"),
        (["--kubeconfig", "/nowhere"], "/nowhere does not exist; give --slices FILE or --kubeconfig FILE"),
        (["--emulated-version", "new"], '--emulated-version: could not parse "new" as version; use one of 1.33'),
        (["--emulated-version", "1.32"], "emulation version 1.32 is not between [1.33, 1.36.0]"),
        (["--output", "xml"], "invalid choice: 'xml'"),
        (
            ["--feature-gates", "DRAListTypeAttributes"],
            "--feature-gates DRAListTypeAttributes: expected NAME=true or NAME=false",
        ),
    ],
)
def test_wrong_arguments_are_one_line_and_end_with_2(
    arguments: list[str], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cel_command.main(["true", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert shown in line


def test_release_and_gates_decide_what_compiles(slices: str) -> None:
    assert cel_command.main(["[1].sort() == [1]", "--slices", slices, "--emulated-version", "1.33"]) == 1
    assert cel_command.main([f"{ATTRIBUTES}.model.includes('A100')", "--slices", slices]) == 1
    assert (
        cel_command.main(
            [
                f"{ATTRIBUTES}.model.includes('A100')",
                "--slices",
                slices,
                "--feature-gates",
                "DRAListTypeAttributes=true",
            ]
        )
        == 0
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serve() as running:
        for found in SLICES:
            answer = running.wire().post("/apis/resource.k8s.io/v1/resourceslices", found)
            assert answer.status == 201, answer
        yield running


def test_slices_of_a_cluster_come_page_by_page(
    server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": server.url}}], "users": [{"name": "me", "user": {}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig))
    monkeypatch.setattr(cel_command, "_PAGE", 1)
    assert cel_command.main([f'{ATTRIBUTES}.model == "A100"', "--kubeconfig", str(tmp_path / "config")]) == 0
    assert "2 of 3 devices match" in capsys.readouterr().out
