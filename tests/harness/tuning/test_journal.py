"""The journal, and the folder that it is in."""

import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.tuning.fakes import goal, module_in, timing
from tilecheck.spec import Case, KernelSpec
from tilecheck.tuning.identity import Identity, versions_here
from tilecheck.tuning.journal import Journal
from tilecheck.tuning.outcomes import Outcome
from tilecheck.tuning.private import private_folder

RIGHT = Outcome("a", {"tile": 64}, "timed", timing=timing(1e-5))
WRONG = Outcome("b", {"tile": 32}, "wrong", "line 1\nline 2")


@pytest.fixture
def spec(tmp_path: Path) -> KernelSpec:
    found: KernelSpec = module_in(tmp_path).SPEC
    return found


@pytest.fixture
def identity(spec: KernelSpec) -> Identity:
    return goal(spec).identity


def test_what_is_added_is_there_the_next_time(identity: Identity, tmp_path: Path) -> None:
    with Journal(tmp_path, identity) as journal:
        journal.add(RIGHT)
        journal.add(WRONG)
    with Journal(tmp_path, identity) as journal:
        assert journal.outcomes == {RIGHT.key: RIGHT, WRONG.key: WRONG}
        journal.add(replace(RIGHT, kind="wrong", reason="for other inputs", timing=None))
    with Journal(tmp_path, identity) as journal:
        assert journal.outcomes[RIGHT.key].kind == "wrong"
    assert journal.path.stat().st_mode & 0o777 == 0o600


def test_a_line_that_a_crash_left_unfinished_is_dropped(identity: Identity, tmp_path: Path) -> None:
    with Journal(tmp_path, identity) as journal:
        journal.add(RIGHT)
        journal.add(WRONG)
    os.truncate(journal.path, journal.path.stat().st_size - 20)
    with Journal(tmp_path, identity) as journal:
        assert list(journal.outcomes) == [RIGHT.key]
        journal.add(WRONG)
    with Journal(tmp_path, identity) as journal:
        assert len(journal.outcomes) == 2


def test_a_crash_before_the_first_line_was_whole_loses_nothing(identity: Identity, tmp_path: Path) -> None:
    with Journal(tmp_path, identity) as journal:
        pass
    os.truncate(journal.path, 5)
    with Journal(tmp_path, identity) as journal:
        journal.add(RIGHT)
    with Journal(tmp_path, identity) as journal:
        assert len(journal.outcomes) == 1


def test_a_full_disk_leaves_no_half_of_a_line(identity: Identity, tmp_path: Path) -> None:
    with Journal(tmp_path, identity) as journal:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (journal.path.stat().st_size + 20, before[1]))
        try:
            for _ in range(2):
                with pytest.raises(OSError, match=r"\.jsonl cannot be written: "):
                    journal.add(RIGHT)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert journal.outcomes == {}
        journal.add(WRONG)
    with Journal(tmp_path, identity) as journal:
        assert journal.outcomes == {WRONG.key: WRONG}


@pytest.mark.parametrize(
    "line", [b"[]\n", b"{}\n", b"nonsense\n", b"[" * 100_000 + b"\n", b'{"id": "a", "kind": "fast"}\n']
)
def test_other_lines_are_refused_with_their_place(identity: Identity, tmp_path: Path, line: bytes) -> None:
    with Journal(tmp_path, identity) as journal:
        journal.add(RIGHT)
    with open(journal.path, "ab") as file:
        file.write(line)
    with pytest.raises(ValueError, match=r"\.jsonl:3 is not of a journal of this search"), journal:
        pass


@pytest.mark.parametrize("median", ["NaN", "Infinity", "0.0", "-1e-05", '"fast"', "null", "true"])
def test_what_is_no_time_is_refused(identity: Identity, tmp_path: Path, median: str) -> None:
    """Nothing else looks at it again before it is the fastest."""
    with Journal(tmp_path, identity) as journal:
        journal.add(RIGHT)
    text = journal.path.read_text()
    assert '"median": 1e-05' in text
    journal.path.write_text(text.replace('"median": 1e-05', f'"median": {median}'))
    with (
        pytest.raises(ValueError, match=r"\.jsonl:2 is not of a journal of this search .* is no time"),
        journal,
    ):
        pass


def test_the_journal_of_another_search_is_refused(identity: Identity, tmp_path: Path) -> None:
    with Journal(tmp_path, identity) as journal:
        pass
    other = Journal(tmp_path, replace(identity, gpu="nvidia-a100"))
    journal.path.rename(other.path)
    with (
        pytest.raises(ValueError, match=r":1 is not of a journal of this search \(another identity\)"),
        other,
    ):
        pass


def test_one_process_has_it_at_a_time(identity: Identity, tmp_path: Path) -> None:
    with (
        Journal(tmp_path, identity),
        pytest.raises(ValueError, match="another process searches the same"),
        Journal(tmp_path, identity),
    ):
        pass


@pytest.mark.parametrize(
    "other",
    [
        {"gpu": "nvidia-h100"},
        {"versions": {"tilelang": "0.1.14"}},
        {"versions": {"tilelang": "0.1.15", "nvcc": "13.1"}},
        {"dims": {"N": 1001}},
        {"dtype": "float16"},
        {"flags": {"causal": True}},
        {"source": "0" * 16},
        {"judged": "0" * 16},
        {"pass_configs": {"tl.enable_fast_math": "True"}},
        {"case": "longer"},
    ],
)
def test_results_are_shared_by_equal_searches_only(identity: Identity, other: dict[str, object]) -> None:
    assert replace(identity, **other).key != identity.key  # type: ignore[arg-type]
    assert replace(identity).key == identity.key


def test_a_case_whose_id_is_used_again_shares_nothing(spec: KernelSpec) -> None:
    again = replace(spec, cases=(Case("long", {"N": 4000}, "float32", why="another shape"),), tuning_cases=())
    assert goal(again).identity.key != goal(spec).identity.key


def test_versions_are_those_of_what_compiles_and_runs() -> None:
    found = versions_here("580.65")
    assert found["driver"] == "580.65"
    assert {"tilelang", "torch", "cuda", "nvcc"} <= found.keys() and all(found.values())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tilecheck" / "tuning"


def test_the_private_folder_is_nobody_elses(home: Path) -> None:
    folder = private_folder("kernels", "abc")
    assert folder == home / "kernels" / "abc"
    assert {path.stat().st_mode & 0o777 for path in (home, home / "kernels", folder)} == {0o700}
    assert private_folder("kernels", "abc") == folder


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
def test_a_folder_that_others_can_write_or_read_is_refused(home: Path, mode: int) -> None:
    private_folder("kernels").chmod(mode)
    with pytest.raises(PermissionError, match=f"kernels has mode {mode:04o}, and others may have written"):
        private_folder("kernels")


def test_a_folder_on_a_way_that_others_can_change_is_refused(home: Path) -> None:
    private_folder("kernels")
    home.parent.parent.chmod(0o777)
    with pytest.raises(PermissionError, match=r"others can write .*/cache \(mode 0777"):
        private_folder("kernels")


@pytest.mark.parametrize(
    ("cache", "message"),
    [
        ("/proc/none", r"/proc/none/tilecheck cannot be made \(No such file or directory\)"),
        ("/dev/null", r"/dev/null/tilecheck cannot be made \(Not a directory\)"),
        ("/" + "n" * 300, r"cannot be made \(File name too long\)"),
        (None, "you have no home folder"),
    ],
)
def test_a_folder_that_cannot_be_made_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, cache: str | None, message: str
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if cache is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
    with pytest.raises(OSError, match=message + ": set XDG_CACHE_HOME to a folder of your own") as raised:
        private_folder("kernels")
    assert "\n" not in str(raised.value)


def test_a_file_in_the_folders_place_is_told(home: Path) -> None:
    home.parent.parent.mkdir()
    home.parent.write_text("")
    with pytest.raises(OSError, match=r"tilecheck is no folder: set XDG_CACHE_HOME"):
        private_folder("kernels")


def test_a_link_is_refused(home: Path, tmp_path: Path) -> None:
    private_folder()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (home / "kernels").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="kernels is no folder but a link"):
        private_folder("kernels")


def test_a_folder_in_the_project_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match="lies in the project"):
        private_folder("kernels", inside=tmp_path)
    assert private_folder("kernels", inside=tmp_path / "project")
