"""The results of a container's probes up to now.

Pure: the times of probes follow from the spec, their results from the pod's annotations (`annotations`), so that a
restarted kubelet has the same results. Facts: upstream's pkg/kubelet/prober. The startup probe runs first; the others
begin after its success. Readiness starts as failed, liveness as succeeded; both change after enough equal results in a
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from apiserver.api.objects import Json
from controllers.kubelet.emulation.annotations import probe_failures

#: Default probe for a container that has an annotation but no probe.
_PLAIN: Json = {"periodSeconds": 1, "failureThreshold": 1}
_ZERO = timedelta()
#: Start and end of a period after a container's start; None is an open end.
Window = tuple[timedelta, timedelta | None]


@dataclass(frozen=True, slots=True)
class Findings:
    """The combined results of a container's probes.

    `killed`: the time after the start, and the probe, that killed the container. `next_probe`: the time of the next
    probe that may change a result. `failed`: the probes that fail now.
    """

    started: bool = True
    ready: bool = True
    killed: tuple[timedelta, str] | None = None
    next_probe: timedelta | None = None
    failed: Sequence[str] = ()


@dataclass(slots=True)
class _Series:
    """The results of one probe up to a time."""

    state: bool
    changed: timedelta | None = None
    """Time of the last change of `state`."""
    last: bool | None = None
    next_probe: timedelta | None = None


def evaluate_probes(pod: Json, container: Json, ran: timedelta) -> Findings:
    """Return the probe results of a container after it has run for a duration."""
    startup = _evaluate_probe(pod, container, "startup", _ZERO, ran, begins=False)
    began, probe_times, failed = _ZERO, [], []
    if startup is not None:
        probe_times.append(startup.next_probe)
        if startup.last is False:
            failed.append("Startup")
        if not startup.state:
            killed = (startup.changed, "startup") if startup.changed is not None else None
            return Findings(False, False, killed, startup.next_probe, failed)
        began = startup.changed or _ZERO
    liveness = _evaluate_probe(pod, container, "liveness", began, ran, begins=True)
    readiness = _evaluate_probe(pod, container, "readiness", began, ran, begins=False)
    killed = None
    for series, name in ((liveness, "Liveness"), (readiness, "Readiness")):
        if series is not None:
            probe_times.append(series.next_probe)
            if series.last is False:
                failed.append(name)
    if liveness is not None and not liveness.state and liveness.changed is not None:
        killed = (liveness.changed, "liveness")
    due = [moment for moment in probe_times if moment is not None]
    return Findings(True, readiness is None or readiness.state, killed, min(due, default=None), failed)


def _evaluate_probe(
    pod: Json, container: Json, kind: str, began: timedelta, ran: timedelta, *, begins: bool
) -> _Series | None:
    """Return the results of one probe; None if there is none.

    The series ends with a failed startup or liveness probe, because that kills the container.
    """
    windows = probe_failures(pod, container["name"], kind)
    spec = container.get(f"{kind}Probe") or (_PLAIN if windows else None)
    if spec is None:
        return None
    period = timedelta(seconds=spec.get("periodSeconds", 10))
    needed = {True: spec.get("successThreshold", 1), False: spec.get("failureThreshold", 3)}
    moment = max(timedelta(seconds=spec.get("initialDelaySeconds", 0)), began)
    # The state is final after the last change of the result plus the threshold's number of probes.
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
    series.next_probe = moment if moment <= settled else None
    return series
