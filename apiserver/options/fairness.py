"""kube-apiserver's flags on how many requests are answered at once, and what they say."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

__all__ = ["TrafficSettings", "add_flags", "read_traffic"]


@dataclass(frozen=True, slots=True)
class TrafficSettings:
    """`seats`: how many requests priority and fairness lets in at once, those aside that are exempt; 0 where it does
    not count.
    """

    seats: int = 600


def add_flags(group: argparse._ArgumentGroup) -> None:
    for kind, most in (("", 400), ("-mutating", 200)):
        group.add_argument(
            f"--max{kind}-requests-inflight", type=int, default=most, metavar="N",
            help=f"the sum of both --max-…-inflight is the concurrency limit of priority and fairness (default {most})",
        )  # fmt: skip
    group.add_argument(
        "--enable-priority-and-fairness", choices=("true", "false"), nargs="?", const="true", default="true",
        help="queue and reject requests by FlowSchemas and PriorityLevelConfigurations (default true)",
    )  # fmt: skip


def read_traffic(given: argparse.Namespace) -> TrafficSettings:
    """What the flags say. Raises ValueError, in one line that names the flag."""
    most = {
        "--max-requests-inflight": given.max_requests_inflight,
        "--max-mutating-requests-inflight": given.max_mutating_requests_inflight,
    }
    for flag, number in most.items():
        if number < 0:
            raise ValueError(f"{flag} can not be negative value")
    if given.enable_priority_and_fairness == "false":
        return TrafficSettings(0)
    if not sum(most.values()):
        raise ValueError(f"{' and '.join(most)} are both 0: priority and fairness has nothing to share out")
    return TrafficSettings(sum(most.values()))
