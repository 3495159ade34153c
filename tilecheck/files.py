"""Files that are never seen half written."""

import os
import tempfile
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Writes a file whole or not at all; its folder is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(made).chmod(0o644)
        Path(made).replace(path)
    finally:
        Path(made).unlink(missing_ok=True)
