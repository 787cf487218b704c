"""kube-apiserver's flags for the number of concurrent requests."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

__all__ = ["TrafficSettings", "add_flags", "read_traffic"]


@dataclass(frozen=True, slots=True)
class TrafficSettings:
    """Concurrency limits.

    `seats` is the number of concurrent requests of priority and fairness, without exempt ones; 0 disables the limit.
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


def read_traffic(args: argparse.Namespace) -> TrafficSettings:
    """Parse the concurrency flags. Raise ValueError naming the bad flag, in one line."""
    most = {
        "--max-requests-inflight": args.max_requests_inflight,
        "--max-mutating-requests-inflight": args.max_mutating_requests_inflight,
    }
    for flag, number in most.items():
        if number < 0:
            raise ValueError(f"{flag} can not be negative value")
    if args.enable_priority_and_fairness == "false":
        return TrafficSettings(0)
    if not sum(most.values()):
        raise ValueError(f"{' and '.join(most)} are both 0: set at least one of them to share out seats")
    return TrafficSettings(sum(most.values()))
