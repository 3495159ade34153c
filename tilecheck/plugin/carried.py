"""What pytest's reports of tests carry: what tests leave as user properties, and the reasons of skips."""

from typing import Any


def carried(report: Any, name: str) -> list[str]:
    """The values of the user properties of this name, of a report or of a test; a module that skips itself
    has none.
    """
    return [str(value) for each, value in getattr(report, "user_properties", ()) if each == name]


def carried_by_call(report: Any, name: str) -> list[str]:
    """The same of the report on a test's call; those on its set-up and tear-down carry them, too."""
    return carried(report, name) if getattr(report, "when", None) == "call" else []


def reason_of_skip(report: Any) -> str:
    """Why a test was skipped, as its report has it."""
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
