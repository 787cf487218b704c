"""Scenario files as values with line numbers, and the variables in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kubedra.client.manifests import yaml_loader
from kubedra.runtime.failures import describe_failure
from kubedra.runtime.user_settings import suggest

__all__ = ["Document", "Location", "ScenarioError", "parse_value", "read_document"]

#: The keys and indexes that lead to a value.
Location = tuple[str | int, ...]
_VARIABLE: Final = re.compile(r"\$(?:\$(?=\{)|\{([A-Za-z_][A-Za-z0-9_]*)\})")


class ScenarioError(ValueError):
    """An unusable scenario. The message has one line per problem, each with file and line."""


class Document:
    """The value of a file and the lines of its parts."""

    def __init__(self, file: Path, value: Any, lines: Mapping[Location, int]) -> None:
        self.file, self.value, self._lines = file, value, lines

    def line(self, where: Location) -> int:
        """Return the line of a value, or of the innermost known value around it."""
        while where not in self._lines:
            where = where[:-1]
        return self._lines[where]

    def problem(self, where: Location, message: str) -> str:
        return f"{self.file}:{self.line(where)}: {message}"

    def error(self, where: Location, message: str) -> ScenarioError:
        return ScenarioError(self.problem(where, message))

    def substitute(self, variables: Mapping[str, Any]) -> Document:
        """Return the document with its variables replaced. Raise ScenarioError for unknown and empty ones.

        A text that is only a variable becomes its value; elsewhere the value is inserted as text.
        """
        kept = {key: self.value[key] for key in ("vars", "matrix") if key in self.value}
        replaced = {
            key: kept[key] if key in kept else self._replace(value, (key,), variables)
            for key, value in self.value.items()
        }
        return Document(self.file, replaced, self._lines)

    def _replace(self, value: Any, where: Location, variables: Mapping[str, Any]) -> Any:
        match value:
            case dict():
                return {key: self._replace(each, (*where, key), variables) for key, each in value.items()}
            case list():
                return [self._replace(each, (*where, index), variables) for index, each in enumerate(value)]
            case str() if "$" in value:
                return self._replace_text(value, where, variables)
        return value

    def _replace_text(self, text: str, where: Location, variables: Mapping[str, Any]) -> Any:
        def find(name: str) -> Any:
            if name not in variables:
                hint = suggest(name, variables) or "; set it in vars, or write $${ for ${"
                raise self.error(where, f"unknown variable {name}{hint}")
            if variables[name] is None:
                raise self.error(where, f"variable {name} has no value; pass --set {name}=VALUE")
            return variables[name]

        whole = _VARIABLE.fullmatch(text)
        if whole and whole[1]:
            return find(whole[1])
        return _VARIABLE.sub(lambda found: _text(find(found[1])) if found[1] else "$", text)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_document(file: Path) -> Document:
    """Read a scenario file. Raise ScenarioError."""
    import yaml

    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{file}: {describe_failure(error)}") from error
    lines: dict[Location, int] = {}
    try:
        loader = yaml_loader()(text)
        try:
            node = loader.get_single_node()
            value = _build(loader, node, (), lines) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ScenarioError(f"{file}:{line}: {' '.join(str(error.problem or error.context).split())}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{file}: not YAML: {' '.join(str(error).split())}") from error
    document = Document(file, value, lines or {(): 1})
    if not isinstance(value, dict):
        raise ScenarioError(f"{file}:1: not a scenario: expected a mapping with `steps`")
    return document


def _build(loader: Any, node: Any, where: Location, lines: dict[Location, int]) -> Any:
    """Return the value of a YAML node, and record the lines of its parts."""
    import yaml

    lines.setdefault(where, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        names = [key.value for key, _ in node.value]
        for (key, _), name in zip(node.value, names, strict=True):
            if names.count(name) > 1 and key.tag != "tag:yaml.org,2002:merge" and key.start_mark is not None:
                second = [each for each, _ in node.value if each.value == name][1]
                raise yaml.MarkedYAMLError(problem=f"key {name} is given twice", problem_mark=second.start_mark)
        loader.flatten_mapping(node)
        return dict(_entries(loader, node, where, lines))
    if isinstance(node, yaml.SequenceNode):
        return [_build(loader, each, (*where, index), lines) for index, each in enumerate(node.value)]
    return loader.construct_object(node, deep=True)


def _entries(loader: Any, node: Any, where: Location, lines: dict[Location, int]) -> Iterator[tuple[str, Any]]:
    import yaml

    for key, value in node.value:
        name = key.value
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="a key must be a text", problem_mark=key.start_mark)
        inner = (*where, name)
        lines.setdefault(inner, key.start_mark.line + 1)
        yield name, _build(loader, value, inner, lines)


def parse_value(text: str) -> Any:
    """Return the value of a variable on the command line, typed as in YAML; other than scalars stay text."""
    import yaml

    try:
        value = yaml.load(text, Loader=yaml_loader())  # noqa: S506 - a safe loader
    except yaml.YAMLError:
        return text
    return text if isinstance(value, dict | list) or value is None else value
