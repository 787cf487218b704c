"""Recorded vectors: inputs and results of upstream's own code, a test for each file of them."""

from __future__ import annotations

import pytest

from tests.conformance import recordings, vectors

pytestmark = pytest.mark.integration

_FOLDER = recordings.folder()


@pytest.mark.skipif(_FOLDER is None, reason=recordings.MISSING)
@pytest.mark.parametrize("name", sorted(vectors.HANDLERS) if _FOLDER else [""])
def test_every_line_comes_out_as_recorded(name: str) -> None:
    assert _FOLDER is not None
    file = _FOLDER / "vectors" / f"{name}.jsonl"
    if not file.exists():
        pytest.skip(f"no {file.name} there")
    if vectors.handler_of(name) is None:
        pytest.skip(f"nothing runs {file.name} yet")
    outcomes = dict(vectors.outcomes(name, file))
    wrong = {label: outcome for label, outcome in outcomes.items() if isinstance(outcome, str)}
    assert not wrong, "\n".join(f"{label}: {outcome}" for label, outcome in wrong.items())
    assert any(outcome is None for outcome in outcomes.values())
