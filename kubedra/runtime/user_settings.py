"""Flags from the environment and from a file: `KUBEDRA_PORT=8002`, or `port = 8002` in kubedra.toml.

The file is `kubedra.toml` or the table `[tool.kubedra]` of `pyproject.toml` in the working directory. A flag on the
command line wins over the environment, and the environment wins over the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = [
    "Setting", "UserSettingsError", "data_dir", "file_settings", "find_setting", "is_on", "record_sources", "source_of",
    "suggest",
]  # fmt: skip

DATA_DIR: Final = Path(".kubedra")
_FILE, _PROJECT = Path("kubedra.toml"), Path("pyproject.toml")


class UserSettingsError(ValueError):
    """An unusable setting; the message is one line that names its source."""


class Setting(NamedTuple):
    """A flag's value outside of the command line, and the variable or file that sets it."""

    value: Any
    source: str


def file_settings() -> tuple[str, Mapping[str, Any]]:
    """Return the name of the settings file and its flags. Raise UserSettingsError."""
    if _FILE.is_file():
        return str(_FILE), _read(_FILE)
    if _PROJECT.is_file():
        found = _read(_PROJECT).get("tool", {}).get("kubedra", {})
        if not isinstance(found, dict):
            raise UserSettingsError(f"{_PROJECT}: tool.kubedra is not a table")
        return f"{_PROJECT} [tool.kubedra]", found
    return str(_FILE), {}


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UserSettingsError(f"{path}: {(error.strerror or '').lower()}") from error
    except ValueError as error:
        raise UserSettingsError(f"{path}: {error}") from error


def variable(flag: str) -> str:
    """Return the environment variable of a flag: `--data-dir` is set by KUBEDRA_DATA_DIR."""
    return f"KUBEDRA_{flag.lstrip('-').replace('-', '_').upper()}"


def find_setting(flag: str) -> Setting | None:
    """Return the setting of a flag such as `data-dir`; None if it has none. Raise UserSettingsError."""
    if (value := os.environ.get(variable(flag))) is not None:
        return Setting(value, variable(flag))
    name, found = file_settings()
    return Setting(found[flag], name) if flag in found else None


def is_on(setting: Setting | None, flag: str) -> bool:
    """Return whether a setting turns a flag without a value on. Raise UserSettingsError."""
    if setting is None:
        return False
    value = str(setting.value).lower()
    if value not in ("true", "false", "1", "0", "yes", "no", ""):
        raise UserSettingsError(f"{setting.source}: {flag} is {setting.value!r}; use true or false")
    return value in ("true", "1", "yes")


def data_dir() -> Path:
    """Return the data directory of commands without `--data-dir`."""
    found = find_setting("data-dir")
    return DATA_DIR if found is None else Path(str(found.value))


#: The sources of this process's flags that are not on its command line, by flag.
_SOURCES: dict[str, str] = {}


def record_sources(sources: Mapping[str, str]) -> None:
    """Record the sources of flags for messages."""
    _SOURCES.clear()
    _SOURCES.update(sources)


def source_of(message: str) -> str:
    """Return the message of an error with the source of the flag that it names, unless that is the command line."""
    words = (word.strip("'\"():;,").partition("=")[0] for word in message.split())
    source = next((_SOURCES[word] for word in words if word in _SOURCES), "")
    return f"{message} (set by {source})" if source else message


def suggest(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" for the known word that resembles a wrong one most; "" if none does."""
    import difflib

    lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(word.lower(), lower, 1, 0.7)
    return f"; did you mean {lower[close[0]]}?" if close else ""
