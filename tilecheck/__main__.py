"""`python -m tilecheck`, the same as `tilecheck`."""

from tilecheck.cli import entry

if __name__ == "__main__":
    entry()
