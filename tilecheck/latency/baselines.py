"""Stored times: files of pytest-benchmark, one folder a GPU model, numbered; the newest number is the bar.

`baselines/nvidia-h200/0002_tilelang-0.1.15.json` has, in `machine_info`, the GPU's model and nothing of the
host, and for each row pytest-benchmark's statistics and, in `extra_info`, how the row was timed, with what,
and what it was compared with. The rows are known by kernel and case.

A file that cannot be read whole is an error, never passed over: the one before it would be a lower bar.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilecheck.files import create, shown
from tilecheck.latency.gate import Bar, Measurement
from tilecheck.strictjson import WrongError, brief, each_once, loaded

LIBRARIES = ("torch", "cuda", "cudnn")
"""Those parts of a toolchain that the vendors' times depend on."""

NOISIEST = 0.1
"""Share: more noise than this, between runs, is no noise to be held to: the band, three times as wide, would
let a kernel become a third slower."""

_LEAST, _MOST = 1e-30, 1e30  # what is reckoned with: quotients of such numbers are neither 0 nor infinite

_NUMBERED = re.compile(r"([0-9]{4})_.+\.json")
_ALMOST = re.compile(r"\d.*\.json", re.IGNORECASE)
_UNWRITABLE = ("Cc", "Cs", "Zl", "Zp")  # Unicode's categories: controls, surrogates, ends of lines


class BaselineError(ValueError):
    """A file of times that cannot be used; the text is one line: file, place, what to do."""


@dataclass(frozen=True)
class StoredRow:
    """One row of a file.

    id: as tests name it, `matmul-llama8b-up-bf16`.  median, q1, q3: seconds.  samples: how many.
    vendors: medians in seconds, by name.
    noise, ratio_noise, vendor_noise, machine_noise, steadiest: see `gate.Bar`; its `vendor` is the last.
    runs: how many runs it was made of.  verdict: on it when it was taken; "" without a comparison.
    toolchain: versions by name.  raw: the whole of it, as it is in the file.
    """

    id: str
    median: float
    q1: float
    q3: float
    samples: int
    method: str
    clock_mhz: float
    toolchain: Mapping[str, str]
    vendors: Mapping[str, float] = field(default_factory=dict)
    throttled: tuple[str, ...] = ()
    noise: float | None = None
    ratio_noise: float | None = None
    vendor_noise: float | None = None
    machine_noise: float = 0.0
    steadiest: str = ""
    runs: int = 1
    schedule: str = ""
    source_hash: str = ""
    verdict: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def bar(self) -> Bar:
        """The row as what others are compared with."""
        return Bar(
            median=self.median,
            method=self.method,
            clock_mhz=self.clock_mhz,
            noise=self.noise,
            ratio_noise=self.ratio_noise,
            vendor_noise=self.vendor_noise,
            machine_noise=self.machine_noise,
            vendor=self.steadiest,
            vendors=self.vendors,
            libraries=libraries_of(self.toolchain),
            driver=self.toolchain.get("driver", ""),
        )

    @property
    def measurement(self) -> Measurement:
        """The row as what is compared with another."""
        return Measurement(
            median=self.median,
            q1=self.q1,
            q3=self.q3,
            samples=self.samples,
            method=self.method,
            clock_mhz=self.clock_mhz,
            throttled=self.throttled,
            vendors=self.vendors,
            libraries=libraries_of(self.toolchain),
            driver=self.toolchain.get("driver", ""),
        )


@dataclass(frozen=True)
class Run:
    """A file of times.

    gpu: the model, as its driver names it.  arch: whose schedules ran; "" if unknown.  rows: by id.
    commit: of the sources; "" if unknown.  dirty: they were changed since.  taken: when, as text.
    failed: ids of tests that failed in this run, but for those that failed by their time alone.
    strangers: other processes that computed on the GPU meanwhile.
    made_of: when the runs were taken whose times these are; its own, unless it was promoted.
    """

    path: Path
    gpu: str
    rows: Mapping[str, StoredRow]
    commit: str = ""
    dirty: bool = False
    taken: str = ""
    failed: tuple[str, ...] = ()
    strangers: int = 0
    arch: str = ""
    made_of: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def digest(self) -> str:
        """Of all that is in the file, however it is laid out there."""
        return hashlib.sha256(json.dumps(self.raw, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def toolchain(self) -> Mapping[str, str]:
        """Of the first row; `one_toolchain` says whether of all."""
        return next(iter(self.rows.values())).toolchain

    @property
    def one_toolchain(self) -> bool:
        return all(row.toolchain == self.toolchain for row in self.rows.values())


def libraries_of(toolchain: Mapping[str, str]) -> dict[str, str]:
    """What of a toolchain the vendors' times depend on."""
    return {name: toolchain[name] for name in LIBRARIES if name in toolchain}


# Folders and files


def model_folder(gpu: str) -> str:
    """The name of a GPU model's folder: "NVIDIA H200" becomes "nvidia-h200"; where no letter of it is left, a
    hash.
    """
    name = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
    return name or f"gpu-{hashlib.sha256(gpu.encode()).hexdigest()[:8]}"


def numbered(folder: Path) -> list[Path]:
    """The numbered files of a folder, the newest last."""
    found = [path for path in folder.glob("*.json") if _NUMBERED.fullmatch(path.name)]
    return sorted(found, key=lambda path: (path.name[:4], path.name))


def stored_models(baselines: Path) -> dict[str, list[Path]]:
    """The folders of GPU models that have numbered files, by name, with these."""
    folders = sorted(path for path in baselines.glob("*") if path.is_dir())
    return {folder.name: files for folder in folders if (files := numbered(folder))}


def choose(folder: Path, asked: str | None) -> Path:
    """The file of `folder` that is asked for: None: the newest; else by number ("2", "0002"), or by what its
    name begins with. Raises BaselineError, in one line, where that is none or several, or where a file is all
    but numbered: passed over, it would leave an older one to be the newest.
    """
    files = numbered(folder)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path not in files and _ALMOST.fullmatch(path.name):
            raise BaselineError(f"{shown(path)} has no name of stored times, as 0001_NAME.json is; rename it")
    if not files:
        raise BaselineError(f"no stored times in {shown(folder)}")
    if asked is None:
        asked = files[-1].name[:4]
    prefix = f"{int(asked):04}_" if asked.isdecimal() else asked
    found = [path for path in files if path.name.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    what = "no stored times" if not found else "several stored times"
    names = ", ".join(path.name for path in (found or files))
    raise BaselineError(f"{what} {asked!r} in {shown(folder)}; there {_are(found or files)} {names}")


def write_next(folder: Path, name: str, content: Mapping[str, Any]) -> Path:
    """Stores `content` under the next number and returns the file; never in the place of another one.

    Raises BaselineError where it cannot be written.
    """
    text = json.dumps(content, indent=1) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = numbered(folder)
        number = int(files[-1].name[:4]) if files else 0
        while True:
            number += 1
            path = folder / f"{number:04}_{name}.json"
            if any(other.name.startswith(f"{number:04}_") for other in numbered(folder)):
                continue  # someone else's, meanwhile
            with suppress(FileExistsError):
                create(path, text)
                return path
    except OSError as error:
        raise BaselineError(f"{shown(folder)}: not written: {error.strerror or error}") from error


# Completeness


def missing(expected: Iterable[str], stored: Collection[str]) -> list[str]:
    """Rows that there is no stored time of."""
    return [id for id in expected if id not in stored]


def orphaned(expected: Collection[str], stored: Iterable[str]) -> list[str]:
    """Stored rows that no kernel has any more."""
    return [id for id in stored if id not in expected]


# Reading


def read_run(path: Path) -> Run:
    """The rows of a file of pytest-benchmark, and what it says of the run; other people's benchmarks in it
    are passed over. Raises BaselineError, in one line, for what is no such file or lacks what a row needs.
    """
    try:
        content = loaded(path.read_text(encoding="utf-8"), each_once)
    except FileNotFoundError:
        raise BaselineError(f"{shown(path)}: there is no such file") from None
    except OSError as error:
        raise BaselineError(f"{shown(path)}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _unusable(path, f"byte {error.start} is no UTF-8") from error
    except WrongError as wrong:
        raise _unusable(path, str(wrong)) from wrong
    return run_of(content, path)


def run_of(content: Any, path: Path) -> Run:
    """The run that `content`, of the file `path`, is of; raises BaselineError as `read_run` does."""
    if isinstance(content, dict) and "benchmarks" not in content:  # another file, in which nothing is amiss
        writers = "`tilecheck calibrate`, or pytest -m latency --benchmark-json=FILE"
        raise BaselineError(f"{shown(path)}: it holds no times; {writers}, writes a file of them")
    try:
        return _run(path, content)
    except WrongError as wrong:
        raise _unusable(path, str(wrong)) from None


def _run(path: Path, content: Any) -> Run:
    top = _Part(content, "the whole")
    benchmarks = top.value("benchmarks", list)
    rows: dict[str, StoredRow] = {}
    for position, benchmark in enumerate(benchmarks):
        part = _Part(benchmark, f"benchmarks[{position}]")
        if "kernel" not in part.part("extra_info"):
            continue
        row = _row(part)
        if row.id in rows:
            raise WrongError(f"row {row.id} occurs twice")
        rows[row.id] = row
    if not rows:
        raise WrongError("no latency rows in it")
    commit = top.part("commit_info") if "commit_info" in top else _Part({}, "commit_info")
    tilecheck = top.part("tilecheck") if "tilecheck" in top else _Part({}, "tilecheck")
    taken = top.text("datetime") if "datetime" in top else ""
    return Run(
        path=path,
        gpu=top.part("machine_info").text("gpu"),
        rows=MappingProxyType(rows),
        commit=commit.text("id") if "id" in commit else "",
        dirty=commit.value("dirty", bool) if "dirty" in commit else False,
        taken=taken,
        failed=tilecheck.texts("failed") if "failed" in tilecheck else (),
        strangers=tilecheck.whole("strangers", zero=True) if "strangers" in tilecheck else 0,
        arch=tilecheck.text("arch") if "arch" in tilecheck else "",
        made_of=tilecheck.texts("runs") if "runs" in tilecheck else (taken,) if taken else (),
        raw=content,
    )


def _row(part: "_Part") -> StoredRow:
    extra = part.part("extra_info")
    id = f"{extra.text('kernel').replace('_', '-')}-{extra.text('case')}"
    for name in ("name", "fullname"):
        if f"[{id}]" not in part.text(name):
            raise WrongError(f"{part.place}: {name} is {part.text(name)!r}, and by extra_info it is row {id}")
    part, extra = part.called(f"row {id}"), extra.called(f"row {id}: extra_info")
    stats, vendors = part.part("stats"), extra.part("vendors").numbers()
    _need_statistics(stats)
    steadiest = extra.text("steadiest") if "steadiest" in extra else ""
    if steadiest and steadiest not in vendors:
        raise WrongError(f"{extra.place}: steadiest is {brief(steadiest)}, and there is no time of it")
    return StoredRow(
        id=id,
        median=stats.number("median"),
        q1=stats.number("q1"),
        q3=stats.number("q3"),
        samples=stats.whole("rounds"),
        method=extra.text("method"),
        clock_mhz=extra.number("clock_mhz", zero=True),
        toolchain=extra.part("toolchain").strings(),
        vendors=vendors,
        throttled=extra.texts("throttled") if "throttled" in extra else (),
        noise=extra.share("noise"),
        ratio_noise=extra.share("ratio_noise"),
        vendor_noise=extra.share("vendor_noise"),
        machine_noise=extra.share("machine_noise") or 0.0,
        steadiest=steadiest,
        runs=extra.whole("runs") if "runs" in extra else 1,
        schedule=extra.text("schedule") if "schedule" in extra else "",
        source_hash=extra.text("source_hash") if "source_hash" in extra else "",
        verdict=extra.text("verdict") if "verdict" in extra else "",
        raw=part.content,
    )


class _Part:
    """An object in a file, and its place there; what is asked for and not there as expected is an error."""

    def __init__(self, content: Any, place: str) -> None:
        if not isinstance(content, dict):
            raise WrongError(f"{place} is {brief(content)}, no object")
        self.content: dict[str, Any] = content
        self.place = place

    def __contains__(self, name: str) -> bool:
        return name in self.content

    def called(self, place: str) -> "_Part":
        return _Part(self.content, place)

    def value(self, name: str, kind: type) -> Any:
        if name not in self.content:
            raise WrongError(f"{self.place}: {name} is missing")
        found = self.content[name]
        if not isinstance(found, kind):
            raise WrongError(f"{self.place}: {name} is {brief(found)}, no {kind.__name__}")
        return found

    def part(self, name: str) -> "_Part":
        return _Part(self.value(name, object), f"{self.place}: {name}")

    def text(self, name: str) -> str:
        return _printable(self.value(name, str), f"{self.place}: {name}")

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.value(name, list)
        if not all(isinstance(text, str) for text in found):
            raise WrongError(f"{self.place}: {name} is {brief(found)}, no list of strings")
        return tuple(_printable(text, f"{self.place}: {name}") for text in found)

    def number(self, name: str, zero: bool = False) -> float:
        return _positive(self.value(name, object), f"{self.place}: {name}", zero)

    def whole(self, name: str, zero: bool = False) -> int:
        number = self.number(name, zero)
        if not number.is_integer():
            raise WrongError(f"{self.place}: {name} is {brief(number)}, no whole number")
        return int(number)

    def share(self, name: str) -> float | None:
        if self.content.get(name) is None:
            return None
        share = self.number(name, zero=True)
        if share > NOISIEST:
            raise WrongError(f"{self.place}: {name} is {brief(share)}, more than {NOISIEST}")
        return share

    def numbers(self) -> dict[str, float]:
        return {name: _positive(n, f"{self.place}: {name}") for name, n in self.content.items()}

    def strings(self) -> dict[str, str]:
        return {name: self.text(name) for name in self.content}


def _need_statistics(stats: "_Part") -> None:
    """What pytest-benchmark shows of a row that is compared with, and what promotion takes the middle of:
    without it they would fail at the end of the run.
    """
    for name in ("min", "max", "mean", "median"):
        stats.number(name)
    for name in sorted((stats.content.keys() - {"data", "outliers"}) | {"stddev", "iqr"}):
        stats.number(name, zero=True)
    stats.whole("iterations")
    stats.text("outliers")


def _positive(value: Any, place: str, zero: bool = False) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not value >= 0 or (value == 0 and not zero):
        raise WrongError(f"{place} is {brief(value)}, no number {'>=' if zero else '>'} 0")
    if value > _MOST or (0 < value < _LEAST and not zero):
        raise WrongError(f"{place} is {brief(value)}, too {'large' if value > 1 else 'small'} a number")
    return float(value)


def _printable(text: str, place: str) -> str:
    if any(unicodedata.category(sign) in _UNWRITABLE for sign in text):  # messages are one line
        raise WrongError(f"{place} is {brief(text)}, no line of text")
    return text


def _unusable(path: Path, what: str) -> BaselineError:
    return BaselineError(f"{shown(path)}: {what}; mend the file, or take it back with git or remove it")


def _are(files: Sequence[Path]) -> str:
    return "is" if len(files) == 1 else "are"
