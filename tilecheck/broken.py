"""A package that is there and cannot be imported, told in one line. Imports neither torch nor TileLang."""

import traceback

from tilecheck.gist import gist

_PACKAGES = {"torch": "torch", "tilelang": "TileLang"}


def broken_import(error: BaseException) -> str | None:
    """What to say of an error that ended the import of torch or TileLang; None of any other."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        package = _PACKAGES.get(frame.f_globals.get("__name__", ""))
        if package is not None and frame.f_code.co_name == "<module>":
            return f"{package} cannot be imported: {gist(error)}; tilecheck doctor says what mends it"
    return None
