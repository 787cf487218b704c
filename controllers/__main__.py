"""`python -m controllers`: see `controllers.manager.start`."""

import sys

from apiserver.runtime import gc_tuning
from controllers.manager.start import main
from kubedra.runtime import extras

if __name__ == "__main__":
    gc_tuning.enable()
    sys.exit(extras.run(main))
