"""`python -m apiserver`: see `apiserver.command.start`."""

import sys

from apiserver.command.start import main
from apiserver.runtime import gc_tuning
from kubedra.runtime import extras

if __name__ == "__main__":
    gc_tuning.disable()
    sys.exit(extras.run(main))
