"""Which processes are there."""

from pathlib import Path


def running(pid: int) -> bool:
    """Whether there is such a process, and it has not ended yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"  # ended, and nobody has asked how
