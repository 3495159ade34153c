"""Files and folders that arguments name."""

import argparse
from pathlib import Path


def named(text: str) -> Path:
    """The `type` of an argument that names one.

    Raises ArgumentTypeError for an empty text, as of a variable of the shell that is not set: it would mean
    the current folder.
    """
    if not text:
        raise argparse.ArgumentTypeError("'' names no file and no folder")
    return Path(text)
