"""Flags about /metrics: disabled metrics, and allowed values of labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver.http.sinks.metric_filters import MetricFilter
from apiserver.options.flags import SettingsError
from apiserver.options.settings import read
from apiserver.runtime.metrics import Counter, Gauge, Histogram, text

pytestmark = pytest.mark.integration


def shown(*flags: str) -> str:
    """Render three metrics with a label under these flags."""
    counter, histogram = Counter("requests", "", ("code", "verb")), Histogram("seconds", "", ("verb",), (1.0,))
    gauge = Gauge("open", "", ("kind",), lambda: {("a",): 1, ("b",): 2})
    for code, verb in (("200", "GET"), ("404", "GET"), ("500", "GET"), ("500", "PUT")):
        counter.inc(code, verb)
    for seconds, verb in ((0.5, "GET"), (1.5, "GET"), (0.25, "PUT"), (2.0, "POST")):
        histogram.observe(seconds, verb)
    lines = text(MetricFilter(read(flags).metrics)([counter, histogram, gauge])).splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


def test_values_that_are_not_allowed_count_together() -> None:
    found = shown('--allow-metric-labels="requests,code=200,404","seconds,verb=GET","open,kind=a"')
    assert 'requests{code="200",verb="GET"} 1' in found
    assert 'requests{code="unexpected",verb="GET"} 1' in found
    assert 'requests{code="unexpected",verb="PUT"} 1' in found
    assert 'seconds_bucket{verb="unexpected",le="1"} 1' in found
    assert 'seconds_bucket{verb="unexpected",le="+Inf"} 2' in found
    assert 'seconds_sum{verb="unexpected"} 2.25' in found
    assert 'seconds_sum{verb="GET"} 2' in found
    assert 'open{kind="a"} 1' in found
    assert 'open{kind="unexpected"} 2' in found
    assert "cardinality_enforcement_unexpected_categorizations_total 5" in found


def test_one_label_needs_no_quotes_and_a_file_means_the_same(tmp_path: Path) -> None:
    file = tmp_path / "labels.yaml"
    file.write_text('"requests,code": "200,404"\n"requests,verb": "GET"\n')
    by_flags = shown("--allow-metric-labels=requests,code=200,404", "--allow-metric-labels=requests,verb=GET")
    assert by_flags == shown(f"--allow-metric-labels-manifest={file}")
    assert 'requests{code="unexpected",verb="unexpected"} 1' in by_flags


def test_disabled_metrics_are_left_out_and_counted() -> None:
    found = shown("--disabled-metrics=requests,open", "--disabled-metrics=nothing")
    assert not [line for line in found.splitlines() if line.startswith(("requests", "open"))]
    assert "seconds_count" in found
    assert "disabled_metrics_total 3" in found


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--show-hidden-metrics-for-version=1.34", "must be omitted or have the value '1.35'"),
        ("--disabled-metrics=a-b", "a-b: not the name of a metric"),
        ("--allow-metric-labels=a,b", "a must be formatted as key=value"),
        ("--allow-metric-labels=a=b", "'a' is not the name of a metric and of a label"),
        ("--allow-metric-labels-manifest=/nowhere", "No such file"),
    ],
)
def test_a_wrong_flag_is_named(flag: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        read([flag])
    assert str(caught.value).startswith(flag.split("=")[0])
