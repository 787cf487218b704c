"""The runner of recorded vectors: what it counts, prints and ends with."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conformance import vector_quantity, vectors


def write(directory: Path, name: str, *cases: dict[str, object]) -> None:
    (directory / f"{name}.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a handler that does what the case says."""

    def handle(case: vectors.Case) -> vectors.Skipped | str | None:
        if case["do"] == "raise":
            vectors.expect("sum", 1, case["want"])
        if case["do"] == "crash":
            raise KeyError("lost")
        return vectors.Skipped("not ours") if case["do"] == "skip" else case.get("text")

    module = ModuleType("vector_sample")
    module.__dict__["handle"] = handle
    monkeypatch.setitem(sys.modules, "vector_sample", module)
    monkeypatch.setattr(
        vectors, "HANDLERS", {"sample": "vector_sample", "later": "tests.conformance.vector_that_is_not_there"}
    )


@pytest.mark.usefixtures("handled")
def test_every_outcome_is_counted_and_differences_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        tmp_path,
        "sample",
        {"name": "same", "do": "return"},
        {"name": "told", "do": "return", "text": "left is not right"},
        {"name": "raised", "do": "raise", "want": 2},
        {"name": "crashed", "do": "crash"},
        {"name": "passed over", "do": "skip"},
    )
    assert vectors.main(["--dir", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["sample: told: left is not right", "sample: raised: sum: got 1, want 2"]
    assert lines[2].startswith("sample: crashed: crashed: KeyError: 'lost'")
    assert lines[-1] == "1 passed, 3 failed, 1 skipped"


@pytest.mark.usefixtures("handled")
def test_a_file_whose_handler_is_missing_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "later", {"name": "a"}, {"name": "b"})
    assert vectors.main(["--dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 0 failed, 2 skipped"


@pytest.mark.usefixtures("handled")
def test_one_file_or_one_case_may_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "sample", {"name": "same", "do": "return"}, {"name": "other", "do": "crash"})
    assert vectors.main(["--dir", str(tmp_path), "--only", "sample", "--name", "same"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"
    assert vectors.main(["--dir", str(tmp_path), "--only", "nope"]) == 2
    assert "no handler for vector file 'nope'" in capsys.readouterr().err
    assert vectors.main(["--dir", str(tmp_path), "--only", "later"]) == 2
    assert "later.jsonl does not exist" in capsys.readouterr().err


def test_true_is_not_one() -> None:
    with pytest.raises(vectors.Difference):
        vectors.expect("flag", True, 1)


def test_an_amount_that_json_has_no_number_for_is_recorded_as_text() -> None:
    text = dict.fromkeys(("string", "json", "computedCanonical"), "10e399")
    amounts = {"asInt64": None, "valueRoundedUp": None, "milliValueRoundedUp": None, "decimal": "1" + "0" * 400}
    case = {"op": "parse", "input": "1e400", "error": None, "isZero": False, "sign": 1, **text, **amounts}
    case["format"] = "DecimalExponent"
    assert vector_quantity.handle({**case, "approximateFloat": "+Inf"}) is None
    with pytest.raises(vectors.Difference, match="approximateFloat: got inf"):
        vector_quantity.handle({**case, "approximateFloat": "1e300"})
