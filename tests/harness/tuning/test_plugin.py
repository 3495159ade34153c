"""The tests of schedules, and files of schedules, as a run of pytest sees them."""

import textwrap
from pathlib import Path

import pytest

from tests.harness.tuning.fakes import SOURCE

CHECKOUT = Path(__file__).parents[3]

CONFTEST = """
    from dataclasses import replace

    from tests.harness.tuning.fakes import FakeBench, goal
    from tilecheck import environment, launch
    from tilecheck.arches import ARCHES
    from tilecheck.plugin import memory
    from tilecheck.tuning import machine

    environment.machine = lambda: environment.Machine(
        torch="2.11", torch_cuda="13.0", driver="580", gpu="FAKE", capability=(9, 0), compiler=True
    )
    memory._release = lambda kept: None


    class Bench(FakeBench):
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass


    machine.goal_here = lambda spec, case: goal(spec, case.id)
    machine.bench_for = lambda *_: Bench(lambda tile, stages, threads: 1e-4 * (1 + stages))
"""


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path.parent / "cache"))
    monkeypatch.syspath_prepend(str(CHECKOUT))
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    (pytester.path / "copy_to_tune.py").write_text(textwrap.dedent(SOURCE))
    (pytester.path / "test_autotune.py").write_text((CHECKOUT / "tests/test_autotune.py").read_text())
    pytester.makeini("[pytest]\nstrict = true\npythonpath = .\ntilecheck_specs = copy_to_tune\n")
    return pytester


def run(repository: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return repository.runpytest_subprocess("-p", "tilecheck.plugin", "-p", "no:cacheprovider", *arguments)


def test_without_a_gpu_the_search_is_skipped_with_the_reason(repository: pytest.Pytester) -> None:
    result = run(repository, "-m", "autotune", "-rs", "--device=simulator")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*needs a GPU*"])


def test_asked_for_by_its_marker_the_winner_is_stored(repository: pytest.Pytester) -> None:
    repository.makeconftest(textwrap.dedent(CONFTEST))
    result = run(repository, "-m", "autotune")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*tilecheck: schedules*", "copy-long on NVIDIA H200*", "*stored in schedules.json"]
    )
    assert (repository.path / "schedules.json").exists()


FULL = """
    from tilecheck.tuning import winners


    def full(path, text):
        raise OSError(28, "No space left on device", str(path))


    winners.replace = full
"""


def test_a_winner_that_cannot_be_stored_fails_the_test_which_shows_its_report(
    repository: pytest.Pytester,
) -> None:
    repository.makeconftest(textwrap.dedent(CONFTEST) + textwrap.dedent(FULL))
    result = run(repository, "-m", "autotune")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*schedules.json cannot be written: No space left on device"])
    result.stdout.fnmatch_lines(["*tilecheck: schedules*", "copy-long on NVIDIA H200*", "*; not stored"])


@pytest.mark.parametrize("arguments", [[], ["-m", "not correctness"], ["-m", "gpu and not correctness"]])
def test_a_run_of_everything_stores_nothing(repository: pytest.Pytester, arguments: list[str]) -> None:
    repository.makeconftest(textwrap.dedent(CONFTEST))
    result = run(repository, *arguments)
    result.assert_outcomes(passed=1)
    assert not (repository.path / "schedules.json").exists()


def test_a_spoilt_file_refuses_the_run_in_one_line(repository: pytest.Pytester) -> None:
    (repository.path / "schedules.json").write_text('{"form": 1}')
    result = run(repository, "--device=simulator")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: tilecheck: *schedules.json is no file of schedules: *"])
