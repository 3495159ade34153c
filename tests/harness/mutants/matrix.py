"""Prints the kill matrix: which check rejects which mutant.

    python -m tests.harness.mutants                    each mutant up to its first rejection
    python -m tests.harness.mutants --all --csv FILE   every mutant on every case that the simulator runs
    python -m tests.harness.mutants --device cuda      on this machine's GPU, with those that only it shows

`--kernel` and `--mutant` choose. The exit status is 1 where a mutant survives. A mutant that only a GPU shows
is tried on the rows it names, and counts as a survivor only there.
"""

import argparse
import csv
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from tests.harness.mutants import engine
from tests.harness.mutants.catalogue import KERNELS, MUTANTS, named
from tests.harness.mutants.engine import Mutant, Result
from tilecheck.arches import arch
from tilecheck.device import Device, Simulator

T = TypeVar("T")

GPU_SEEDS = tuple(range(20))
"""Draws that a mutant is tried with on a GPU: whether a race shows differs from launch to launch."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; `arguments` are those of the process if None. Returns the exit status."""
    options = _options(arguments)
    chosen = [m for m in MUTANTS if m.kernel in options.kernel and options.mutant in (None, m.id)]
    if options.device == "simulator":
        chosen = [m for m in chosen if not m.unseen]
    write = sys.stdout.write
    write(f"{'mutant':52} {'rows':>9}  caught by\n")
    tried: dict[str, list[Result]] = {}
    for mutant, results in zip(chosen, _tried(chosen, options), strict=True):
        tried[mutant.name] = results
        write(_line(mutant, results) + "\n")
        sys.stdout.flush()
    write("\n" + "\n".join(_summary(chosen, tried)) + "\n")
    if options.csv:
        _write_csv(options.csv, tried)
    return int(any(not _caught(results) for results in tried.values()))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.mutants", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="every case, under the default schedule, not only up to the first that rejects",
    )
    parser.add_argument("--kernel", nargs="*", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--mutant", help="id of one")
    parser.add_argument("--device", choices=("simulator", "cuda"), default="simulator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes; a GPU is used by one")
    parser.add_argument("--csv", type=Path, help="where to write a line for each mutant and row")
    return parser.parse_args(arguments)


def _tried(mutants: list[Mutant], options: argparse.Namespace) -> Iterable[list[Result]]:
    attempt = partial(_try, device_name=options.device, every_row=options.all, seed=options.seed)
    names = [mutant.name for mutant in mutants]
    if options.device == "cuda":
        yield from one_process_after_another(attempt, names, _lost)
    elif options.jobs == 1:
        yield from map(attempt, names)
    else:
        with _processes(options.jobs) as pool:
            yield from pool.map(attempt, names)


def one_process_after_another(
    attempt: Callable[[str], T], names: Iterable[str], lost: Callable[[], object]
) -> Iterator[T]:
    """What `attempt` makes of each name, in a process: a new one each time that the last one is `lost`."""
    pool: ProcessPoolExecutor | None = None
    try:
        for name in names:
            pool = pool or _processes(1)
            yield pool.submit(attempt, name).result()
            if pool.submit(lost).result():
                pool.shutdown()
                pool = None
    finally:
        if pool:
            pool.shutdown()


def tried_alone(name: str, device_name: str) -> list[Result]:
    """What the rows say of the mutant, from a process of its own, which it may cost the CUDA context."""
    with _processes(1) as pool:
        return pool.submit(_try, name, device_name, every_row=False, seed=0).result()


def _processes(number: int) -> ProcessPoolExecutor:
    # TileLang's threads do not survive a fork.
    return ProcessPoolExecutor(number, multiprocessing.get_context("spawn"))


def _lost() -> str | None:
    """Why nothing runs on the GPU any more in this process."""
    return device_of("cuda").lost


def _try(name: str, device_name: str, every_row: bool, seed: int) -> list[Result]:
    """What the rows say of the mutant, up to the first rejection or to the last row."""
    mutant, device = named(name), device_of(device_name)
    if mutant.unseen:
        rejection, before = engine.first_rejection(mutant, device, GPU_SEEDS)
    elif not every_row:
        rejection, before = engine.first_rejection(mutant, device, (seed,))
    else:
        with engine.spec_of(mutant) as spec:
            rows = (*engine.named_rows(spec, device.arch, mutant.first), *engine.default_rows(spec))
            once = {row.id: row for row in rows}
            return [engine.try_row(spec, row, device, seed) for row in once.values()]
    return before + ([rejection] if rejection else [])


@cache
def device_of(name: str) -> Device:
    if name == "cuda":
        from tilecheck.launch import Cuda

        return Cuda()
    return Simulator(arch("sm_90a"))


def _caught(results: list[Result]) -> list[Result]:
    return [result for result in results if result.caught_by]


def _line(mutant: Mutant, results: list[Result]) -> str:
    caught = _caught(results)
    checks = Counter(check for result in caught for check in result.caught_by)
    by = ", ".join(f"{check} {count}" if len(caught) > 1 else check for check, count in checks.most_common())
    if not caught:
        by = "SURVIVES"
    elif len(caught) == 1:
        by += f" ({caught[0].row})"
    if unusable := [result for result in results if result.unusable]:
        by += f"; {len(unusable)} rows without a verdict: {unusable[0].unusable.splitlines()[0][:80]}"
    return f"{mutant.name:52} {f'{len(caught)}/{len(results)}':>9}  {by}"


def _summary(mutants: list[Mutant], tried: dict[str, list[Result]]) -> Iterator[str]:
    """Mutants by kernel and by the check that is the first to reject them."""
    first: dict[str, Counter[str]] = {kernel: Counter() for kernel in KERNELS}
    for mutant in mutants:
        caught = _caught(tried[mutant.name])
        first[mutant.kernel][caught[0].caught_by[0] if caught else "SURVIVES"] += 1
    kernels = [kernel for kernel in KERNELS if first[kernel]]
    checks = [check for check, _ in sum(first.values(), Counter()).most_common()]
    yield f"{'first rejected by':20}" + "".join(f"{kernel:>18}" for kernel in kernels) + f"{'all':>6}"
    for check in [*checks, "all"]:
        counts = [first[k].total() if check == "all" else first[k][check] for k in kernels]
        yield f"{check:20}" + "".join(f"{count or '':>18}" for count in counts) + f"{sum(counts):>6}"


def _write_csv(path: Path, tried: dict[str, list[Result]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("mutant", "row", "caught by", "no verdict"))
        for name, results in tried.items():
            table.writerows(
                (name, r.row, "+".join(r.caught_by), r.unusable.partition("\n")[0]) for r in results
            )
