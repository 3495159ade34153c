"""Small plots that stand in cells of tables: paths of SVG in whole numbers, some two bytes a number, so that
a page carries hundreds of them. Pure.

A picture is `WIDTH` by `HEIGHT`, with x from the first night to the last and y downwards.
"""

import math
from collections.abc import Iterable, Sequence

WIDTH, HEIGHT = 1800, 300

Point = tuple[int, int]


def across(count: int) -> list[int]:
    """Where so many nights stand, the last one at the right edge."""
    return [WIDTH] if count == 1 else [round(i * WIDTH / (count - 1)) for i in range(count)]


def heights(values: Iterable[float | None], low: float, high: float) -> list[int | None]:
    """Where values stand, `high` at the top; what lies outside stands at the edge."""
    unit = (high - low) / HEIGHT
    return [
        None if value is None or math.isnan(value) else round((high - min(max(value, low), high)) / unit)
        for value in values
    ]


def line(xs: Sequence[int], ys: Sequence[int | None]) -> str:
    """A line through the points that are there, broken where one is missing; one without neighbours is a
    dot, if its ends are round.
    """
    return "".join(_stroke(points) for points in _joined(xs, ys))


def area(xs: Sequence[int], lower: Sequence[int | None], upper: Sequence[int | None]) -> str:
    """What lies between two lines, which have their gaps at the same places."""
    parts = []
    for below, above in zip(_joined(xs, lower), _joined(xs, upper), strict=True):
        if len(below) > 1:
            parts.append(f"{_stroke([*below, *reversed(above)])}z")
    return "".join(parts)


def dots(points: Iterable[Point]) -> str:
    """A dot at each point, if the ends of lines are round."""
    return "".join(_stroke([point]) for point in points)


def strip(places: Iterable[int], count: int, thin: bool = False) -> str:
    """Bars over the given ones of so many places, in a picture of `WIDTH` by 1; neighbours are joined.

    thin: a line at half the height instead.
    """
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][1] == place:
            runs[-1][1] = place + 1
        else:
            runs.append([place, place + 1])
    edges = [[round(end * WIDTH / count) for end in run] for run in runs]
    if thin:
        return "".join(f"M{left} .5H{right}" for left, right in edges)
    return "".join(f"M{left} 0H{right}V1H{left}z" for left, right in edges)


def _joined(xs: Sequence[int], ys: Sequence[int | None]) -> list[list[Point]]:
    """Points that follow each other without a gap, group by group."""
    groups: list[list[Point]] = [[]]
    for x, y in zip(xs, ys, strict=True):
        if y is None:
            groups.append([])
        else:
            groups[-1].append((x, y))
    return [group for group in groups if group]


def _stroke(points: Sequence[Point]) -> str:
    """Through the points, each relative to the one before; what lies on the way is left out."""
    (x, y), *rest = points
    start = f"M{x} {y}"
    if not rest:
        return f"{start}h0"
    moves: list[Point] = []
    for next_x, next_y in rest:
        moves.append((next_x - x, next_y - y))
        x, y = next_x, next_y
    level: list[Point] = []
    for dx, dy in moves:
        if level and dy == 0 == level[-1][1] and dx * level[-1][0] > 0:
            level[-1] = (level[-1][0] + dx, 0)
        else:
            level.append((dx, dy))
    return f"{start}l{' '.join(f'{dx} {dy}' for dx, dy in level)}".replace(" -", "-")
