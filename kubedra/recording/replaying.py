"""`kubedra replay`: play the users' writes of a recording or an audit log, and compare what became of the pods."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from kubedra.archive.archive import ArchiveError
from kubedra.client.client import ApiError
from kubedra.client.clock import Clock
from kubedra.cluster_copy.adapt import adapt_definition, adapt_node, drop_missing_owners
from kubedra.cluster_copy.target import send
from kubedra.command.arguments import Parser
from kubedra.plane.control_plane import ControlPlane, StartError
from kubedra.recording.actions import Action, Actions, annotate_end, find_ends, from_changes
from kubedra.recording.auditlog import AuditLog, AuditLogError, is_audit_log, read_audit_log
from kubedra.recording.changes import format_time, read_recording
from kubedra.recording.comparing import Comparison, compare, render_table, to_json
from kubedra.recording.outcomes import Outcomes, follow_changes
from kubedra.recording.player import Player
from kubedra.runtime.objects import Json

__all__ = ["Result", "Script", "read_script", "replay", "run"]

_EPILOG: Final = """\
FILE is a recording of `kubedra record`, or an audit log of level Request (audit.k8s.io/v1) of any cluster.
Writes of users are replayed. Bindings, statuses and generated objects are left to kubedra's own control plane.

  kubedra replay day.kubedra
  kubedra replay day.kubedra --only pods,resourceclaims -o json
  kubedra replay audit.log --feature-gates DRAPrioritizedList=false
"""
#: What a replay reads from its own server.
_POLICY: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  verbs: [get, list, watch]
- level: RequestResponse
  verbs: [create]
  resources: [{group: "", resources: [pods]}]
- level: Request
  verbs: [create, delete]
  resources: [{group: "", resources: [pods, pods/binding]}]
- level: None
"""
#: Time after the last change in which pods may still be bound.
_AFTER: Final = timedelta(seconds=30)


@dataclass(slots=True)
class Script:
    """A recording that is ready to be played."""

    begin: datetime
    end: datetime
    actions: Actions
    recorded: Outcomes
    state: list[Json] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Result:
    """The result of a replay."""

    comparisons: list[Comparison]
    played: int
    control_plane: int
    refused: dict[str, int]


def read_script(place: Path, speed: float = 1.0) -> Script:
    """Read a recording or an audit log. Containers end `speed` times as fast. Raise ArchiveError or AuditLogError."""
    if is_audit_log(place):
        log = read_audit_log(place)
        notes = [f"{log.without_body} writes have no body and are left out"] if log.without_body else []
        return Script(log.begin, log.end, log.actions(speed), log.outcomes(), notes=notes)
    recording = read_recording(place)
    ends = find_ends(recording.changes, speed)
    state = _prepare(recording.state)
    for obj in state:
        if obj["kind"] in {"Pod", "Job"}:
            annotate_end(obj, ends.get(obj["metadata"].get("uid", "")))
    notes = [] if recording.finished else ["the recording has no end: its writer was killed"]
    actions = from_changes(recording.changes, ends)
    outcomes = follow_changes(recording.changes, recording.begin)
    return Script(recording.begin, recording.end, actions, outcomes, state, notes)


def _prepare(state: Iterable[Json]) -> list[Json]:
    """Return the objects at the beginning as a copy of a cluster has them."""
    objects = [*state]
    for obj in objects:
        if obj["kind"] == "Node":
            adapt_node(obj)
        elif obj["kind"] == "CustomResourceDefinition":
            adapt_definition(obj)
    drop_missing_owners(objects)
    return objects


def replay(
    script: Script,
    *,
    speed: float = 0.0,
    without: Sequence[str] = (),
    only: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> Result:
    """Play a script into a new control plane and compare. `speed` 0 uses virtual time.

    Raises StartError, and ApiError if the server refuses the state.
    """
    with tempfile.TemporaryDirectory(prefix="kubedra-replay-") as directory:
        log, policy = Path(directory) / "audit.log", Path(directory) / "policy.yaml"
        policy.write_text(_POLICY)
        plane = ControlPlane(
            clock="real" if speed else f"virtual={format_time(script.begin)}",
            args=[
                f"--controllers={','.join(('*', *(f'-{name}' for name in without)))}", "--storage-class=none",
                f"--audit-policy-file={policy}", f"--audit-log-path={log}", *flags,
            ],
        )  # fmt: skip
        with plane, plane.client() as client:
            if speed:
                print(f"kubeconfig  {plane.kubeconfig}", file=sys.stderr, flush=True)
            if script.state:
                send(client, script.state)
            clock = Clock(lambda: client)
            started = clock.now()
            player = Player(client, script.begin, None if speed else clock, speed or 1.0)
            player.play(_select(script.actions.users, only), script.end + _AFTER)
        known = [key for key, outcome in script.recorded.items() if outcome.created == script.begin]
        replayed = _read_outcomes(log, known, started)
    found = compare(script.recorded, _stretch(replayed, speed or 1.0), tolerance=max(1.0, speed))
    return Result(found, player.played, script.actions.control_plane, dict(player.refused))


def _select(actions: Iterable[Action], only: Sequence[str]) -> list[Action]:
    """Return the actions on the named kinds, in order of time; all of them if none is named."""
    names = {name.strip().lower().rstrip("s") for item in only for name in item.split(",")}
    chosen = [each for each in actions if not names or each.kind.lower().rstrip("s") in names]
    return sorted(chosen, key=lambda each: each.time)


def _read_outcomes(log: Path, known: Iterable[tuple[str, str]], begin: datetime) -> Outcomes:
    try:
        return read_audit_log(log).outcomes(known, begin)
    except AuditLogError:  # no pod was created or bound
        return AuditLog().outcomes(known, begin)


def _stretch(outcomes: Outcomes, speed: float) -> Outcomes:
    """Return the outcomes with waits as long as in the recording's time."""
    return {
        key: replace(each, bound=None if each.bound is None else each.created + (each.bound - each.created) * speed)
        for key, each in outcomes.items()
    }


def run(args: Sequence[str]) -> int:
    """Run the command. Return 0, also if pods differ, and 2 for a usage error."""
    options = _parser().parse_args(args)
    logging.getLogger("kubedra.client").setLevel(logging.ERROR)
    try:
        if options.speed < 0:
            raise ValueError(f"--speed {options.speed:g}: must be positive")
        script = read_script(options.file, options.speed or 1.0)
        result = replay(
            script, speed=options.speed, without=_split(options.without), only=_split(options.only),
            flags=[*(f"--feature-gates={gates}" for gates in options.feature_gates)],
        )  # fmt: skip
    except (ApiError, ArchiveError, AuditLogError, StartError, ValueError, OSError) as error:
        print(f"kubedra replay: {error}", file=sys.stderr)
        return 2
    for note in script.notes:
        print(f"note: {note}", file=sys.stderr)
    for reason, count in sorted(result.refused.items()):
        print(f"refused ({count} times): {reason}", file=sys.stderr)
    if options.output == "json":
        print(json.dumps({
            "begin": format_time(script.begin), "end": format_time(script.end), "replayedWrites": result.played,
            "controlPlaneWrites": result.control_plane, "pods": to_json(result.comparisons),
        }, indent=2))  # fmt: skip
        return 0
    length = (script.end - script.begin).total_seconds()
    print(
        f"replayed {length:.0f} s: {result.played} writes of users; {result.control_plane} changes of the control plane"
        f" were left to kubedra's\n{render_table(result.comparisons)}"
    )
    return 0


def _split(values: Iterable[str]) -> list[str]:
    return [name for item in values for name in item.split(",") if name]


def _parser() -> Parser:
    parser = Parser(
        prog="kubedra replay",
        description="Replay the users' writes of a recording, and compare where and when pods ran.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="recording of `kubedra record`, or audit log")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--speed", type=float, default=0.0, metavar="N", help="replay in real time, N times as fast, such as 60"
    )
    pace.add_argument("--clock", choices=("virtual",), default="virtual", help="replay in virtual time (default)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="KINDS", help="replay only writes of these kinds, as pods,jobs"
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="NAMES",
        help="do not run these components, such as scheduler; with --speed, run your own with the printed kubeconfig",
    )  # fmt: skip
    parser.add_argument(
        "--feature-gates", action="append", default=[], metavar="NAME=true,…", help="feature gates of the replay"
    )
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="output format (default table)"
    )
    return parser
