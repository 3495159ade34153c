"""`python -m tilecheck`, the same as `tilecheck`."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  # in a checkout, where no pip has asked; they cannot read what follows
    sys.stderr.write("tilecheck: it takes Python 3.10 to 3.13: python3.12 -m tilecheck, say\n")
    sys.exit(2)

from tilecheck.cli import entry

if __name__ == "__main__":
    entry()
