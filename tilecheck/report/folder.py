"""The files of a report, in a folder of their own; nobody ever sees half of one."""

import json
from pathlib import Path

from tilecheck import __version__, files
from tilecheck.files import shown
from tilecheck.report.assembly import assemble
from tilecheck.report.codec import WrongForm, from_plain, to_json
from tilecheck.report.journal import FILE as JOURNAL
from tilecheck.report.journal import read_events
from tilecheck.report.model import SCHEMA, Report
from tilecheck.report.rendering import with_link
from tilecheck.report.summary import summary

PAGE, SUMMARY, RESULTS = "index.html", "summary.md", "results.json"

TREND = "trend.html"
"""The page of the nights on record, where somebody lays it beside them."""

MARK = '<meta name="generator" content="tilecheck'
"""In each page of ours, near its beginning."""

_FILES = (PAGE, TREND, SUMMARY, RESULTS, JOURNAL)
"""All that we write into a folder."""

INSTALL = "pip install jinja2 matplotlib"


class ReportError(ValueError):
    """A report that cannot be read or written; the text is one line: what, why, what to do."""


def missing_extra() -> str | None:
    """What index.html needs and is not installed, in one line; None: all is there."""
    from importlib.util import find_spec

    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if not missing:
        return None
    verb = "is" if len(missing) == 1 else "are"
    return f"{' and '.join(missing)} {verb} not installed; {INSTALL}, or install the extra `report`"


def claim(folder: Path) -> None:
    """Makes the folder; what is in it stays, so that a report made anew there is not lost if that fails.

    Raises ReportError where it cannot be made, or holds something else.
    """
    where = shown(folder)
    try:
        if folder.exists() and not folder.is_dir():
            raise ReportError(f"{where} is a file; a report is a folder")
        if next(folder.glob("*.py"), None) is not None:
            raise ReportError(f"{where} holds Python files; give a folder of its own to a report")
        for name in _FILES:
            _require_file(folder / name)
        for name in (PAGE, TREND):
            require_ours(folder / name)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReportError(f"{where}: {error.strerror or error}") from error


def prepare(folder: Path) -> None:
    """As `claim`, for a run: clears the report of an earlier one out of the folder.

    Raises ReportError where it cannot be written to, too.
    """
    claim(folder)
    try:
        for name in _FILES:
            (folder / name).unlink(missing_ok=True)
        (folder / JOURNAL).touch()
    except OSError as error:
        raise ReportError(f"{shown(folder)}: {error.strerror or error}") from error


def write(report: Report, folder: Path) -> None:
    """Writes all three files, results.json first: if the others cannot be made, nothing is lost.

    Raises ReportError where one cannot be written.
    """
    replace(folder / RESULTS, f"{to_json(report, indent=1)}\n")
    replace(folder / SUMMARY, summary(report))

    from tilecheck.report.page import page

    replace(folder / PAGE, page(report))
    (folder / JOURNAL).unlink(missing_ok=True)


def link_trend(folder: Path) -> None:
    """Lets index.html lead to trend.html, which lies beside it by now: no link ever leads to nothing.

    Without an index.html there is nothing to do. Raises ReportError where it cannot be written.
    """
    page = folder / PAGE
    try:
        _require_file(page)
        text = page.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise ReportError(f"{shown(page)}: {error.strerror or error}") from error
    linked = with_link(text, TREND, "Trend")
    if linked != text:
        replace(page, linked)


def require_ours(page: Path) -> None:
    """Raises ReportError where there is such a file that we did not write."""
    _require_file(page)
    if page.exists() and MARK not in page.read_text(encoding="utf-8", errors="replace")[:2000]:
        raise ReportError(
            f"{page.name} in {shown(page.parent)} is no report of tilecheck's; name another folder"
        )


def _require_file(path: Path) -> None:
    """Raises ReportError where something else is there, as a named pipe, for whose end one would wait."""
    if path.exists() and not path.is_file():
        raise ReportError(f"{shown(path)} is no regular file; remove it, or name another folder")


def read(path: Path) -> Report:
    """The report in a folder, or in a file results.json; out of what a run left behind if it died.

    Raises ReportError.
    """
    file = path
    try:
        if path.is_dir():
            file = path / RESULTS
            for name in (RESULTS, JOURNAL):
                _require_file(path / name)
            if not file.exists() and (path / JOURNAL).exists():
                return read_journal(path)
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{shown(file)}: {error.strerror or error}; pytest --report writes it") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{shown(file)} is no JSON: {error}") from error
    if not isinstance(content, dict) or "schema" not in content:
        raise ReportError(f"{shown(file)} is no report: it names no schema")
    if content["schema"] != SCHEMA:
        raise ReportError(
            f"{shown(file)} has schema {content['schema']!r}, "
            f"and this tilecheck reads {SCHEMA}: write it anew"
        )
    try:
        return from_plain(Report, content, "the whole")
    except WrongForm as error:
        writer = content.get("tilecheck")
        if isinstance(writer, str) and writer != __version__:
            raise ReportError(
                f"{shown(file)} is of tilecheck {writer!r}, and this is {__version__}, which does not know "
                f"it: {error}; take that tilecheck, or write it anew"
            ) from error
        raise ReportError(f"{shown(file)} is no report: {error}") from error


def read_journal(folder: Path, died: float = 0.0) -> Report:
    """The report of a run that died, so many seconds after its start.  Raises ReportError."""
    try:
        return assemble([*read_events(folder), {"event": "death", "at": died}])
    except (OSError, WrongForm) as error:
        raise ReportError(f"{shown(folder / JOURNAL)}: {error}") from error


def replace(path: Path, text: str) -> None:
    """Writes a file whole or not at all.  Raises ReportError."""
    try:
        files.replace(path, text)
    except OSError as error:
        raise ReportError(f"{shown(path)} was not written: {error.strerror or error}") from error
