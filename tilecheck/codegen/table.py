"""Facts as a table for people, at most `WIDTH` columns wide."""

import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby

from tilecheck.codegen.batch import Outcome
from tilecheck.codegen.facts import Facts

WIDTH = 110

TENSOR_CORES = ("HGMMA", "UTCMMA", "QGMMA", "IGMMA", "HMMA", "QMMA", "OMMA", "IMMA", "DMMA")
BULK_LOADS, BULK_STORES = ("UTMALDG", "UBLKCP"), ("UTMASTG", "UTMAREDG", "UBLKRED")

_HEAD = (
    "case",
    "arch",
    "threads",
    "regs",
    "spills",
    "shared",
    "tensor",
    "copies",
    "ld/stmatrix",
    "ld/st bits",
    "cubin",
)
_LEFT = ("case", "arch", "tensor", "copies", "ld/stmatrix", "ld/st bits")

LEGEND = """\
columns of the table, a block's or a thread's:
  threads      of a block
  regs         registers of a thread
  spills       bytes a thread that registers spill, stored+loaded
  shared       bytes of shared memory of a block, static and dynamic
  tensor       instructions of the tensor cores
  copies       asynchronous copies from global memory: bulk (TMA) loads+stores, or cp.async
  ld/stmatrix  instructions that move tiles between shared memory and registers: ldmatrix+stmatrix
  ld/st bits   widths of a thread's plain loads / stores of global memory
  cubin        size in bytes
"""


def table(outcomes: Sequence[Outcome]) -> str:
    """A block of lines for each kernel; a row that does not compile has its reason below."""
    return "\n\n".join(
        "\n".join([kernel, *_block(list(rows))])
        for kernel, rows in groupby(outcomes, lambda outcome: outcome.row.kernel)
    )


def _block(outcomes: Sequence[Outcome]) -> Iterable[str]:
    cells = [_HEAD, *(_cells(o.row.case, o.row.arch, o.facts) for o in outcomes if o.facts is not None)]
    names = [(o.row.case, o.row.arch) for o in outcomes]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEAD))]
    for column in (0, 1):
        widths[column] = max(widths[column], *(len(name[column]) for name in names))
    gap = "  " if sum(widths) + 2 * len(widths) <= WIDTH else " "

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if name in _LEFT else cell.rjust(width)
            for name, cell, width in zip(_HEAD, row, widths, strict=False)
        )
        return ("  " + gap.join(padded)).rstrip()

    if len(cells) > 1:
        yield line(_HEAD)
    for outcome in outcomes:
        if outcome.facts is not None:
            yield line(_cells(outcome.row.case, outcome.row.arch, outcome.facts))
        else:
            yield line((outcome.row.case, outcome.row.arch)) + gap + "does not compile:"
            yield from textwrap.wrap(
                outcome.error, WIDTH - 6, initial_indent=" " * 6, subsequent_indent=" " * 6
            )


def _cells(case: str, arch: str, facts: Facts) -> tuple[str, ...]:
    return (
        case,
        arch,
        str(facts.threads),
        str(facts.registers),
        _pair(facts.spill_stores, facts.spill_loads) or "0",
        str(facts.static_shared + facts.dynamic_shared),
        " ".join(f"{name} {count}" for name in TENSOR_CORES if (count := facts.value(name))) or "-",
        _copies(facts),
        _pair(facts.value("LDSM"), facts.value("STSM")) or "-",
        f"{_widths(facts, 'LDG')}/{_widths(facts, 'STG')}",
        str(facts.cubin_bytes),
    )


def _copies(facts: Facts) -> str:
    bulk = _pair(*(sum(map(facts.value, names)) for names in (BULK_LOADS, BULK_STORES)))
    words = [f"bulk {bulk}"] if bulk else []
    if plain := facts.value("LDGSTS"):
        words.append(f"async {plain}")
    return " ".join(words) or "-"


def _pair(first: int, second: int) -> str:
    """The first, with the second after a plus if there is any; "" for neither."""
    if second:
        return f"{first}+{second}"
    return str(first) if first else ""


def _widths(facts: Facts, opcode: str) -> str:
    widths = {int(name.partition(".")[2]) for name in facts.instructions if name.startswith(f"{opcode}.")}
    return ",".join(map(str, sorted(widths, reverse=True))) or "-"
