"""Small plots: what a path says, read back."""

import math
import re

import pytest

from tilecheck.report import sparks


def points_of(path: str) -> list[list[tuple[int, int]]]:
    """The points of each stroke of a path of `line` or `dots`."""
    strokes = []
    for start, moves in re.findall(r"M(\S+ \S+?)(?:l|h)([^M]*)", path):
        x, y = map(int, start.split())
        points = [(x, y)]
        numbers = [int(n) for n in re.findall(r"-?\d+", moves)]
        for dx, dy in zip(numbers[::2], numbers[1::2], strict=False):
            x, y = x + dx, y + dy
            points.append((x, y))
        strokes.append(points)
    return strokes


def test_line_goes_through_its_points_and_breaks_at_gaps() -> None:
    xs, ys = [0, 10, 20, 30, 40, 50], [100, 90, None, 120, None, 5]
    assert points_of(sparks.line(xs, ys)) == [[(0, 100), (10, 90)], [(30, 120)], [(50, 5)]]
    assert sparks.line([], []) == "" and sparks.line([1], [None]) == ""


def test_level_stretches_are_drawn_once() -> None:
    assert sparks.line([0, 10, 20, 30], [5, 5, 5, 6]) == "M0 5l20 0 10 1"
    assert sparks.line([0, 10, 5], [5, 5, 5]) == "M0 5l10 0-5 0", "there and back"


def test_nights_fill_the_width_with_the_last_at_the_right() -> None:
    assert sparks.across(1) == [sparks.WIDTH]
    assert sparks.across(3) == [0, sparks.WIDTH // 2, sparks.WIDTH]
    many = sparks.across(5000)
    assert many[0] == 0 and many[-1] == sparks.WIDTH and many == sorted(many)


def test_heights_stay_in_the_picture() -> None:
    found = sparks.heights([1.0, 0.0, 0.5, 7.0, -7.0, math.inf, None, math.nan], 0.0, 1.0)
    top, bottom = 0, sparks.HEIGHT
    assert found == [top, bottom, bottom // 2, top, bottom, top, None, None]


def test_area_lies_between_its_lines() -> None:
    assert sparks.area([0, 10], [30, 30], [10, 10]) == "M0 30l10 0 0-20-10 0z"
    assert sparks.area([0, 10], [30, None], [10, None]) == "", "one night has no area"


@pytest.mark.parametrize("thin", [False, True])
def test_neighbours_in_a_strip_are_one_bar(thin: bool) -> None:
    path = sparks.strip([0, 1, 2, 5], 6, thin)
    ends = [(int(left), int(right)) for left, right in re.findall(r"M(\d+) [.\d]+H(\d+)", path)]
    assert ends == [(0, sparks.WIDTH // 2), (sparks.WIDTH * 5 // 6, sparks.WIDTH)]
    assert sparks.strip([], 6, thin) == ""
