"""The actions of steps that change something. Each takes the run, the action's value and the fields beside it."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from kubedra.client.waiting import default_timeout
from kubedra.runtime.objects import Json
from kubedra.scenario.processes import StepError, last_lines, run_command
from kubedra.scenario.values import parse_seconds, to_duration, to_texts
from kubedra.scenario.world import World

__all__ = ["ACTIONS", "Action", "timeout_of"]

Action = Callable[[World, Any, Json], None]
_TAINTED_DEVICES: Final = "kubedra.dev/tainted-devices"
#: Real time for processes to react to a timer of virtual time.
_REACTION: Final = timedelta(milliseconds=10)
_FAULT_FIELDS: Final = {
    "status": "status", "message": "message", "close": "close", "watch": "watch", "count": "count",
    "probability": "probability", "seed": "seed",
}  # fmt: skip


def timeout_of(fields: Json) -> float:
    """Return the time limit of a step, in seconds."""
    return parse_seconds(fields["timeout"]) if "timeout" in fields else default_timeout(30)


def _namespace(fields: Json) -> Json:
    return {"namespace": fields["namespace"]} if "namespace" in fields else {}


def _targets(value: str | Sequence[str]) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def _node_name(value: str) -> str:
    return value.removeprefix("node/")


def _apply(world: World, value: Any, fields: Json) -> None:
    options = {"force": fields.get("force", False), "strict": fields.get("strict", True)}
    if "fieldManager" in fields:
        options["field_manager"] = fields["fieldManager"]
    for manifest in value if isinstance(value, list) else [value]:
        is_path = isinstance(manifest, str) and "\n" not in manifest and not manifest.lstrip().startswith("{")
        world.client.apply(world.directory / manifest if is_path else manifest, **options)


def _delete(world: World, value: Any, fields: Json) -> None:
    options = _namespace(fields)
    if "gracePeriod" in fields:
        options["grace_period"] = round(parse_seconds(fields["gracePeriod"]))
    for target in _targets(value):
        world.client.delete(target, **options)


def _patch(world: World, value: str, fields: Json) -> None:
    world.client.patch(value, fields["with"], subresource=fields.get("subresource", ""), **_namespace(fields))


def _annotate(world: World, value: str, fields: Json) -> None:
    world.client.patch(value, {"metadata": {"annotations": to_texts(fields["with"])}}, **_namespace(fields))


def _label(world: World, value: str, fields: Json) -> None:
    world.client.patch(value, {"metadata": {"labels": to_texts(fields["with"])}}, **_namespace(fields))


def _scale(world: World, value: str, fields: Json) -> None:
    world.client.scale(value, fields["to"], **_namespace(fields))


def _wait(world: World, value: Any, fields: Json) -> None:
    for target in _targets(value):
        world.wait(
            target, fields["until"], timeout=timeout_of(fields), fail_fast=fields.get("failFast", True),
            **_namespace(fields),
        )  # fmt: skip


def _snapshot(world: World, value: str, fields: Json) -> None:
    world.snapshots[value] = snapshot = world.client.snapshot()
    if "file" in fields:
        snapshot.save(world.directory / fields["file"])


def _restore(world: World, value: str, fields: Json) -> None:
    world.client.restore(world.snapshots.get(value) or world.directory / value)


def _advance(world: World, value: str | float, fields: Json) -> None:
    pause = to_duration(fields["pause"]) if "pause" in fields else _REACTION if world.has_processes else timedelta()
    limit = to_duration(fields.get("limit", "1h"))
    if value == "idle":
        world.clock.run_until_idle(limit, pause=pause)
    elif value == "next":
        world.clock.step(limit, pause=pause)
    else:
        world.clock.advance(to_duration(value), pause=pause)


def _fault(world: World, value: str, fields: Json) -> None:
    match = {re.sub("([A-Z])", r"_\1", key).lower(): pattern for key, pattern in fields.get("match", {}).items()}
    options = {option: fields[key] for key, option in _FAULT_FIELDS.items() if key in fields}
    for key, option in (("watchAfter", "watch_after"), ("latency", "latency")):
        if key in fields:
            options[option] = parse_seconds(fields[key])
    if "retryAfter" in fields:
        options["retry_after"] = round(parse_seconds(fields["retryAfter"]))
    world.inject(value, **match, **options)


def _clear(world: World, value: str, fields: Json) -> None:
    world.clear(value)


def _add_node(world: World, value: str, fields: Json) -> None:
    world.add_node(value, fields)


def _drain(world: World, value: str, fields: Json) -> None:
    grace = round(parse_seconds(fields["gracePeriod"])) if "gracePeriod" in fields else None
    world.client.drain(_node_name(value), timeout=timeout_of(fields), grace_period=grace, virtual=world.virtual)


def _cordon(world: World, value: str, fields: Json) -> None:
    world.client.cordon(_node_name(value))


def _uncordon(world: World, value: str, fields: Json) -> None:
    world.client.uncordon(_node_name(value))


def _taint(world: World, value: str, fields: Json) -> None:
    node = world.client.get(f"node/{_node_name(value)}")
    if "device" in fields:
        _set_device_taint(world, node, fields["device"], fields["with"])
        return
    words, _, effect = fields["with"].rpartition(":")
    if effect == "None":
        raise StepError("only devices have the effect None; use NoSchedule, PreferNoSchedule or NoExecute")
    key, _, text = words.partition("=")
    taint = {"key": key, "effect": effect, **({"value": text} if text else {})}
    others = [t for t in node["spec"].get("taints") or () if (t["key"], t["effect"]) != (key, effect)]
    world.client.patch(f"node/{_node_name(value)}", {"spec": {"taints": [*others, taint]}})


def _untaint(world: World, value: str, fields: Json) -> None:
    node = world.client.get(f"node/{_node_name(value)}")
    if "device" in fields:
        _set_device_taint(world, node, fields["device"], None)
        return
    left = [taint for taint in node["spec"].get("taints") or () if not _is_removed(taint["key"], fields.get("key"))]
    world.client.patch(f"node/{_node_name(value)}", {"spec": {"taints": left or None}})


def _is_removed(key: str, named: str | None) -> bool:
    return "kubernetes.io/" not in key if named is None else key == named


def _set_device_taint(world: World, node: Json, device: str, taint: str | None) -> None:
    """Change the annotation of one device's taint; the other devices keep theirs."""
    text = (node["metadata"].get("annotations") or {}).get(_TAINTED_DEVICES, "")
    items = [item.strip() for item in text.split(",") if item.strip() and item.partition("=")[0].strip() != device]
    items += [f"{device}={taint}"] if taint else []
    value = ", ".join(items) or None
    world.client.patch(f"node/{node['metadata']['name']}", {"metadata": {"annotations": {_TAINTED_DEVICES: value}}})


def _kill(world: World, value: str, fields: Json) -> None:
    kind, _, name = value.partition("/")
    if "at" in fields:
        if kind != "node":
            raise StepError("`at` needs a node with drivers")
        world.node_with_drivers(name).kill(at=fields["at"])
        world.armed.add(name)
    elif kind == "process":
        world.process(name).end(signal.SIGKILL)
    elif name in world.nodes:
        world.nodes[name].kill()
    else:
        world.client.kill_node(name)


def _start(world: World, value: str, fields: Json) -> None:
    kind, _, name = value.partition("/")
    if kind == "process":
        world.start_process(name, fields, timeout_of(fields))
    elif name in world.nodes:
        if name in world.armed:
            world.armed.discard(name)
            world.nodes[name].wait_killed(timeout_of(fields))
        world.nodes[name].start()
    else:
        world.client.start_node(name)


def _stop(world: World, value: str, fields: Json) -> None:
    kind, _, name = value.partition("/")
    if kind == "process":
        world.process(name).end(signal.SIGTERM)
    else:
        world.node_with_drivers(name).stop()


def _run(world: World, value: Any, fields: Json) -> None:
    code, output = run_command(world.command(value, fields), timeout_of(fields))
    expected = fields.get("exitCode", 0)
    if code != expected:
        raise StepError("\n".join([f"exit code {code}, expected {expected}", *last_lines(output)]))
    if fields.get("output", "") not in output:
        raise StepError("\n".join([f"the output does not have {fields['output']!r}:", *last_lines(output)]))


ACTIONS: Final[dict[str, Action]] = {
    "apply": _apply,
    "delete": _delete,
    "patch": _patch,
    "annotate": _annotate,
    "label": _label,
    "scale": _scale,
    "wait": _wait,
    "snapshot": _snapshot,
    "restore": _restore,
    "advance": _advance,
    "fault": _fault,
    "clear": _clear,
    "addNode": _add_node,
    "drain": _drain,
    "cordon": _cordon,
    "uncordon": _uncordon,
    "taint": _taint,
    "untaint": _untaint,
    "kill": _kill,
    "start": _start,
    "stop": _stop,
    "run": _run,
}
