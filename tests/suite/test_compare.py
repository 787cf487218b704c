"""The comparison of two revisions (`python -m benchmarks.compare`)."""

from __future__ import annotations

import pytest

from benchmarks.compare import MEMORY, Measured, report_rows, spread

BASE: Measured = {"get": (1.0, 0.5), MEMORY: (80.0, 80.0)}


def test_a_ratio_is_the_median_of_the_rounds_with_its_spread() -> None:
    assert spread([(1.0, 1.1), (2.0, 1.8), (1.0, 3.0)]) == (1.1, "1.10 (0.90–3.00)")


@pytest.mark.parametrize(
    ("head", "gross"),
    [
        ({"get": (1.2, 0.6), MEMORY: (90.0, 90.0)}, []),
        ({"get": (2.0, 0.5), MEMORY: (80.0, 80.0)}, []),  # another process had the core
        ({"get": (1.4, 0.7), MEMORY: (80.0, 80.0)}, ["get"]),
        ({"get": (1.0, 0.5), MEMORY: (110.0, 110.0)}, [MEMORY]),
    ],
)
def test_only_gross_losses_in_both_times_are_named(
    head: Measured, gross: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert report_rows([(BASE, head)] * 3, markdown=True) == gross
    assert capsys.readouterr().out.startswith("| row, HEAD / BASE | wall time | processor time |\n")


def test_one_bad_round_does_not_make_a_loss() -> None:
    slow: Measured = {name: (wall * 5, processor * 5) for name, (wall, processor) in BASE.items()}
    assert report_rows([(BASE, BASE), (BASE, slow), (BASE, BASE)], markdown=False) == []
