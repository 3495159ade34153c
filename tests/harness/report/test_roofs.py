"""What a GPU was seen to reach, by the rows of a report."""

from dataclasses import replace

from tilecheck.report.model import Case, Kernel, Latency
from tilecheck.report.roofs import FAR_PAST_L2, Point, Roof, measured, points_of

RATED = (1000e12, 4e12)
ROW = Latency("row", "matmul", "row", "NVIDIA H200", median=1.0, peak_flops=RATED[0], peak_bytes=RATED[1])


def point(seconds: float, flops: float, moved: float, **vendors: float) -> Point:
    return Point(replace(ROW, median=seconds, vendors=vendors), "float16", flops, moved)


def test_roofs_are_the_most_that_any_row_or_its_vendor_reached() -> None:
    products = [point(1.0, 500e12, 1e9), point(2.0, 1400e12, 1e9, cublas=1.75)]
    copies = [point(1.0, 1e9, 3e12, torch=1.5), point(1.0, 1e9, 2e12)]
    assert measured(products + copies) == {RATED: Roof(800e12, 3e12)}
    assert measured(copies) == {RATED: Roof(None, 3e12)}


def test_what_l2_may_have_kept_is_no_measure_of_memory() -> None:
    assert measured([point(1e-4, 1.0, FAR_PAST_L2 - 1)]) == {RATED: Roof(None, None)}


def test_memory_is_one_for_all_types_and_tensor_cores_are_not() -> None:
    half = Point(replace(ROW, peak_flops=500e12, median=1.0), "float32", 300e12, 1e9)
    found = measured([half, point(1.0, 1e9, 3e12), point(1.0, 900e12, 1e9)])
    assert found == {RATED: Roof(900e12, 3e12), (500e12, 4e12): Roof(300e12, 3e12)}


def test_rows_without_cost_or_roof_have_no_place() -> None:
    kernel = Kernel("matmul", "", (Case("row", "float16", flops=1.0, bytes=2.0), Case("free", "float16")))
    rows = [ROW, replace(ROW, case="free"), replace(ROW, case="gone"), replace(ROW, peak_flops=None)]
    assert [each.row for each in points_of(kernel, rows)] == [ROW]
