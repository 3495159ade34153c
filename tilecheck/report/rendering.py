"""Pages by Jinja2: one file each, with all that it needs in it. Whatever comes from a run is escaped."""

import base64
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from tilecheck.latency.gate import seconds as in_seconds
from tilecheck.report.model import Test
from tilecheck.report.overview import moment, share, short, took

_PACKAGE, _TEMPLATES = "tilecheck.report", "templates"

LATER = "<!-- later -->"
"""In a page that is written, where a link to one that is made after it can go."""


@dataclass(frozen=True)
class Plot:
    """svg: the element, safe as it is.  caption: how to read it."""

    svg: str
    caption: str


def render(template: str, package: str = _PACKAGE, /, **shown: Any) -> str:
    """The page that a template makes of what it is given.

    package: whose the template is; the frame and the macros that it builds on are ours.
    """
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _resource(name, package if name == template else _PACKAGE)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        clock=_clock,
        day=_day,
        message=_message,
        minute=_minute,
        moment=moment,
        number=_number,
        percent=_percent,
        seconds=in_seconds,
        share=share,
        short=short,
        signed=_signed,
        took=took,
    )
    script = _resource("report.js")
    environment.globals.update(
        markup=Markup,  # of our own files and plots alone
        style=_resource("report.css"),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    text: str = environment.get_template(template).render(**shown)
    return text


def with_link(page: str, file: str, title: str) -> str:
    """A page with a link to a file beside it, among those to its parts; as it is where no place was kept.

    What a run says holds no such place: it is escaped, and stands below.
    """
    return page.replace(LATER, f'<li><a href="{file}">{title}</a></li>', 1)


def _resource(name: str, package: str = _PACKAGE) -> str:
    return files(package).joinpath(f"{_TEMPLATES}/{name}").read_text(encoding="utf-8")


def _message(test: Test) -> str:
    """What a test said, without the command, which stands below it."""
    head, _, last = test.message.rstrip().rpartition("\n")
    return head if test.repeat and last.strip() == f"repeat: {test.repeat}" else test.message


def _percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value * 100:.{digits}f} %"


def _signed(value: float | None, digits: int = 1) -> str:
    """A change, in per cent; nothing that is to be read as less than zero if it is none."""
    return "" if value is None else f"{round(value * 100, digits) + 0.0:+.{digits}f} %"


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _clock(value: float | None) -> str:
    """A time span as a clock counts it: "3:07", "1:02:00"."""
    if value is None:
        return ""
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _day(iso: str) -> str:
    """The day of a time; anything else as it is."""
    day, t, time = iso.partition("T")
    return day if t and time.endswith("+00:00") else iso


def _minute(iso: str) -> str:
    """A time in UTC without saying so: "2026-01-31 14:05"; anything else as it is."""
    return moment(iso).removesuffix(" UTC")
