"""Entry point of `kubedra` and `python -m kubedra`."""

from __future__ import annotations

import sys

from kubedra.cli import main

if __name__ == "__main__":
    sys.exit(main())
