"""Scenario files are checked before anything runs: each problem is one line with file, line and what was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubedra import cli
from kubedra.scenario.cases import load_cases
from kubedra.scenario.document import ScenarioError
from kubedra.scenario.language import ACTIONS, SCHEMA
from tests.docs.test_flags_reference import REFERENCE

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "scenarios"


def problems(tmp_path: Path, text: str, **settings: Any) -> list[str]:
    """Return the problems of a scenario, without the name of its directory."""
    file = tmp_path / "s.yaml"
    file.write_text(text)
    try:
        load_cases([file], settings)
    except ScenarioError as error:
        return [line.removeprefix(f"{tmp_path}/") for line in str(error).splitlines()]
    return []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps:\n- aply: x.yaml\n", "s.yaml:2: steps[1] has no action but aply; did you mean apply?"),
        ("steps:\n- apply: x.yaml\n  forse: true\n", "s.yaml:3: apply: unknown key forse; did you mean force?"),
        ("stepz: []\nsteps:\n- apply: x\n", "s.yaml:1: unknown key stepz; did you mean steps?"),
        (
            "steps:\n- wait: pod/web\n  until: phase=Running\n  timeout: soon\n",
            "s.yaml:4: steps[1].timeout is 'soon'; expected a duration such as 500ms, 30s, 5m, 1h30m, or a number of seconds",
        ),
        ("steps:\n- wait: pod/web\n", "s.yaml:2: wait: until is missing"),
        ("steps:\n- wait: web\n  until: create\n", "s.yaml:2: steps[1].wait is 'web'; expected KIND/NAME or a list of them"),
        ("steps:\n- apply: a\n  delete: pod/b\n", "s.yaml:2: steps[1] has the actions apply and delete; write two steps"),
        ("steps:\n- apply\n", "s.yaml:2: steps[1] is 'apply'; expected a step, such as `apply: pods.yaml`"),
        ("steps: []\n", "s.yaml:1: steps is empty"),
        ("name: x\n", "s.yaml:1: the scenario steps is missing"),
        ("plane: {clock: virtul}\nsteps:\n- apply: x\n", "s.yaml:1: plane.clock is 'virtul'; expected real, virtual or virtual=TIME"),
        ("steps:\n- fault: f\n  watch: expird\n", "s.yaml:3: steps[1].watch is 'expird'; expected one of end, close, expired; did you mean expired?"),
        ("steps:\n- scale: deployment/web\n  to: two\n", "s.yaml:3: steps[1].to is 'two'; expected a number"),
        ("steps:\n- apply: ${FILE}\n", "s.yaml:2: unknown variable FILE; set it in vars, or write $${ for ${"),
        ("vars: {FILE: }\nsteps:\n- apply: ${FILE}\n", "s.yaml:3: variable FILE has no value; pass --set FILE=VALUE"),
        ("vars: {FILE: a}\nsteps:\n- apply: ${FILES}\n", "s.yaml:3: unknown variable FILES; did you mean FILE?"),
        ("steps:\n- apply: a\n- apply: [\n", "s.yaml:4: did not find expected node content"),
        ("steps:\n- apply: a\nsteps:\n- apply: b\n", "s.yaml:3: key steps is given twice"),
        ("[]\n", "s.yaml:1: not a scenario: expected a mapping with `steps`"),
        ("", "s.yaml:1: not a scenario: expected a mapping with `steps`"),
    ],
)  # fmt: skip
def test_a_problem_names_the_line_and_what_was_meant(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, text) == [expected]


def test_all_problems_of_all_files_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("steps:\n- aply: x\n- waits: y\n")
    (tmp_path / "b.yaml").write_text("steps:\n- apply: x\n")
    (tmp_path / "c.yaml").write_text("steps: 3\n")
    assert cli.main(["scenario", "check", str(tmp_path), str(tmp_path / "none.yaml")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.removeprefix(f"kubedra: {tmp_path}/").split(" ")[0] for line in lines] == [
        "a.yaml:2:", "a.yaml:3:", "c.yaml:1:", "none.yaml:",
    ]  # fmt: skip
    assert lines[-1].endswith("none.yaml: no such file or directory")


def test_variables_keep_their_types_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        'vars: {N: 2, NAME: web, ON: true}\nsteps:\n- scale: deployment/${NAME}\n  to: ${N}\n- run: "echo $${HOME} ${ON}"\n'
    )
    (case,) = load_cases([file], {"NAME": "db"})
    assert [step.fields for step in case.steps] == [
        {"scale": "deployment/db", "to": 2},
        {"run": "echo ${HOME} true"},
    ]
    assert [step.line for step in case.steps] == [3, 5]


def test_a_matrix_makes_a_case_per_combination_and_a_setting_selects_one(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("matrix: {RELEASE: [1, 2], B: [x, y]}\nsteps:\n- scale: deployment/${B}\n  to: ${RELEASE}\n")
    assert [str(case) for case in load_cases([file], {})] == [
        "s (RELEASE=1, B=x)",
        "s (RELEASE=1, B=y)",
        "s (RELEASE=2, B=x)",
        "s (RELEASE=2, B=y)",
    ]
    assert [str(case) for case in load_cases([file], {"RELEASE": 2})] == ["s (RELEASE=2, B=x)", "s (RELEASE=2, B=y)"]
    with pytest.raises(ScenarioError, match="--set RELEAS: no scenario has this variable; did you mean RELEASE"):
        load_cases([file], {"RELEAS": 2})


def test_the_examples_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(map(str, EXAMPLES.glob("*-*.yaml")))
    assert len(files) >= 4
    assert cli.main(["scenario", "check", *files]) == 0
    assert capsys.readouterr().out == f"{len(files)} scenarios valid\n"


BAD = [
    {"steps": [{"aply": "x"}]},
    {"steps": [{"apply": "x", "forse": True}]},
    {"steps": [{"wait": "web", "until": "create"}]},
    {"steps": [{"wait": "pod/web", "until": "phase"}]},
    {"steps": [{"apply": 3}]},
    {"steps": [{"apply": []}]},
    {"steps": []},
    {"steps": [{"scale": "a/b", "to": True}]},
    {"steps": [{"scale": "a/b", "to": -1}]},
    {"steps": [{"fault": "f", "status": 404}]},
    {"steps": [{"fault": "f", "probability": 2}]},
    {"steps": [{"fault": "f", "match": {"verbs": "get"}}]},
    {"steps": [{"apply": "x"}], "plane": {"gates": {"A": "yes"}}},
    {"steps": [{"apply": "x"}], "nodes": [{"devices": 3}]},
    {"steps": [{"apply": "x"}], "vars": {"A": [1]}},
    {"steps": [{"expect": "pods", "count": "many"}]},
    {"steps": [{"start": "driver"}]},
]


def test_the_check_agrees_with_a_complete_validator_of_json_schema(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft7Validator(SCHEMA)
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    for file in EXAMPLES.glob("*-*.yaml"):
        value = yaml.safe_load(file.read_text())
        assert not [*validator.iter_errors(value)], file
    for value in BAD:
        assert [*validator.iter_errors(value)], value
        assert problems(tmp_path, yaml.safe_dump(value)), value


def test_every_field_has_a_meaning_and_every_value_a_name() -> None:
    for action, schema in ACTIONS.items():
        assert schema["description"].endswith("."), action
        for key, value in schema["properties"].items():
            assert value.get("title") or value.get("enum"), (action, key)
            assert value.get("description"), (action, key)


def test_the_reference_and_the_schema_file_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("scenariopage", REFERENCE / "scenariopage.py")
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    current = "write it again with: python docs/reference/generate.py"
    assert page.PAGE.read_text() == page.page(), current
    assert cli.main(["scenario", "schema"]) == 0
    assert page.SCHEMA_FILE.read_text() == capsys.readouterr().out, current
