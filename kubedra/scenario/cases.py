"""The cases of scenario files: one per combination of the matrix, with variables replaced and checked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubedra.runtime.objects import Json
from kubedra.runtime.user_settings import suggest
from kubedra.scenario.check import check, check_part, find_action
from kubedra.scenario.document import Document, ScenarioError, read_document

__all__ = ["Case", "Step", "load_cases"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its line, action and fields."""

    line: int
    action: str
    fields: Json

    def __str__(self) -> str:
        """Return the step in one line, as reports show it."""
        if "name" in self.fields:
            return str(self.fields["name"])
        value, fields = self.fields[self.action], self.fields
        words = [self.action, _shorten(value)]
        words += [f"{key} {_shorten(fields[key])}" for key in fields if key not in (self.action, "fails")]
        return " ".join([*words, *(["(has to fail)"] if "fails" in fields else [])])


def _shorten(value: Any) -> str:
    match value:
        case dict():
            meta = value.get("metadata")
            name = meta.get("name", "") if isinstance(meta, dict) else ""
            if value.get("kind"):
                return f"{value['kind']}/{name}"
            text = ", ".join(f"{key}: {_shorten(each)}" for key, each in value.items())
        case list():
            text = " ".join(map(_shorten, value))
        case bool():
            text = str(value).lower()
        case _:
            text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:60]}…"


@dataclass(frozen=True, slots=True)
class Case:
    """One run of a scenario file."""

    file: Path
    name: str
    #: The values of the matrix's variables in this run.
    variables: Mapping[str, Any]
    content: Json
    steps: Sequence[Step]

    def __str__(self) -> str:
        chosen = ", ".join(f"{key}={value}" for key, value in self.variables.items())
        return f"{self.name} ({chosen})" if chosen else self.name

    @property
    def directory(self) -> Path:
        """The directory of relative paths in the file."""
        return self.file.parent


def load_cases(files: Sequence[Path], settings: Mapping[str, Any]) -> list[Case]:
    """Return the cases of all files, in order. `settings` are the values of `--set`. Raise ScenarioError.

    A directory stands for its files *.yaml and *.yml. The error has a line per problem in any of the files.
    """
    cases, problems, known = list[Case](), list[str](), set[str]()
    for file in _list_files(files):
        try:
            document = read_document(file)
            check_part(document, "vars")
            check_part(document, "matrix")
            known |= {*document.value.get("vars", ()), *document.value.get("matrix", ())}
            cases += _build_cases(document, settings)
        except ScenarioError as error:
            problems.append(str(error))
    problems += [
        f"--set {name}: no scenario has this variable{suggest(name, known)}" for name in settings if name not in known
    ]
    if problems:
        raise ScenarioError("\n".join(problems))
    return cases


def _list_files(files: Sequence[Path]) -> Iterator[Path]:
    for file in files:
        if not file.is_dir():
            yield file
            continue
        found = sorted(each for each in file.iterdir() if each.suffix in (".yaml", ".yml"))
        if not found:
            raise ScenarioError(f"{file}: no *.yaml file in this directory")
        yield from found


def _build_cases(document: Document, settings: Mapping[str, Any]) -> Iterator[Case]:
    matrix = {
        name: [settings[name]] if name in settings else values
        for name, values in document.value.get("matrix", {}).items()
    }
    fixed = {**document.value.get("vars", {}), **settings}
    for chosen in itertools.product(*matrix.values()):
        variables = dict(zip(matrix, chosen, strict=True))
        replaced = document.substitute({**fixed, **variables})
        check(replaced)
        content = replaced.value
        steps = [
            Step(replaced.line(("steps", index)), find_action(fields), fields)
            for index, fields in enumerate(content["steps"])
        ]
        yield Case(document.file, content.get("name") or document.file.stem, variables, content, steps)
