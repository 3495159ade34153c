"""Tells the report where each test belongs: a user property, which also comes from xdist's workers."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from tilecheck.plugin.carried import carried
from tilecheck.plugin.options import option
from tilecheck.plugin.rows import code_row_of, row_of

PLACE = "tilecheck-place"
"""Name of the user property of a test's report that holds its `Place`, as JSON."""

_MARKERS = ("codegen", "latency", "autotune", "debugging", "sanitizer", "correctness")
_OF_SCHEDULES = {"scheduled_case", "grid_case"}


@dataclass(frozen=True)
class Place:
    """section: one of `model.SECTIONS`.  row: id of the row, as tests have it; "" without.
    schedule: id of the variant.
    """

    section: str
    kernel: str = ""
    case: str = ""
    row: str = ""
    schedule: str = ""


def place_of(report: Any) -> Place | None:
    """The place of a test, or of the test of a report; None for one of a process that died."""
    return next((Place(**json.loads(text)) for text in carried(report, PLACE)), None)


def section_of(item: pytest.Item) -> str:
    """The section of a test."""
    if _OF_SCHEDULES & set(getattr(item, "fixturenames", ())):
        return "schedules"
    return next((name for name in _MARKERS if item.get_closest_marker(name)), "other")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if option(config, "report") is None:
        return
    for item in items:
        item.user_properties.append((PLACE, json.dumps(asdict(_place(item)))))


def _place(item: pytest.Item) -> Place:
    section = section_of(item)
    if row := row_of(item):
        schedule = row.variant.id if row.variant else ""
        return Place(section, row.spec.name, row.case.id, row.id, schedule)
    if code := code_row_of(item):
        return Place(section, code.spec.name, code.case.id, code.id)
    return Place(section)
