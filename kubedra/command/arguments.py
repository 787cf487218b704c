"""argparse for the package's own commands: a mistake is one line on stderr and exit code 2."""

from __future__ import annotations

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """argparse without the usage before an error; `--help` shows it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")
