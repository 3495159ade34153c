"""trend.html: the page of all nights, in a folder of its own or beside a report."""

from collections.abc import Mapping
from pathlib import Path

from tilecheck.files import shown
from tilecheck.nightly.history import Past, all_models
from tilecheck.nightly.trendpage import trend_page
from tilecheck.report.folder import PAGE, TREND, ReportError, link_trend, replace, require_ours


def read_history(folder: Path) -> dict[str, Past]:
    """The nights of each GPU model.  Raises ReportError where there is no such folder."""
    try:
        return all_models(folder)
    except OSError as error:
        raise ReportError(
            f"{shown(folder)}: {error.strerror or error}; tilecheck nightly keeps it"
        ) from error


def write_trend(pasts: Mapping[str, Past], folder: Path, project: str = "") -> str:
    """Writes the page of all nights into a folder; what it says, in a line.

    If a report lies there, its first page leads to this one as soon as it is written.
    Raises ReportError where one of them cannot be written.
    """
    page = folder / TREND
    require_ours(page)
    text, words = trend_page(pasts, project, beside=(folder / PAGE).exists())
    replace(page, text)
    link_trend(folder)
    return words
