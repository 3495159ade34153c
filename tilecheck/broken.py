"""A package that cannot be imported, told in one line. Needs nothing beyond the standard library itself."""

import traceback

from tilecheck.gist import gist

_PACKAGES = {"torch": "torch", "tilelang": "TileLang"}

_NEEDED = ("filelock", "iniconfig", "numpy", "packaging", "pynvml", "pytest", "tomli", "tqdm", *_PACKAGES)


def broken_import(error: BaseException) -> str | None:
    """What to say of an error that ended the import of torch or TileLang, or for want of a package that
    tilecheck requires, as under a Python that it was not installed for; None of any other.
    """
    if isinstance(error, ModuleNotFoundError) and error.name in _NEEDED:
        mend = "pip install -e . in tilecheck's checkout mends it"
        return f"{error.name} is not installed for this Python; {mend}"
    return broken_package(error)


def broken_package(error: BaseException) -> str | None:
    """What to say of an error that ended the import of torch or TileLang; None of any other."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        package = _PACKAGES.get(frame.f_globals.get("__name__", ""))
        if package is not None and frame.f_code.co_name == "<module>":
            return f"{package} cannot be imported: {gist(error)}; tilecheck doctor says what mends it"
    return None
