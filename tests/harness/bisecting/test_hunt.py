"""The hunt: with made answers, and once for real on the simulator, in a repository with a fault."""

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tilecheck import environment
from tilecheck.ab.match import Result
from tilecheck.ab.pairs import Pairs
from tilecheck.bisecting import hunt as hunting
from tilecheck.bisecting.candidates import BisectError, Candidate, commits_between
from tilecheck.bisecting.hunt import Places, Verdict, axis, hunt
from tilecheck.bisecting.probe import Question, Reply, ask
from tilecheck.bisecting.search import Answer
from tilecheck.bisecting.timing import ByTime, judged
from tilecheck.cli import main
from tilecheck.latency.gate import Verdict as Timed
from tilecheck.versions import NoEnvironment, variables_of

COMMITS = [Candidate(commit=str(number) * 40, words=f"commit {number}") for number in range(6)]
VERSIONS = ["0.1.13", "0.1.14", "0.1.15"]


class Made:
    """Answers by commit's number and version: bad from `commit` on, or from `version` on."""

    def __init__(self, commit: int = 99, version: str = "9", skip: set[str] | None = None) -> None:
        self._commit, self._version, self._skip = commit, version, skip or set()
        self.asked: list[tuple[str, str]] = []

    def ends(self, good: Candidate, bad: Candidate) -> str:
        if self.answer(good)[0] != "good" or self.answer(bad)[0] != "bad":
            raise BisectError("not good and bad")
        return "worse"

    def answer(self, candidate: Candidate) -> tuple[Answer, str]:
        self.asked.append((candidate.commit[:1], candidate.tilelang))
        if candidate.commit[:1] in self._skip:
            return "skip", "does not import"
        number = int(candidate.commit[:1] or 0)
        bad = number >= self._commit or (candidate.tilelang or "0") >= self._version
        return ("bad", f"worse at {candidate}") if bad else ("good", "")


def quiet(text: str) -> None:
    pass


def test_commit_is_found_and_said() -> None:
    said: list[str] = []
    verdict = hunt(COMMITS, Made(commit=3), said.append)
    assert [str(each) for each in verdict.suspects] == ["commit 3"]
    assert (verdict.words, str(verdict.before)) == ("worse at commit 3", "commit 2")
    assert said[:2] == ["commit 0: good", "commit 5: bad: worse"]
    assert "commit 3: bad: worse at commit 3" in said


def test_skipped_commits_leave_several() -> None:
    verdict = hunt(COMMITS, Made(commit=4, skip={"3", "2"}), quiet)
    assert [str(each) for each in verdict.suspects] == ["commit 2", "commit 3", "commit 4"]


def test_release_alone() -> None:
    verdict = hunt(axis([], VERSIONS, Made(), quiet), Made(version="0.1.14"), quiet)
    assert [str(each) for each in verdict.suspects] == ["TileLang 0.1.14"]


def test_which_of_the_two_is_at_fault_is_asked_first() -> None:
    asked = Made(version="0.1.15")
    line = axis(COMMITS, VERSIONS, asked, quiet)
    assert {each.commit for each in line} == {COMMITS[-1].commit}
    assert [each.tilelang for each in line] == VERSIONS
    assert str(hunt(line, asked, quiet).suspects[0]) == "TileLang 0.1.15, at commit 5555555555"

    asked = Made(commit=2)
    line = axis(COMMITS, VERSIONS, asked, quiet)
    assert {each.tilelang for each in line} == {"0.1.13"}
    assert str(hunt(line, asked, quiet).suspects[0]) == "commit 2"

    with pytest.raises(BisectError, match="not good and bad"):
        axis(COMMITS, VERSIONS, Made(), quiet)


@pytest.mark.parametrize(
    ("verdict", "ratio", "answer"),
    [
        (Timed.SLOWER, 1.05, "bad"),
        (Timed.SAME, 1.0, "good"),
        (Timed.FASTER, 0.9, "good"),
        (Timed.INCONCLUSIVE, 1.01, "skip"),
    ],
)
def test_times(verdict: Timed, ratio: float, answer: str) -> None:
    result = Result("axpy-tail-fp16", verdict, Pairs((1.0,), (ratio,)))
    assert judged(result)[0] == answer


def test_ends_as_far_apart_as_two_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    by_time = ByTime("axpy-tail-fp16", Places(Path(), quiet))
    pairs = Pairs((1.0,) * 8, (1.007,) * 8)
    monkeypatch.setattr(by_time, "_timed", lambda _: Result("axpy-tail-fp16", pairs.verdict, pairs))
    with pytest.raises(BisectError, match=r"than the good one by more than 1 %: \+0\.7 % against"):
        by_time.ends(*COMMITS[:2])


def test_row_that_could_not_be_timed_is_skipped() -> None:
    result = Result("axpy-tail-fp16", Timed.INCONCLUSIVE, reason="new side: does not compile", wrong=True)
    assert judged(result) == ("skip", "new side: does not compile")


# For real


def test_fault_in_a_repository_is_found_on_the_simulator(
    repository: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both of its neighbours do not even import."""
    given = ["--case", "tail-fp16", "--good", "HEAD~6", "--root", str(repository.root)]
    assert main(["bisect", "axpy", *given]) == 1
    out, err = capsys.readouterr()
    assert "one of these 2, as the others could not be asked:" in out
    assert out.index("does not import\n") < out.index("the fault\n")
    assert "last good: " in out and "smaller blocks" in out
    assert "elements wrong" in out
    assert "skipped" in err
    assert repository.git("worktree", "list").count("\n") == 0
    assert repository.git("status", "--porcelain") == ""


def test_ends_that_are_not_good_and_bad_are_one_line(
    repository: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    root = ["--root", str(repository.root)]
    assert main(["bisect", "axpy", "--case", "tail-fp16", "--good", "HEAD~1", *root]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("tilecheck: the good end is not good: wrong: ")


@pytest.mark.parametrize(
    ("arguments", "mend"),
    [
        (["--device=cuda"], "leave out --device=cuda: the simulator will do"),
        (["--by=latency"], "--by=correctness and --by=facts do without"),
        (["--by=latency", "--device=cuda"], "--by=correctness and --by=facts do without"),
    ],
)
def test_without_a_gpu_the_mend_is_that_of_what_was_asked_for(
    repository: Any,
    arguments: list[str],
    mend: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(environment, "why_no_gpu", lambda machine: "no NVIDIA driver")
    given = ["--case", "tail-fp16", "--good", "HEAD~6", "--root", str(repository.root), *arguments]
    assert main(["bisect", "axpy", *given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"want a GPU: no NVIDIA driver; {mend}")


def test_command_that_shows_the_commit_runs_as_it_is(
    repository: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for subject, text in (("right", "1"), ("wrong", "2")):
        repository.commit(subject, words__md=text)
    right, wrong = (Candidate(repository.git("rev-parse", ref), words=ref) for ref in ("HEAD~1", "HEAD"))
    monkeypatch.setattr(hunting, "hunt", lambda *_: Verdict((wrong,), "worse", right, 2))
    for folder, place in ((repository.root, ""), (repository.root.parent, "-C repository ")):
        monkeypatch.chdir(folder)
        given = ["--case", "tail-fp16", "--good", "HEAD~1", "--root", str(repository.root)]
        assert main(["bisect", "axpy", *given]) == 0
        command = capsys.readouterr().out.splitlines()[-1].removeprefix("to see it: ")
        assert command == f"git {place}show {wrong.commit[:10]}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "between what?"),
        (["--tilelang", "0.1.14"], "two versions, as 0.1.14..0.1.15"),
        (["--bad", "HEAD", "--tilelang", "0.1.14..0.1.15"], "--bad without --good"),
        (["--good", "nowhere"], "there is no commit 'nowhere'"),
        (["--good", "HEAD", "--arch", "sm_99"], "no architecture 'sm_99'"),
        (["--good", "HEAD~6", "--seconds", "0"], "'0' is no number of seconds from 1 to 86400"),
        (["--good", "HEAD~6", "--seconds=-1"], "'-1' is no number of seconds from 1 to 86400"),
        (["--good", "HEAD~6", "--seconds", "9" * 5000], "is no number of seconds from 1 to 86400"),
    ],
)
def test_mistakes_are_one_line(
    repository: Any, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--case", "tail-fp16", "--root", str(repository.root), *arguments]
    assert main(["bisect", "axpy", *given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_release_is_asked_in_its_own_environment(repository: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def environment(version: str, told: Callable[[str], None], index: str = "") -> Any:
        made.append(version)
        raise NoEnvironment("pip failed (exit code 1): no such version")

    monkeypatch.setattr(hunting, "environment_with", environment)
    asked = hunting.ByProbe(Question("axpy", "tail-fp16", "correctness"), Places(repository.root, quiet), 60)
    assert asked.reply(Candidate(tilelang="0.1.16")) == Reply(
        "no answer", "pip failed (exit code 1): no such version"
    )
    assert made == ["0.1.16"]


def test_release_that_cannot_be_installed_is_not_blamed(
    repository: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def environment(version: str, told: Callable[[str], None], index: str = "") -> Any:
        raise NoEnvironment("pip failed (exit code 1): no such version")

    # The first commit is right, and its release is the one that is installed.
    repository.git("checkout", "--quiet", "HEAD~6")
    installed = version("tilelang")
    monkeypatch.setattr(hunting, "environment_with", environment)
    monkeypatch.setattr("tilecheck.bisecting.candidates.released", lambda: [installed, "99.1", "99.2"])
    for ends, which in ((f"{installed}..99.2", "bad"), ("99.1..99.2", "good")):
        given = ["--case", "tail-fp16", "--tilelang", ends, "--root", str(repository.root)]
        assert main(["bisect", "axpy", *given]) == 2
        last = capsys.readouterr().err.splitlines()[-1]
        assert (
            last == f"tilecheck: the {which} end cannot be asked: pip failed (exit code 1): no such version"
        )


@pytest.mark.parametrize(
    ("how", "kind"), [("SIGKILL", "no answer"), ("SIGTERM", "no answer"), ("SIGSEGV", "crashed")]
)
def test_candidate_that_somebody_ended_is_told_from_one_that_crashed(
    repository: Any, how: str, kind: str
) -> None:
    repository.commit(how, specs__py=f"import os, signal\nos.kill(os.getpid(), signal.{how})\n")
    question = Question("axpy", "tail-fp16", "correctness")
    reply = ask(question, repository.root, Path(sys.executable), variables_of(), 60)
    assert reply.kind == kind and how in reply.words


def test_release_that_is_installed_needs_no_environment(tmp_path: Path) -> None:
    installed = Candidate(tilelang=version("tilelang"))
    assert Places(tmp_path, quiet).python(installed) == Path(sys.executable)


def test_candidate_that_hangs_is_ended(repository: Any) -> None:
    repository.commit("hangs", specs__py="import time\ntime.sleep(600)\n")
    question = Question("axpy", "tail-fp16", "correctness")
    reply = ask(question, repository.root, Path(sys.executable), variables_of(), 3)
    assert reply == Reply("hung", "took longer than 3 s")


def test_candidates_are_asked_by_this_harness_and_not_by_their_own(repository: Any) -> None:
    (repository.root / "tilecheck").mkdir()
    (repository.root / "tilecheck" / "__init__.py").write_text("raise RuntimeError('of its commit')\n")
    question = Question("axpi", "tail-fp16", "correctness")
    reply = ask(question, repository.root, Path(sys.executable), variables_of(), 120)
    assert reply == Reply("absent", "there is no kernel 'axpi'")


def test_commits_of_the_repository(repository: Any) -> None:
    assert len(commits_between(repository.root, "HEAD~6", "HEAD")) == 7
