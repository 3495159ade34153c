"""Facts of rows with another version of TileLang, computed by a child in an environment that has it."""

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tilecheck.cli.output import Progress, note, stdout_kept
from tilecheck.codegen import find_toolchain
from tilecheck.codegen.batch import Row, compile_rows
from tilecheck.codegen.collection import Collection, as_json, parse
from tilecheck.project import find_project
from tilecheck.versions import NoEnvironment, environment_with


def collect_with(
    version: str, root: Path, rows: Sequence[Row], jobs: int, told: Callable[[str], None]
) -> Collection:
    """The facts of `rows`, of the project in `root`, with TileLang `version`.

    told: called with a line before anything that takes long.
    Raises NoEnvironment, in one line, where that version cannot be had or does not run here.
    """
    environment = environment_with(version, told)
    task = {"root": str(root), "jobs": jobs, "rows": [dataclasses.asdict(row) for row in rows]}
    ran = environment.run(["-m", __name__], json.dumps(task))
    if ran.returncode != 0:
        raise NoEnvironment(
            f"{environment.python} did not get through (exit code {ran.returncode}); its last line says why"
        )
    found = parse(ran.stdout, f"output of {environment.python}")
    for toolchain in found.toolchains.values():
        if toolchain["tilelang"].partition("+")[0] != version.partition("+")[0]:
            raise NoEnvironment(
                f"{environment.python} imports TileLang {toolchain['tilelang']}, not {version}: "
                "is another one on PYTHONPATH?"
            )
    return found


def main() -> None:
    """The child."""
    task = json.load(sys.stdin)
    with stdout_kept():
        root, rows, jobs = Path(task["root"]), [Row(**row) for row in task["rows"]], int(task["jobs"])
        outcomes = compile_rows(root, find_project(root).specs(), rows, jobs, Progress(len(rows), jobs))
        text = as_json(outcomes, find_toolchain().fingerprint)
    sys.stdout.write(text)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, RuntimeError) as error:
        note(str(error))
        sys.exit(2)
    except KeyboardInterrupt:  # the parent's too, which says so
        sys.exit(130)
