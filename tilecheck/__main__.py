"""`python -m tilecheck`, the same as `tilecheck`."""

import sys

# In a checkout no pip has asked for the version, and older ones cannot read what follows.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.stderr.write("tilecheck: it takes Python 3.10 to 3.13: python3.12 -m tilecheck, say\n")
    sys.exit(2)

from tilecheck.cli import entry

if __name__ == "__main__":
    entry()
