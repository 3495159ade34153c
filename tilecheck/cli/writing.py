"""How a command that writes files says what it did."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilecheck.cli.output import show

if TYPE_CHECKING:
    from tilecheck.scaffold import Step


def told(steps: "Sequence[Step]", folder: Path) -> int:
    """Shows the steps, paths relative to `folder`; 1 where lines are left to be put in by hand, else 0."""
    code = 0
    for step in steps:
        kept = ", which is there" if step.what == "kept" else ""
        show(f"{step.what} {os.path.relpath(step.path, folder)}{kept}")
        if step.by_hand:
            code = 1
            where = f"below {step.section} in it" if step.section else "into it"
            if step.option:
                where = f"in place of its {step.option}, {where}"
            show("\n".join([f"  put this {where}:", *(f"    {line}" for line in step.by_hand.splitlines())]))
    return code
