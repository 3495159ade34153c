"""Which TileLang is the newest that can be had: a nightly build, else a release."""

import json
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from tilecheck.askpip import Pip, run_pip
from tilecheck.versions import nightly_options


@dataclass(frozen=True)
class Newest:
    """version: "" where there is none to compare with.  index: the page that it is from; "": pip's own.
    words: what was found, and what it fell back from.
    """

    version: str
    index: str
    words: str


class NoVersion(ValueError):
    """What is wanted is no version; the text is one line."""


def require_wanted(wanted: str) -> None:
    """Raises NoVersion unless it is "auto", "off", or a version."""
    if wanted in ("auto", "off"):
        return
    try:
        Version(wanted)
    except InvalidVersion:
        raise NoVersion(f"{wanted!r} is no version of TileLang; give auto, off, or one as 0.1.14") from None


def newest(wanted: str, index: str, pinned: str, pip: Pip | None = None) -> Newest:
    """The version to compare with the pinned one.

    wanted: "auto", "off", or a version, which is taken as it is.  index: the page of nightly builds; "":
    none.  Raises NoVersion.
    """
    require_wanted(wanted)
    if wanted == "off":
        return Newest("", "", "not asked for: there is nothing to compare")
    if wanted != "auto":
        return _unless(wanted, index, pinned, f"TileLang {wanted}, as asked for")
    pip = pip or run_pip
    fell_back = ""
    if index:
        version = _found(pip([*_QUESTION, *nightly_options(index), "--no-index", "tilelang"]))
        if version:
            return _unless(version, index, pinned, f"TileLang {version}, the newest nightly build")
        fell_back = "fell back from nightly builds, of which pip reaches none: "
    version = _found(pip([*_QUESTION, "tilelang"]))
    if version:
        return _unless(version, "", pinned, f"{fell_back}TileLang {version}, the newest release")
    fell_back = fell_back or "fell back: "
    return Newest(
        "", "", f"{fell_back}pip finds no release of TileLang; the pinned {pinned} is compared with nothing"
    )


def _unless(version: str, index: str, pinned: str, words: str) -> Newest:
    if _same(version, pinned):
        return Newest("", "", f"{words}, is the pinned one: there is nothing to compare")
    return Newest(version, index, words)


def _same(version: str, pinned: str) -> bool:
    try:
        return Version(version) == Version(pinned)
    except InvalidVersion:
        return version == pinned


_QUESTION = (
    *("install", "--dry-run", "--ignore-installed", "--no-deps", "--no-input", "--quiet"),
    *("--disable-pip-version-check", "--retries", "1", "--report", "-"),
)


def _found(answer: tuple[int, str]) -> str:
    """The version that pip would install; "" if none."""
    code, text = answer
    if code != 0:
        return ""
    try:
        (each,) = json.loads(text)["install"]
        return str(each["metadata"]["version"])
    except (ValueError, KeyError, TypeError):
        return ""
