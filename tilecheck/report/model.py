"""What a report is made of; the schema of results.json. Pure data.

Times are seconds, sizes bytes, shares fractions of 1. Names of kernels and cases are those of the specs,
`row` is `KernelSpec.test_id`, with the variant or the architecture behind it as in the ids of tests.
Every record says by `run` which of the runs it is from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

SCHEMA = 1
"""Of results.json; another number means that fields were renamed or removed."""

SECTIONS = (
    "environment",
    "correctness",
    "schedules",
    "codegen",
    "latency",
    "autotune",
    "debugging",
    "sanitizer",
    "other",
)
"""The parts of a run, in the order in which they are shown; "other" holds tests with none of the markers."""

OUTCOMES = ("passed", "failed", "error", "xfailed", "xpassed", "skipped", "crashed")
"""Of a test. error: in its set-up, tear-down or collection. crashed: the run ended while it was under way."""

BAD = ("failed", "error", "crashed")
"""Outcomes of which one makes a section fail."""


DIED = "the process died"
"""How a run ended that did not say so."""


@dataclass(frozen=True)
class Section:
    """seconds: of its tests, added up over workers; of "environment", until all tests were collected.
    planned: tests that were selected for it; None: not known.
    """

    name: str
    seconds: float
    planned: int | None = None


@dataclass(frozen=True)
class Run:
    """started: ISO 8601, UTC.  ended: "complete", else why it is not, in words.  exit: pytest's code.
    device: "cuda" or "simulator".  gpu: its model; "" without.  environment: versions and the like, by name.
    command: arguments of pytest.  notes: what else there is to know, a line each.
    under_way: tests that had begun and not ended when it was ended, the longest first, and for how many
    seconds; those of a run that died are crashed.
    """

    started: str
    seconds: float
    ended: str
    exit: int | None
    command: tuple[str, ...] = ()
    device: str = ""
    arch: str = ""
    gpu: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    under_way: Mapping[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What it ran on, in a few words."""
        if not self.device:
            return "nothing"
        if self.device == "simulator":
            return f"simulator, as {self.arch}"
        return f"{self.gpu or 'GPU'}, {self.arch}"


@dataclass(frozen=True)
class Case:
    """A row of a kernel's table.  sizes: dims and flags, as text.  flops, bytes: its cost, if it has one."""

    id: str
    dtype: str
    sizes: str = ""
    why: str = ""
    flops: float | None = None
    bytes: float | None = None


@dataclass(frozen=True)
class Kernel:
    """summary: the first line of its file's docstring."""

    name: str
    summary: str = ""
    cases: tuple[Case, ...] = ()


@dataclass(frozen=True)
class Test:
    """id: pytest's.  schedule: id of the variant, "" for the default one.  message: of a failure, or the
    reason of a skip.  repeat: the command that runs it again.
    """

    __test__ = False  # pytest takes classes of this name for its own

    id: str
    section: str
    outcome: str
    seconds: float
    kernel: str = ""
    case: str = ""
    schedule: str = ""
    message: str = ""
    repeat: str = ""
    run: int = 0


@dataclass(frozen=True)
class Numerics:
    """How far a kernel is from its reference.  row: with the schedule or the draw behind it.
    budget_used, terms_used: as `conformance.Outcome`; they may be infinite.
    """

    test: str
    section: str
    kernel: str
    row: str
    dtype: str
    device: str
    arch: str
    budget_used: float
    terms_used: float
    max_abs_error: float
    relative_error: float
    empirical: bool
    case: str = ""
    schedule: str = ""
    run: int = 0


@dataclass(frozen=True)
class Code:
    """What a kernel compiled to.  landmarks: "kept", "broken" or "".
    stored: "same", "source", "changed", "new" or "", against the stored facts.
    error: the compiler's, or why there was none.  expected: the ledger has it.
    words: what changed or is missing.  severity: of the worst change.  toolchain: how it differs.
    facts: `codegen.Facts` as JSON.
    """

    row: str
    kernel: str
    case: str
    arch: str
    landmarks: str = ""
    stored: str = ""
    error: str = ""
    expected: bool = False
    words: str = ""
    severity: str = "neutral"
    toolchain: str = ""
    facts: Mapping[str, str | int | Mapping[str, int]] | None = None
    run: int = 0


@dataclass(frozen=True)
class Latency:
    """How long a kernel takes.  old: the baseline's median.  band: share by which it may differ.
    smallest: the smallest slowdown that the row can find.  verdict: of `gate.Verdict`, "new" or "".
    peak_flops, peak_bytes: the roofs above it, a second; None: unknown.
    """

    row: str
    kernel: str
    case: str
    gpu: str
    median: float
    q1: float | None = None
    q3: float | None = None
    samples: int = 0
    method: str = ""
    clock_mhz: float = 0.0
    vendors: Mapping[str, float] = field(default_factory=dict)
    vendor: str = ""
    ratio: float | None = None
    tflops: float | None = None
    gbs: float | None = None
    roofline: float | None = None
    peak_flops: float | None = None
    peak_bytes: float | None = None
    verdict: str = ""
    old: float | None = None
    change: float | None = None
    band: float | None = None
    smallest: float | None = None
    words: str = ""
    toolchain: str = ""
    schedule: str = ""
    run: int = 0


@dataclass(frozen=True)
class Search:
    """A search for schedules; text: what came of it, for people."""

    test: str
    kernel: str
    case: str
    text: str
    run: int = 0


@dataclass(frozen=True)
class Stored:
    """A row in a file of stored times."""

    file: str
    taken: str
    row: str
    median: float
    tilelang: str = ""
    commit: str = ""


@dataclass(frozen=True)
class History:
    """Stored times of a GPU model, oldest file first."""

    gpu: str
    rows: tuple[Stored, ...]


@dataclass(frozen=True)
class Report:
    """One run, or several that were merged."""

    schema: int
    tilecheck: str
    project: str
    runs: tuple[Run, ...]
    kernels: tuple[Kernel, ...] = ()
    tests: tuple[Test, ...] = ()
    numerics: tuple[Numerics, ...] = ()
    code: tuple[Code, ...] = ()
    latency: tuple[Latency, ...] = ()
    searches: tuple[Search, ...] = ()
    history: tuple[History, ...] = ()
