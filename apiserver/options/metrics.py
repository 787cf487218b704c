"""kube-apiserver's flags for the metrics to show.

Facts: k8s.io/component-base, metrics/options.go and metrics/api/v1/config.go.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from apiserver.http.sinks.metric_filters import MetricSettings
from kubedra.runtime.failures import describe_failure

__all__ = ["add_flags", "read_metrics"]

_LABEL: Final = "[a-zA-Z_][a-zA-Z0-9_]*"
_METRIC: Final = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_KEY: Final = re.compile(f"{_METRIC},{_LABEL}")


def add_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--disabled-metrics", action="append", default=[], metavar="NAMES", help="metrics to omit from /metrics"
    )
    group.add_argument(
        "--allow-metric-labels", action="append", default=[], metavar="METRIC,LABEL=VALUES",
        help='allowed values of a metric label; other values are counted as "unexpected"',
    )  # fmt: skip
    group.add_argument(
        "--allow-metric-labels-manifest", type=Path, metavar="FILE",
        help='YAML file of allowed label values, with lines such as "METRIC,LABEL": "VALUE,VALUE"',
    )  # fmt: skip
    group.add_argument(
        "--show-hidden-metrics-for-version", default="", metavar="X.Y",
        help="accepted for compatibility: the previous release; no metrics are hidden",
    )  # fmt: skip


def read_metrics(args: argparse.Namespace) -> MetricSettings:
    """Parse the metrics flags. Raise ValueError naming the bad flag, in one line."""
    version = args.show_hidden_metrics_for_version
    if version not in ("", "1.35"):  # of the binary, not of the emulated release
        raise ValueError(
            f"--show-hidden-metrics-for-version {version}: must be omitted or have the value '1.35'; only the previous"
            " minor version is allowed"
        )
    disabled = frozenset(name for text in args.disabled_metrics for name in text.split(",") if name)
    for name in disabled:
        if not re.fullmatch(_METRIC, name):
            raise ValueError(f"--disabled-metrics {name}: not the name of a metric")
    mapping = _of_flags(args.allow_metric_labels)
    if args.allow_metric_labels_manifest is not None:
        if mapping:
            raise ValueError("--allow-metric-labels and --allow-metric-labels-manifest: set only one of them")
        mapping = _of_file(args.allow_metric_labels_manifest)
    allowed: dict[str, dict[str, frozenset[str]]] = {}
    for key, values in mapping.items():
        metric, _, label = key.partition(",")
        allowed.setdefault(metric, {})[label] = frozenset(values.split(","))
    return MetricSettings(disabled, allowed)


def _validate_labels(flag: str, mapping: Mapping[str, str]) -> Mapping[str, str]:
    for key in mapping:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{flag}: {key!r} is not the name of a metric and of a label, METRIC,LABEL")
    return mapping


def _of_flags(args: list[str]) -> Mapping[str, str]:
    """Parse pairs of a key and its comma-separated values. Several pairs in one flag are quoted each."""
    flag, found = "--allow-metric-labels", {}
    for text in args:
        one = text.count("=") == 1
        parts = [text.strip().strip('"')] if one else next(csv.reader([text]), [])
        for part in parts:
            key, equals, values = part.partition("=")
            if not equals:
                raise ValueError(f"{flag} {text}: {part} must be formatted as key=value")
            found[key] = values
    return _validate_labels(flag, found)


def _of_file(path: Path) -> Mapping[str, str]:
    import yaml

    flag = f"--allow-metric-labels-manifest {path}"
    try:
        found = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"{flag}: {describe_failure(error)}") from None
    if not isinstance(found, dict) or not all(isinstance(part, str) for pair in found.items() for part in pair):
        raise ValueError(f"{flag}: not a map of strings")
    return _validate_labels(flag, found)
