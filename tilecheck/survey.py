"""Runs every row of a module of specs in a process of its own and prints what became of each:

    python -m tilecheck.survey public_bugs --path tests --ledger tests/known_issues.toml

So a ledger is filled for a new version of TileLang. Exit code 0 where every row is as the ledger says.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tilecheck import environment
from tilecheck.arches import DEFAULT_ARCH, arch_of_capability
from tilecheck.counting import many
from tilecheck.gpus import cores
from tilecheck.isolation import COMPILE_SECONDS, Report, run_isolated
from tilecheck.ledger import Known, read_ledger
from tilecheck.loading import load_specs

RIGHT = "right"


@dataclass(frozen=True)
class Found:
    """row: test id.  expected: what may come out.  found: what did.  Each is `right`, or a symptom.
    message: of what was found.
    """

    row: str
    expected: tuple[str, ...]
    found: str
    message: str

    @property
    def ok(self) -> bool:
        return self.found in self.expected


def survey(
    module: str,
    rows: Sequence[str],
    known: Sequence[Known],
    device: str,
    jobs: int,
    compile_seconds: float = COMPILE_SECONDS,
) -> list[Found]:
    """What became of each row, `jobs` at a time."""
    version = environment.version("tilelang") or "0"
    arch = _arch(device)

    def one(row: str) -> Found:
        report = run_isolated([module], row, device=device, compile_seconds=compile_seconds)
        entry = next((k for k in known if k.fits(row, device, arch, version)), None)
        return Found(row, _expected(entry), _symptom(report), report.message)

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, rows))


def _expected(entry: Known | None) -> tuple[str, ...]:
    if entry is None:
        return (RIGHT,)
    return (entry.symptom,) if entry.strict else (entry.symptom, RIGHT)


def _symptom(report: Report) -> str:
    return report.symptom or RIGHT


def _arch(device: str) -> str:
    capability = environment.machine().capability
    if device == "simulator" or capability is None:
        return DEFAULT_ARCH
    return arch_of_capability(*capability).name


def table(found: Iterable[Found]) -> list[str]:
    """A line for each row, and one for what it said if it was not right."""
    lines = []
    for row in found:
        mark = "  " if row.ok else "* "
        lines.append(f"{mark}{row.row:32} {row.found:14} expected {' or '.join(row.expected)}")
        told = [line for line in row.message.splitlines() if line.strip()]
        lines += [f"      {line[:160]}" for line in told[-3:]]
    return lines


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tilecheck.survey")
    parser.add_argument("module", help="that holds the specs, as the ini option tilecheck_specs names it")
    parser.add_argument("--path", action="append", default=[], help="where the module is")
    parser.add_argument("--ledger", type=Path, help="what is expected")
    parser.add_argument("--device", choices=("cuda", "simulator"), default="cuda")
    parser.add_argument("--jobs", type=int, default=cores())
    parser.add_argument("-k", dest="part", default="", help="rows whose id holds this")
    given = parser.parse_args(arguments)
    sys.path[:0] = [str(Path(path).resolve()) for path in (".", *given.path)]
    rows = [spec.test_id(case) for spec in load_specs([given.module]) for case in spec.cases]
    known = read_ledger(given.ledger) if given.ledger else ()
    found = survey(given.module, [r for r in rows if given.part in r], known, given.device, given.jobs)
    unexpected = sum(not row.ok for row in found)
    sys.stdout.write(
        "\n".join([*table(found), f"{many(len(found), 'row')}, {unexpected} not as expected", ""])
    )
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
