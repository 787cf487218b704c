"""argparse for all commands: one-line errors with suggestions, a short help, and flags from outside.

A usage error prints one line to stderr and exits with code 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from kubedra.runtime.user_settings import (
    Setting,
    UserSettingsError,
    file_settings,
    find_setting,
    is_on,
    record_sources,
    source_of,
    suggest,
)

__all__ = ["Parser", "program"]

#: Flags that every command takes from the environment and the file, if it has them.
_SHARED: Final = frozenset({"--data-dir", "--kubeconfig"})


def program(default: str) -> str:
    """Return the name of this program in messages; `default` if it was not started as a command of `kubedra`."""
    return os.environ.get("KUBEDRA_PROG", default)


class Parser(argparse.ArgumentParser):
    """An argument parser of a command.

    `common` are the flags of `--help`; `--help-all` then prints all. With `all_settings` every flag may be set by the
    environment and the file. With `owns_file` other keys in the file are errors.
    """

    def __init__(
        self,
        *args: Any,
        common: Sequence[str] = (),
        all_settings: bool = False,
        owns_file: bool = False,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        self._common, self._all_settings, self._owns_file = frozenset(common), all_settings, owns_file
        self._given: list[str] = []
        self._expanding = self.prog.startswith("kubedra")
        if self.add_help:
            text = "print all flags" if common else argparse.SUPPRESS
            self.add_argument("--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help=text)

    def error(self, message: str) -> NoReturn:
        self.fail(self._with_suggestion(message))

    def fail(self, message: str) -> NoReturn:
        """End the command with a line on stderr."""
        self.exit(2, f"{self.prog}: {source_of(message)}\n")

    def _with_suggestion(self, message: str) -> str:
        """Return the message with the flag that resembles an unknown one; a required flag may be misspelled."""
        unknown = message.startswith("unrecognized arguments: ")
        if not unknown and not message.startswith("the following arguments are required: "):
            return message
        for word in message.split()[2:] if unknown else self._given:
            name = word.partition("=")[0]
            if name.startswith("--") and name not in self._option_string_actions:
                hint = suggest(name, self._option_string_actions)
                if hint:
                    return f"{message if unknown else f'unrecognized arguments: {word}'}{hint}"
        return message

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        given = self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(self._with_settings(given) if self._expanding else given, namespace)

    def parse_intermixed_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse flags before, between and after positional arguments."""
        given = list(sys.argv[1:] if args is None else args)
        # argparse parses intermixed arguments in two passes.
        given, expanding = self._with_settings(given) if self._expanding else given, self._expanding
        self._expanding = False
        try:
            return super().parse_intermixed_args(given, namespace)
        finally:
            self._expanding = expanding

    def _with_settings(self, given: list[str]) -> list[str]:
        """Return the arguments after the flags that the environment and the file set."""
        words, sources = list[str](), dict[str, str]()
        record_sources(sources)
        try:
            if self._owns_file:
                self._check_file()
            for flag, action, setting in self._settings_beside(given):
                words += _words(flag, action, setting)
                sources[flag] = setting.source
        except UserSettingsError as error:
            self.fail(str(error))
        record_sources(sources)
        return [*words, *given]

    def _settings_beside(self, given: list[str]) -> Iterator[tuple[str, argparse.Action, Setting]]:
        """Yield the settings of flags that are not on the command line."""
        named = {word.partition("=")[0] for word in given}
        taken = {action for action in self._actions if named.intersection(action.option_strings)}
        for group in self._mutually_exclusive_groups:
            if taken.intersection(group._group_actions):
                taken.update(group._group_actions)
        for action in self._actions:
            flag = next((each for each in reversed(action.option_strings) if each.startswith("--")), "")
            if not flag or action in taken or isinstance(action, argparse._HelpAction | _HelpAll):
                continue
            if self._all_settings or flag in _SHARED:
                setting = find_setting(flag.removeprefix("--"))
                if setting is not None:
                    yield flag, action, setting

    def _check_file(self) -> None:
        name, found = file_settings()
        for key in found:
            if f"--{key}" not in self._option_string_actions:
                hint = suggest(f"--{key}", self._option_string_actions).replace("--", "")
                raise UserSettingsError(f"{name}: {key!r} is not a flag of {self.prog}{hint}")

    def format_help(self) -> str:
        """Return the help with the common flags, or with all if there are no common ones."""
        if not self._common:
            return super().format_help()
        hidden = {action: action.help for action in self._actions if not self._is_common(action)}
        try:
            for action in hidden:
                action.help = argparse.SUPPRESS
            return super().format_help()
        finally:
            for action, text in hidden.items():
                action.help = text

    def format_all(self) -> str:
        """Return the help with all flags."""
        return super().format_help()

    def format_usage(self) -> str:
        return f"usage: {self.prog} [FLAGS]\n" if self._common else super().format_usage()

    def _is_common(self, action: argparse.Action) -> bool:
        flags = action.option_strings
        return (
            not flags or bool(self._common.intersection(flags)) or isinstance(action, argparse._HelpAction | _HelpAll)
        )


class _HelpAll(argparse.Action):
    """Print the help with all flags and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        assert isinstance(parser, Parser)
        print(parser.format_all(), end="")
        parser.exit()


def _words(flag: str, action: argparse.Action, setting: Setting) -> list[str]:
    """Return the arguments for a setting. Raise UserSettingsError."""
    value = setting.value
    if isinstance(action, argparse._CountAction):
        if not str(value).isdigit():
            raise UserSettingsError(f"{setting.source}: {flag} is {value!r}; use a number")
        return [flag] * int(value)
    if action.nargs == 0:
        return [flag] if is_on(setting, flag) else []
    if isinstance(value, dict):
        value = ",".join(f"{name}={_text(each)}" for name, each in value.items())
    if isinstance(value, list):
        if not isinstance(action, argparse._AppendAction):
            raise UserSettingsError(f"{setting.source}: {flag} has one value, not a list")
        return [f"{flag}={_text(each)}" for each in value]
    return [f"{flag}={_text(value)}"]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
