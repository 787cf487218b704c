"""What a container's probes found so far. Pure: when a probe is made follows from its spec, what it finds from
annotations of the pod (`annotations`), so that a kubelet that comes back knows as much as one that was there.

Facts: upstream's pkg/kubelet/prober. A startup probe goes first; the others begin once it has succeeded. Readiness
begins as failed, liveness as succeeded; either changes after so many equal findings in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from controllers.kubelet.emulation.annotations import failing
from controllers.runtime.kinds import Json

#: What an annotation breaks where the container has no such probe.
_PLAIN: Json = {"periodSeconds": 1, "failureThreshold": 1}
_ZERO = timedelta()
#: Seconds after a container's start, from and to; the last may have no end.
Window = tuple[timedelta, timedelta | None]


@dataclass(frozen=True, slots=True)
class Findings:
    """`killed`: when (after its start) and by which probe the container was given up; `again`: when the next probe may
    change something; `failed`: the probes that fail now.
    """

    started: bool = True
    ready: bool = True
    killed: tuple[timedelta, str] | None = None
    again: timedelta | None = None
    failed: Sequence[str] = ()


@dataclass(slots=True)
class _Series:
    """One probe up to a moment."""

    state: bool
    changed: timedelta | None = None
    """When it became what it is."""
    last: bool | None = None
    again: timedelta | None = None


def findings(pod: Json, container: Json, ran: timedelta) -> Findings:
    """Of a container that has run for so long."""
    startup = _series(pod, container, "startup", _ZERO, ran, begins=False)
    began, again, failed = _ZERO, [], []
    if startup is not None:
        again.append(startup.again)
        if startup.last is False:
            failed.append("Startup")
        if not startup.state:
            killed = (startup.changed, "startup") if startup.changed is not None else None
            return Findings(False, False, killed, startup.again, failed)
        began = startup.changed or _ZERO
    liveness = _series(pod, container, "liveness", began, ran, begins=True)
    readiness = _series(pod, container, "readiness", began, ran, begins=False)
    killed = None
    for series, name in ((liveness, "Liveness"), (readiness, "Readiness")):
        if series is not None:
            again.append(series.again)
            if series.last is False:
                failed.append(name)
    if liveness is not None and not liveness.state and liveness.changed is not None:
        killed = (liveness.changed, "liveness")
    due = [moment for moment in again if moment is not None]
    return Findings(True, readiness is None or readiness.state, killed, min(due, default=None), failed)


def _series(pod: Json, container: Json, kind: str, began: timedelta, ran: timedelta, *, begins: bool) -> _Series | None:
    """None where there is no such probe. Once startup or liveness has failed nothing follows: it kills."""
    windows = failing(pod, container["name"], kind)
    spec = container.get(f"{kind}Probe") or (_PLAIN if windows else None)
    if spec is None:
        return None
    period = timedelta(seconds=spec.get("periodSeconds", 10))
    needed = {True: spec.get("successThreshold", 1), False: spec.get("failureThreshold", 3)}
    moment = max(timedelta(seconds=spec.get("initialDelaySeconds", 0)), began)
    # After the last change of what is found, and as many findings as count, nothing changes any more.
    finally_found = all(to is not None for _, to in windows)
    edges = [moment, *(at if to is None else to for at, to in windows)]
    settled = max(edges) + period * (needed[finally_found] - (0 if windows else 1))
    series, row = _Series(begins), 0
    while moment <= min(ran, settled):
        found = not any(at <= moment and (to is None or moment < to) for at, to in windows)
        row, series.last = (row + 1 if found is series.last else 1), found
        decided = series.changed is not None or begins
        if row >= needed[found] and (found is not series.state or not decided):
            series.state, series.changed = found, moment
            if kind != "readiness" and not found:
                return series
        if kind == "startup" and series.state:
            return series
        moment += period
    series.again = moment if moment <= settled else None
    return series
