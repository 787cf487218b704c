"""Run the cases of scenario files, each on a control plane of its own or on a running one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx

from kubedra.archive.archive import ArchiveError
from kubedra.client.client import ApiError, Client
from kubedra.client.clock import RealTimeError
from kubedra.client.report import dump
from kubedra.plane.control_plane import ControlPlane, StartError
from kubedra.runtime.objects import Json
from kubedra.scenario.actions import ACTIONS
from kubedra.scenario.cases import Case, Step
from kubedra.scenario.expectations import EXPECTATIONS
from kubedra.scenario.processes import StepError, last_lines
from kubedra.scenario.values import parse_seconds
from kubedra.scenario.world import World

__all__ = ["OwnServers", "Result", "RunningServer", "Servers", "StepResult", "run_case"]

_RUN = {**ACTIONS, **EXPECTATIONS}
#: Errors of a step that are reported as its failure.
_FAILURES = (
    ApiError,
    ArchiveError,
    StepError,
    RealTimeError,
    TimeoutError,
    ValueError,
    OSError,
    RuntimeError,
    httpx.HTTPError,
)


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step that was run. `error` is "" if it passed."""

    line: int
    text: str
    seconds: float
    error: str = ""


@dataclass(slots=True)
class Result:
    """The result of one case."""

    case: Case
    steps: list[StepResult] = field(default_factory=list)
    seconds: float = 0.0
    #: Why the case failed, with the line; "" if it passed.
    error: str = ""
    #: Objects, events and outputs at the end of a failed case.
    report: str = ""
    #: How to reach the control plane that was kept, or "".
    kept: str = ""
    #: Whether the control plane or its nodes could not be started.
    no_start: bool = False

    @property
    def passed(self) -> bool:
        return not self.error


class Servers(Protocol):
    """The source of control planes for cases."""

    def open(self, case: Case, stack: ExitStack) -> World: ...

    def keep(self) -> str:
        """Leave the current control plane running. Return how to reach and stop it, or ""."""
        ...

    def close(self) -> None: ...


class OwnServers:
    """Starts a control plane per case. Cases in succession with the same settings and no seed share one, reset between.

    `kept`: leave the control plane of the first failing case running.
    """

    def __init__(self, *, keeping: bool = False) -> None:
        self._keeping = keeping
        self._plane: ControlPlane | None = None
        self._settings: Json | None = None

    def open(self, case: Case, stack: ExitStack) -> World:
        settings = case.content.get("plane", {})
        shared = not {"seed", "from"}.intersection(settings)
        if self._plane is not None and settings == self._settings and shared:
            self._plane.reset()
        else:
            self.close()
            options = _plane_options(settings, case.directory)
            self._plane = ControlPlane(**options, attached=not self._keeping).start()
            self._settings = settings
        namespace = case.content.get("namespace", "default")
        client = stack.enter_context(Client.from_kubeconfig(self._plane.kubeconfig, namespace=namespace))
        return World(client, self._plane.kubeconfig, case.directory, virtual=self._plane.virtual)

    def keep(self) -> str:
        if self._plane is None or not self._keeping:
            return ""
        plane, self._plane, self._keeping = self._plane, None, False
        kubeconfig = plane.kubeconfig
        plane.detach()
        return f"export KUBECONFIG={kubeconfig}  # stop it with: kubedra down --data-dir {plane.data_dir}"

    def close(self) -> None:
        if self._plane is not None:
            self._plane.stop()
            self._plane = None


def _plane_options(settings: Json, directory: Path) -> dict[str, Any]:
    names = {
        "release": "emulated_version", "gates": "feature_gates", "runtimeConfig": "runtime_config", "clock": "clock",
        "seed": "seed", "controllers": "controllers", "storage": "storage", "flags": "args",
    }  # fmt: skip
    options = {names[key]: value for key, value in settings.items() if key in names}
    if "from" in settings:
        options["args"] = [*options.get("args", ()), f"--from={(directory / settings['from']).absolute()}"]
    if "jobsExitAfter" in settings:
        options["jobs_exit_after"] = f"{parse_seconds(settings['jobsExitAfter']):g}s"
    return options


class RunningServer:
    """A server that runs already. `reset` deletes its objects before each case, which only kubedra's servers can."""

    def __init__(self, *, url: str = "", kubeconfig: Path | None = None, reset: bool = False) -> None:
        self._url, self._kubeconfig, self._reset = url, kubeconfig, reset

    def open(self, case: Case, stack: ExitStack) -> World:
        namespace = case.content.get("namespace", "")
        if self._url:
            client = Client(self._url, namespace=namespace or "default")
        else:
            client = Client.from_kubeconfig(self._kubeconfig, namespace=namespace)
        stack.enter_context(client)
        if self._reset:
            client.request("POST", "/-/reset", timeout=60)
        return World(client, self._kubeconfig, case.directory, virtual=_is_virtual(client))

    def keep(self) -> str:
        return ""

    def close(self) -> None:
        """Leave the server as it is."""


def _is_virtual(client: Client) -> bool:
    """Return whether a server is one of kubedra in virtual time."""
    try:
        return client.request("GET", "/-/clock", params={"limit": "0"}).get("virtual") is True
    except ApiError:
        return False


def run_case(case: Case, servers: Servers, report: Callable[[StepResult], None] = lambda _: None) -> Result:
    """Run one case to its end or its first failing step. `report` is called after each step."""
    result, begin = Result(case), time.monotonic()
    with ExitStack() as stack:
        try:
            world = _open(case, servers, stack)
        except (StartError, *_FAILURES) as error:
            result.error, result.no_start = f"{case.file}: {_describe(error)}", True
        else:
            for done in _run_steps(world, case.steps):
                result.steps.append(done)
                report(done)
                if done.error:
                    result.error = f"{case.file}:{done.line}: {done.error}"
                    result.report = _report(world)
                    break
        result.seconds = time.monotonic() - begin
        if result.error:
            result.kept = servers.keep()
    return result


def _open(case: Case, servers: Servers, stack: ExitStack) -> World:
    """Return the world of a case, with its namespace and nodes."""
    world = servers.open(case, stack)
    stack.callback(world.close)
    if case.content.get("namespace", "default") != "default":
        world.create_namespace(case.content["namespace"])
    for node in case.content.get("nodes", ()):
        count = node.get("count")
        for name in [node["name"]] if count is None else [f"{node['name']}-{n}" for n in range(1, count + 1)]:
            world.add_node(name, node)
    return world


def _run_steps(world: World, steps: Sequence[Step]) -> Iterator[StepResult]:
    for step in steps:
        begin = time.monotonic()
        error = _run_step(world, step)
        yield StepResult(step.line, str(step), time.monotonic() - begin, error)


def _run_step(world: World, step: Step) -> str:
    """Run a step. Return why it failed, or ""."""
    expected = step.fields.get("fails")
    try:
        _RUN[step.action](world, step.fields[step.action], step.fields)
    except _FAILURES as error:
        text = _describe(error)
        if expected is None:
            return _explained(world, step, text)
        return "" if expected in text else f"it failed without {expected!r}: {text}"
    return "" if expected is None else f"it did not fail; expected an error with {expected!r}"


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _explained(world: World, step: Step, text: str) -> str:
    """Return an error with the explanations of its pods that are pending, if the server has them."""
    if step.action not in ("wait", "expect"):
        return text
    value, namespace = step.fields[step.action], step.fields.get("namespace") or None
    with contextlib.suppress(*_FAILURES):
        for target in [value] if isinstance(value, str) else value:
            word, _, name = target.partition("/")
            if name and world.client.resolve(word) == ("v1", "Pod"):
                pod = world.client.get(target, namespace=namespace)
                if pod.get("status", {}).get("phase") == "Pending" and not pod["spec"].get("nodeName"):
                    text += "\n" + str(world.client.explain(target, namespace=namespace)["report"])
    return text


def _report(world: World) -> str:
    """Return the objects, events and outputs of processes."""
    try:
        parts = [dump(world.client)]
    except _FAILURES as error:
        parts = [f"no objects: {_describe(error)}"]
    parts += ["\n".join([f"{name}:", *last_lines(text)]) for name, text in world.outputs().items() if text.strip()]
    return "\n".join(parts)
