"""Does the docstring of each package name its modules, so that whoever opens it finds the right one?"""

import ast
import re
from pathlib import Path

import pytest

import tilecheck
from tilecheck.cli import COMMANDS

ROOT = Path(tilecheck.__file__).parent
PACKAGES = sorted(path.parent for path in ROOT.rglob("__init__.py"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT.parent)))
def test_every_module_is_on_the_map(package: Path) -> None:
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    named = set(re.findall(r"\w+", text or ""))
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    packages = {path.parent.name for path in package.glob("*/__init__.py")}
    if package.name == "cli":  # there, a command is found by its name
        modules -= {name.replace("-", "_") for name in COMMANDS}
    assert not sorted((modules | packages) - named)
