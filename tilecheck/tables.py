"""Tables of text."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int]) -> list[str]:
    """Lines of cells below each other; the columns of `right` end below each other."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
