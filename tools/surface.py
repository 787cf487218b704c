"""The public API as recorded text, and the changes that break it: `python -m tools.surface --write | --check`.

The record is `docs/data/public-api.txt`. Additions are recorded by `--write`. A change that breaks callers is recorded
only if a line of CHANGELOG under Unreleased, in Changed or Removed, has the name in backquotes.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs" / "data" / "public-api.txt"
CHANGELOG = ROOT / "CHANGELOG.md"
#: The public names by module. A package's `__all__` is complete; of others, the names that methods return or take.
MODULES: Final = {
    "kubedra": (),
    "kubedra.driver": (),
    "kubedra.pytest_plugin": ("Kube",),
    "kubedra.client.clock": ("AsyncClock", "Clock", "RealTimeError"),
    "kubedra.client.faults": ("AsyncFault", "Fault"),
    "kubedra.client.options": (),
    "kubedra.plane.control_plane": ("StartError",),
    "kubedra.plane.node_process": ("NodeProcess",),
    "kubedra.driver.running": ("RunningDriver",),
}
#: Dunder methods that callers use by syntax.
_SYNTAX: Final = frozenset({"__init__", "__enter__", "__exit__", "__aenter__", "__aexit__"})
_LITERALS: Final = (str, int, float, bool, tuple, type(None))


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if the record is current or was written, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tools.surface", description="Record or check the public API.")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true", help="record the current API")
    choice.add_argument("--check", action="store_true", help="exit with 1 if the record is not current")
    options = parser.parse_args(arguments)
    current, recorded = render(), RECORD.read_text() if RECORD.exists() else ""
    unannounced = list_unannounced(recorded, current, CHANGELOG.read_text())
    for line in unannounced:
        print(f"breaks callers, and CHANGELOG does not announce it: {line}", file=sys.stderr)
    if options.write and not unannounced:
        RECORD.write_text(current)
        return 0
    if current != recorded and not unannounced:
        print(f"{RECORD.name} is not current: run python -m tools.surface --write", file=sys.stderr)
    return int(current != recorded)


def list_unannounced(recorded: str, current: str, changelog: str) -> list[str]:
    """Return the breaking changes that the changelog's Unreleased section does not name."""
    import griffe

    before, after = (griffe.visit("api", Path("api.pyi"), text) for text in (recorded, current))
    announced = _announced_names(changelog)
    found = []
    for breakage in griffe.find_breaking_changes(before, after):
        path = breakage.obj.path.removeprefix("api.").partition("(")[0]
        if not {path, path.rpartition(".")[2]} & announced:
            found.append(f"{path}: {breakage.kind.value}")
    return found


def _announced_names(changelog: str) -> set[str]:
    """Return the words in backquotes of Changed and Removed in the Unreleased section."""
    unreleased = changelog.partition("## Unreleased")[2].partition("\n## ")[0]
    parts = re.split(r"^### (\w+)$", unreleased, flags=re.MULTILINE)
    text = "".join(body for name, body in zip(parts[1::2], parts[2::2], strict=True) if name in ("Changed", "Removed"))
    quoted = " ".join(re.findall(r"`([^`]+)`", text))
    return set(re.findall(r"[\w.]+", quoted))


def render() -> str:
    """Return the public API, one declaration per line, in the syntax of a stub file."""
    lines = ["# The public API. Recorded by `python -m tools.surface --write`; see docs/support-policy.md."]
    for module, names in MODULES.items():
        loaded = import_module(module)
        lines += ["", f"# {module}"]
        for name in sorted(names or loaded.__all__):
            if isinstance(value := getattr(loaded, name), type):
                lines += [f"class {name}{_bases(value)}:", *(f"    {line}" for line in _members(value))]
            elif name != "__version__":
                lines.append(f"{name} = ...")
    return "\n".join([*lines, "", "# pytest.mark.kube", _marker(), ""])


def _marker() -> str:
    from kubedra.pytest_plugin import _OWN_ONLY

    return f"def mark_kube(*, {', '.join(f'{name}=...' for name in sorted(_OWN_ONLY | {'own', 'clock'}))}): ..."


def _bases(cls: type) -> str:
    if typing.is_typeddict(cls):
        return "(TypedDict, total=False)"
    names = [base.__name__ for base in cls.__mro__[1:] if issubclass(base, BaseException)]
    return f"({names[0]})" if names else ""


def _members(cls: type) -> Iterator[str]:
    if typing.is_typeddict(cls):
        hints: dict[str, Any] = cls.__annotations__
        yield from (f"{name}: {_annotation(hint)}" for name, hint in sorted(hints.items())) if hints else ["..."]
        return
    owners = [owner for owner in cls.__mro__ if owner.__module__.startswith("kubedra")]
    names = {name for owner in owners for name in vars(owner)}
    if dataclasses.is_dataclass(cls):
        fields = {field.name: field for field in dataclasses.fields(cls)}
        yield from (f"{name}: {_annotation(field.type)}" for name, field in sorted(fields.items()))
        names -= fields.keys()
    public = sorted(name for name in names if name in _SYNTAX or not name.startswith("_"))
    for name in public:
        yield from _member(cls, name)
    if not public:
        yield "..."


def _member(cls: type, name: str) -> Iterator[str]:
    value = inspect.getattr_static(cls, name)
    if isinstance(value, property) and value.fget is not None:
        yield "@property"
        yield f"def {name}(self) -> {_annotation(inspect.signature(value.fget).return_annotation)}: ..."
    elif isinstance(value, staticmethod | classmethod):
        yield f"@{type(value).__name__}"
        yield _function(name, value.__func__)
    elif inspect.isroutine(value):
        yield _function(name, value)
    else:
        yield f"{name} = {value!r}" if isinstance(value, _LITERALS) else f"{name} = ..."


def _function(name: str, function: Any) -> str:
    parts: list[str] = []
    kind, signature = None, inspect.signature(function)
    for each in signature.parameters.values():
        if kind is inspect.Parameter.POSITIONAL_ONLY and each.kind is not kind:
            parts.append("/")
        if each.kind is inspect.Parameter.KEYWORD_ONLY and kind not in (each.kind, inspect.Parameter.VAR_POSITIONAL):
            parts.append("*")
        kind = each.kind
        stars = "*" * (1 if kind is each.VAR_POSITIONAL else 2 if kind is each.VAR_KEYWORD else 0)
        hint = "" if each.annotation is each.empty else f": {_annotation(each.annotation)}"
        default = "" if each.default is each.empty else f" = {_default(each.default)}"
        parts.append(f"{stars}{each.name}{hint}{default}")
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    begin = "async def" if inspect.iscoroutinefunction(function) else "def"
    return f"{begin} {name}({', '.join(parts)}) -> {_annotation(signature.return_annotation)}: ..."


def _default(value: object) -> str:
    return repr(value) if isinstance(value, _LITERALS) else "..."


def _annotation(hint: object) -> str:
    """Return an annotation as written; the modules postpone their evaluation."""
    if hint is inspect.Signature.empty:
        return "None"
    text = hint.__forward_arg__ if isinstance(hint, typing.ForwardRef) else hint
    return text.strip("\"'") if isinstance(text, str) else inspect.formatannotation(text)


if __name__ == "__main__":
    sys.exit(main())
