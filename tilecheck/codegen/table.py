"""Facts as a table for people, at most `WIDTH` columns wide."""

import textwrap
from collections.abc import Sequence

from tilecheck.codegen.batch import Outcome
from tilecheck.codegen.facts import Facts

WIDTH = 110

TENSOR_CORES = ("HGMMA", "UTCMMA", "QGMMA", "IGMMA", "HMMA", "QMMA", "OMMA", "IMMA", "DMMA")
BULK_LOADS, BULK_STORES = ("UTMALDG", "UBLKCP"), ("UTMASTG", "UTMAREDG", "UBLKRED")

COLUMNS = (
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
"""What is told of each row's code."""

_HEAD = ("case", "arch", *COLUMNS)
_LEFT = ("case", "arch", "tensor", "copies", "ld/stmatrix", "ld/st bits")


def table(outcomes: Sequence[Outcome]) -> str:
    """A head, and below it for each kernel its rows; one that does not compile has its reason below it."""
    rows = [_cells(outcome) for outcome in outcomes]
    widths = [
        max(len(row[column]) for row in (_HEAD, *rows) if column < len(row)) for column in range(len(_HEAD))
    ]
    gap = "  " if sum(widths) + 2 * len(widths) <= WIDTH else " "
    lines = [_line(_HEAD, widths, gap)]
    kernel = None
    for outcome, row in zip(outcomes, rows, strict=True):
        if outcome.row.kernel != kernel:
            kernel = outcome.row.kernel
            lines.append(kernel)
        if outcome.facts is not None:
            lines.append(_line(row, widths, gap))
        else:
            lines.append(f"{_line(row, widths, gap)}{gap}does not compile:")
            lines += textwrap.wrap(
                outcome.error,
                WIDTH,
                initial_indent=" " * 6,
                subsequent_indent=" " * 6,
                break_on_hyphens=False,
            )
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int], gap: str) -> str:
    cells = (
        cell.ljust(width) if name in _LEFT else cell.rjust(width)
        for name, cell, width in zip(_HEAD, row, widths, strict=False)
    )
    return ("  " + gap.join(cells)).rstrip()


def _cells(outcome: Outcome) -> tuple[str, ...]:
    """One for each column; only the first two of a row that does not compile."""
    name = (outcome.row.case, outcome.row.arch)
    return name if outcome.facts is None else (*name, *cells(outcome.facts))


def cells(facts: Facts) -> tuple[str, ...]:
    """The columns `COLUMNS` of one row."""
    return (
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
