"""Environments with another version of TileLang: all that this one has, with that version in front.

They lie below the user's cache folder, one for each version and each environment that is shared, and are made
once. pip installs nothing into them but TileLang and what it wants at versions of its own, never torch.
"""

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

import tilecheck
from tilecheck.files import user_cache

OLDEST = "0.1.14"
"""The first version of TileLang that programs can be traced with."""

_SHARED = "tilecheck-shared.pth"


class NoEnvironment(RuntimeError):
    """The environment cannot be made, or does not run; the text is one line."""


@dataclass(frozen=True)
class Environment:
    """A folder with a Python that imports TileLang `version`, and else what this one imports."""

    version: str
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, arguments: Sequence[str], given: str) -> subprocess.CompletedProcess[str]:
        """Runs its Python in the current folder, with `given` as standard input; standard output is kept, and
        standard error passed on.
        """
        command, variables = [str(self.python), *arguments], variables_of(self.python)
        return subprocess.run(
            command, env=variables, input=given, stdout=subprocess.PIPE, text=True, check=False
        )


def environment_with(version: str, told: Callable[[str], None], index: str = "") -> Environment:
    """The environment with TileLang `version`, made if it is not there.

    told: called with a line before anything that takes long.  index: a page of nightly builds, which are
    looked for there too.
    Raises NoEnvironment.
    """
    try:
        if Version(version) < Version(OLDEST):
            raise NoEnvironment(f"TileLang {version} is older than {OLDEST}, the oldest that is supported")
    except InvalidVersion:
        raise NoEnvironment(f"{version!r} is no version of TileLang, as 0.1.14 is") from None
    shared = _shared_folders()
    made = Environment(version, cache_folder() / f"tilelang-{version}-{_mark(shared)}")
    try:
        made.folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{made.folder}.lock"):
            if not _usable(made, shared):
                _make(made, shared, told, nightly_options(index) if index else [])
    except OSError as error:
        raise NoEnvironment(f"{made.folder}: cannot be made: {error}") from error
    return made


def nightly_options(index: str) -> list[str]:
    """pip's, to find builds of the page `index`."""
    return ["--pre", "--find-links", index]


def cache_folder() -> Path:
    """Where environments are kept: below the user's cache folder."""
    return user_cache() / "environments"


def _shared_folders() -> list[str]:
    """The folders of `sys.path` that hold installed packages."""
    folders = dict.fromkeys(str(Path(entry).resolve()) for entry in sys.path if entry)
    return [folder for folder in folders if any(Path(folder).glob("*.dist-info"))]


def _mark(shared: Sequence[str]) -> str:
    """Tells environments of one version apart, that share different ones."""
    text = "\n".join([sys.version, *shared])
    return (
        f"py{sys.version_info.major}{sys.version_info.minor}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    )


def _usable(made: Environment, shared: Sequence[str]) -> bool:
    """Whether the version is there, with all that it wants: what is shared may have changed since."""
    if not made.python.exists():
        return False
    path = [str(_packages(made.folder)), *shared]
    installed = {name: found for folder in reversed(path) for name, found in _distributions(folder)}
    tilelang = installed.get("tilelang")
    if tilelang is None or not SpecifierSet(f"=={made.version}").contains(tilelang.version, prereleases=True):
        return False
    wanted = [Requirement(line) for line in tilelang.requires or ()]
    return all(
        (found := installed.get(_plain(each.name))) is not None
        and each.specifier.contains(found.version, prereleases=True)
        for each in wanted
        if each.marker is None or each.marker.evaluate({"extra": ""})
    )


def _distributions(folder: str) -> Iterator[tuple[str, importlib.metadata.Distribution]]:
    for found in importlib.metadata.distributions(path=[folder]):
        yield _plain(found.metadata["Name"]), found


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _make(
    made: Environment, shared: Sequence[str], told: Callable[[str], None], options: Sequence[str]
) -> None:
    told(f"making an environment with TileLang {made.version} in {made.folder}; the next time it is there")
    folder = Path(tempfile.mkdtemp(prefix=".making-", dir=made.folder.parent))
    try:
        # pip comes from what is shared, if it is there.
        pip = ["--without-pip"] if any(Path(entry, "pip").is_dir() for entry in shared) else []
        _checked([sys.executable, "-m", "venv", *pip, str(folder)], "venv")
        # By addsitedir, and not as paths: packages that are installed in place have .pth files of their own.
        lines = [f"import site; site.addsitedir({entry!r})" for entry in shared]
        (_packages(folder) / _SHARED).write_text("\n".join(lines) + "\n")
        pins = folder / "constraints.txt"
        pins.write_text("".join(f"{name}=={version}\n" for name, version in _kept()))
        quiet = ["--disable-pip-version-check", "--no-input", "--quiet", "--no-warn-script-location"]
        wanted = ["--constraint", str(pins), f"tilelang=={made.version}"]
        _checked([str(folder / "bin" / "python"), "-m", "pip", "install", *quiet, *options, *wanted], "pip")
        shutil.rmtree(made.folder, ignore_errors=True)
        folder.rename(made.folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kept() -> Iterator[tuple[str, str]]:
    """What pip must not install another version of."""
    for name in ("torch",):
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue


def _packages(folder: Path) -> Path:
    """Where the environment in `folder` has its packages."""
    return Path(sysconfig.get_path("purelib", "posix_prefix", {"base": str(folder), "platbase": str(folder)}))


def _checked(command: Sequence[str], name: str) -> None:
    done = subprocess.run(
        command, env=variables_of(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()] or ["it said nothing"]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        raise NoEnvironment(f"{name} failed (exit code {done.returncode}): {(errors or lines)[-1]}")


def variables_of(python: str | Path = sys.executable) -> dict[str, str]:
    """Environment variables for a child that `python` runs: this process's, with tilecheck itself on the path
    where it is not installed.

    An environment of ours has all packages that are shared behind its own: by PYTHONPATH they would come in
    front, with their TileLang.
    """
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    own, shared = Path(tilecheck.__file__).resolve().parents[1], _shared_folders()
    if (_packages(Path(python).parents[1]) / _SHARED).exists():
        path = [entry for entry in path if str(Path(entry).resolve()) not in shared]
    if str(own) not in shared:
        path.insert(0, str(own))
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path := [entry for entry in path if entry]:
        variables["PYTHONPATH"] = os.pathsep.join(path)
    return variables
