"""``python -m legs`` is the command ``legs``."""

import sys

from legs.cli import main

if __name__ == "__main__":
    sys.exit(main())
