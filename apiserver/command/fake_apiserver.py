"""`python -m apiserver.command.fake_apiserver`: the server under kube-apiserver's name, as envtest starts it.

Translates kube-apiserver's command line to the server's own flags. Flags without a meaning here are accepted, and
listed once on stderr. Objects are kept in memory; `--etcd-servers` is ignored.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from apiserver.runtime import gc_tuning as garbage
from kubedra.runtime import extras

__all__ = ["main", "translate_flags"]

_HELP: Final = """\
kube-apiserver, as far as kubedra stands in for it: an API server in memory.

Flags that have an effect are those of `kubedra serve --help-all` that are kube-apiserver's, and

      --secure-port int   the port to serve HTTPS on (default 6443)
      --cert-dir string   a directory with apiserver.crt and apiserver.key; they are made where they are missing

Other flags of kube-apiserver are accepted without effect.
"""
_PORT: Final = "6443"


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if any(word in ("--help", "-h") for word in given):
        print(_HELP, end="")
        return 0
    if any(word.partition("=")[0] == "--version" for word in given):
        from apiserver.api.features.gates import RELEASES

        major, minor = RELEASES[-1]
        print(f"Kubernetes v{major}.{minor}.2")
        return 0
    from apiserver.command.start import main as serve

    flags, idle = translate_flags(given)
    if idle:
        print(f"kube-apiserver: without effect in kubedra: {', '.join(idle)}", file=sys.stderr, flush=True)
    os.environ["KUBEDRA_PROG"] = "kube-apiserver"
    return serve(flags)


def translate_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the server's flags for a command line of kube-apiserver, and the ignored flags."""
    known = _get_known_flags()
    flags: list[str] = []
    idle: list[str] = []
    values: dict[str, str] = {}
    for name, value in _pairs(arguments):
        if name in ("secure-port", "cert-dir"):
            values[name] = value
        elif name in known:
            values[name] = value
            if not known[name]:
                flags.append(f"--{name}={value}")
            elif value.lower() not in ("false", "0"):
                flags.append(f"--{name}")
        else:
            idle.append(f"--{name}")
    directory = values.get("cert-dir") or tempfile.mkdtemp(prefix="kubedra-")
    data = Path(directory) / "kubedra"
    data.mkdir(parents=True, exist_ok=True)
    flags += [f"--port={values.get('secure-port') or _PORT}", "--storage=memory", f"--data-dir={data}"]
    if "tls-cert-file" not in values:
        flags += _certificate(Path(directory))
    return flags, list(dict.fromkeys(idle))


def _certificate(directory: Path) -> list[str]:
    certificate, key = directory / "apiserver.crt", directory / "apiserver.key"
    if certificate.is_file() and key.is_file():
        return [f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"]
    return ["--tls"]


def _get_known_flags() -> dict[str, bool]:
    """Return kube-apiserver's flags that the server has, and whether each is a switch without a value."""
    from apiserver.options.flags import parser

    group = next(group for group in parser()._action_groups if group.title == "flags of kube-apiserver")
    return {
        option[2:]: isinstance(action, argparse._StoreTrueAction)
        for action in group._group_actions
        for option in action.option_strings
        if option.startswith("--")
    }


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values of flags, in both forms; a flag without a value is true."""
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not name:
            continue
        if not equals:
            value = words.pop(0) if words and not words[0].startswith("-") else "true"
        yield name, value


if __name__ == "__main__":
    garbage.disable()
    sys.exit(extras.run(main))
