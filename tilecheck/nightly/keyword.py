"""Whether pytest takes what is given with -k, asked before the first stage.

A worker of pytest-xdist can refuse nothing: it dies of a wrong expression, as it would of a wrong kernel.
"""

import sys
import tempfile
from pathlib import Path

from tilecheck.nightly.asking import Unanswered, answer
from tilecheck.nightly.stages import NOTHING_SELECTED
from tilecheck.versions import variables_of


def require_keyword(expression: str) -> None:
    """Raises ValueError, in one line, where pytest does not take it."""
    if not expression:
        return
    # In an empty folder and without plugins, as no test has to be collected for it.
    variables = {**variables_of(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    alone = ("-c", "/dev/null", "--rootdir=.", "-p", "no:cacheprovider")
    with tempfile.TemporaryDirectory() as folder:
        try:
            command = (sys.executable, "-m", "pytest", *alone, "-k", expression)
            answer(command, Path(folder), variables, fine=(NOTHING_SELECTED,))
        except Unanswered as error:
            raise ValueError(f"-k {expression!r}: pytest does not take it: {error}") from None
