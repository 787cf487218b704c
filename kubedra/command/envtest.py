"""`kubedra envtest-assets`: write a directory with kube-apiserver, etcd and kubectl, for KUBEBUILDER_ASSETS."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kubedra.command import setup_envtest
from kubedra.command.arguments import Parser
from kubedra.command.envtest_files import default_directory, write_assets

__all__ = ["envtest_assets"]

#: pflag's form of a switch with a value.
_SWITCH: Final = re.compile(r"(?P<flag>-i|--(?:installed-only|force|verify|use-env|use-deprecated-gcs))=(?P<value>\w+)")


def envtest_assets(args: Sequence[str]) -> int:
    """Run `kubedra envtest-assets [DIR]`, or a command of setup-envtest: `use|list|cleanup|version [VERSION]`."""
    parser = Parser(
        prog="kubedra envtest-assets",
        usage="kubedra envtest-assets [DIR]\n       kubedra envtest-assets use|list|cleanup|version [VERSION] [FLAGS]",
        description="Write a directory with stand-ins for kube-apiserver and etcd and a link to the installed kubectl,"
        ' and print its path: KUBEBUILDER_ASSETS="$(kubedra envtest-assets)" go test ./...  The commands are those of'
        ' setup-envtest, for Makefiles: make test ENVTEST="$(kubedra envtest-assets)/setup-envtest"',
    )
    parser.add_argument(
        "words", nargs="*", metavar="DIR", help="directory to write (default: one in the user's cache), or a command"
    )
    setup_envtest.add_flags(parser)
    options = parser.parse_intermixed_args(_without_values(args))
    command, *rest = options.words or [""]
    is_setup = command in setup_envtest.COMMANDS
    if len(rest) > is_setup:
        parser.error(f"unrecognized arguments: {' '.join(rest[is_setup:])}")
    try:
        if is_setup:
            setup_envtest.run(options, command, rest[0] if rest else "")
        else:
            print(write_assets(Path(command) if command else default_directory()))
    except OSError as error:
        print(f"kubedra: {error.filename or command or default_directory()}: {error.strerror}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"kubedra: {error}", file=sys.stderr)
        return 2
    return 0


def _without_values(args: Sequence[str]) -> list[str]:
    """Return the arguments with `--verify=false` left out and `--force=true` as `--force`."""
    found = []
    for word in args:
        switch = _SWITCH.fullmatch(word)
        if switch is None:
            found.append(word)
        elif switch["value"].lower() in ("true", "1", "t"):
            found.append(switch["flag"])
    return found
