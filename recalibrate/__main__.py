"""``python -m recalibrate``: the command line."""

import sys

from recalibrate.commands import main

if __name__ == "__main__":
    sys.exit(main())
