"""What a reply means, given those of both ends."""

from dataclasses import replace

import pytest

from tests.harness.facts import AMPERE
from tilecheck.bisecting.candidates import BisectError
from tilecheck.bisecting.judging import Judge
from tilecheck.bisecting.probe import Reply

RIGHT, WRONG = Reply("right"), Reply("wrong", "12 of 4099 elements wrong")
UNBUILT, HUNG, ABSENT = Reply("no build", "SyntaxError"), Reply("hung"), Reply("absent", "no kernel")
CRASHED, SILENT = Reply("crashed", "SIGSEGV"), Reply("no answer", "pip failed")


def code(sass: str, **given: object) -> Reply:
    return Reply("right", facts=replace(AMPERE, sass_hash=sass, **given).as_json())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "reply", "answer"),
    [
        (WRONG, RIGHT, "good"),
        (WRONG, WRONG, "bad"),
        (WRONG, UNBUILT, "skip"),
        (WRONG, HUNG, "skip"),
        (WRONG, ABSENT, "skip"),
        (UNBUILT, UNBUILT, "bad"),
        (UNBUILT, WRONG, "skip"),
        (HUNG, HUNG, "bad"),
        (CRASHED, CRASHED, "bad"),
        (CRASHED, UNBUILT, "skip"),
        (UNBUILT, SILENT, "skip"),
        (WRONG, SILENT, "skip"),
    ],
)
def test_another_failure_than_that_of_the_bad_end_is_skipped(bad: Reply, reply: Reply, answer: str) -> None:
    assert Judge(RIGHT, bad).answer(reply) == answer


def test_worse_code_is_what_is_searched_for() -> None:
    judge = Judge(code("s1"), code("s9", registers=255, spill_stores=64))
    assert judge.answer(code("s1")) == "good"
    assert judge.answer(code("s2", threads=256)) == "good"  # different, and no worse
    assert judge.answer(code("s3", spill_stores=8)) == "bad"
    assert judge.words(code("s3", spill_stores=8)).startswith("spill stores 0 -> 8")
    assert judge.answer(UNBUILT) == "skip"


def test_other_code_is_searched_for_if_none_is_worse() -> None:
    judge = Judge(code("s1"), code("s9", threads=256))
    assert judge.answer(code("s1", source_hash="other")) == "good"
    assert judge.answer(code("s2", threads=64)) == "bad"


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        (RIGHT, RIGHT, "both ends are right"),
        (code("s1"), code("s1"), "both ends compile to the same code"),
        (RIGHT, ABSENT, "the bad end cannot be asked: no kernel"),
        (RIGHT, SILENT, "the bad end cannot be asked: pip failed"),
    ],
)
def test_ends_that_are_not_good_and_bad(good: Reply, bad: Reply, words: str) -> None:
    with pytest.raises(BisectError, match=words):
        Judge(good, bad)
