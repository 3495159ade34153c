"""The folder of all nights: what is appended comes back, and a broken line is told and costs no other."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tilecheck.nightly.history import History, all_models, series, trends
from tilecheck.nightly.night import Checked, Failure, Night, Time, Upgraded

H200 = "NVIDIA H200"


def night(day: int, median: float = 1e-4, **given: object) -> Night:
    return Night(
        date=f"2026-11-{day:02}T02:17:00+00:00",
        gpu=H200,
        seed=day,
        exit_code=0,
        toolchain={"tilelang": "0.1.15"},
        stages={"latency": "passed"},
        times={"softmax-one": Time(median, "events", 1980.0, "torch", 0.5, "same")},
        **given,  # type: ignore[arg-type]
    )


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history", H200)


def lines_of(history: History) -> Path:
    return history.folder / "nights.jsonl"


def test_nights_come_back_in_the_order_of_their_lines(history: History) -> None:
    failure = Failure("correctness", "tests/test_correctness.py::test_output[x]", "softmax", "one", "wrong")
    nights = [night(1), night(2, failures=(failure,), facts="abc", newest="0.1.16"), night(3)]
    for each in nights:
        history.append(each)
    past = history.read()
    assert past.told == ()
    assert past.nights == tuple(nights)
    assert history.folder.name == "nvidia-h200"
    assert [json.loads(line)["schema"] for line in lines_of(history).read_text().splitlines()] == [1, 1, 1]


def test_clock_that_was_wrong_once_does_not_make_the_last_night(history: History) -> None:
    wrong = replace(night(2), date="2099-01-01T00:00:00+00:00")
    for each in (night(1), wrong, night(3), night(4)):
        history.append(each)
    past = history.read()
    assert [each.seed for each in past.nights] == [1, 2, 3, 4]
    (told,) = past.told
    assert "nights.jsonl, line 3: is dated 2026-11-03T02:17:00+00:00, before the night above it" in told


def test_all_that_a_night_may_hold_comes_back(history: History) -> None:
    checked = Checked(60, 2, 3, float("inf"), "softmax-one")
    whole = night(
        1,
        seconds={"latency": 81.5},
        kernels={"softmax": checked, "matmul": Checked()},
        upgrade=Upgraded("0.1.15", "0.1.16", "nothing speaks against it", {"latency": "passed"}),
        arguments=("-k", "softmax and one"),
    )
    history.append(whole)
    assert history.read().nights == (whole,)
    assert "Infinity" not in lines_of(history).read_text(), "which is no JSON"


def test_night_with_characters_that_no_line_may_hold_is_read_again(history: History) -> None:
    failure = Failure("correctness", "t[x]", words="a\tb \x1b[31mred \ud800")
    history.append(night(1, failures=(failure,)))
    past = history.read()
    assert past.told == ()
    assert past.nights[0].failures[0].words == "a\tb \\x1b[31mred \\ud800"


def test_lines_of_earlier_versions_are_read(history: History) -> None:
    history.append(night(1))
    content = json.loads(lines_of(history).read_text())
    for name in ("seconds", "kernels", "upgrade", "arguments"):
        del content[name]
    for name in ("kernel", "old", "band"):
        del content["times"]["softmax-one"][name]
    lines_of(history).write_text(json.dumps(content) + "\n")
    assert history.read().nights == (night(1),)


def test_no_history_is_no_error(history: History) -> None:
    assert history.read().nights == ()


def test_appending_leaves_all_that_was_there(history: History) -> None:
    history.append(night(1))
    before = lines_of(history).read_bytes()
    history.append(night(2))
    assert lines_of(history).read_bytes().startswith(before)


def test_line_that_was_cut_off_is_told_and_swallows_no_other(history: History) -> None:
    history.append(night(1))
    history.append(night(2))
    text = lines_of(history).read_bytes()
    lines_of(history).write_bytes(text[:-40])  # the disk was full
    past = history.read()
    assert [each.seed for each in past.nights] == [1]
    (told,) = past.told
    assert "nights.jsonl, line 2: no JSON" in told and told.endswith("; it is passed over")

    history.append(night(3))
    past = history.read()
    assert [each.seed for each in past.nights] == [1, 3]
    assert len(past.told) == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"schema": 2}', "line 1: has schema 2, and this tilecheck reads 1"),
        (b"[]", "line 1: is no object"),
        (b'{"schema": 1, "date": "x"}', "line 1: is no night"),
        (
            b'{"schema": 1, "date": "x", "gpu": "g", "seed": 1, "exit_code": 0, '
            b'"times": {"r": {"median": -1, "method": "events"}}}',
            "has no time of r that is a number > 0",
        ),
        (
            b'{"schema": 1, "date": "x", "gpu": "g", "seed": 1, "exit_code": 0, '
            b'"times": {"r": {"median": 1, "method": "events", "old": 0}}}',
            "has no time of r that is a number > 0",
        ),
        (
            b'{"schema": 1, "date": "x", "gpu": "g", "seed": "1", "exit_code": 0}',
            'is no night: the line: seed is "1", no integer',
        ),
        (
            b'{"schema": 1, "date": "x", "gpu": "g", "seed": 1, "exit_code": 0, '
            b'"kernels": {"k": {"passed": "x"}}}',
            'is no night: the line: kernels: k: passed is "x", no integer',
        ),
        (
            b'{"schema": 1, "date": "x", "gpu": "g", "seed": 1, "exit_code": 0, "commit": "\\u0000"}',
            r"line 1: has the character '\x00' in '\x00', which no night has",
        ),
        (
            b'{"schema": 1, "date": "x", "gpu": "g", "seed": 1, "exit_code": 0, "newest": "a \\u001b[2J"}',
            r"has the character '\x1b' in 'a \x1b[2J'",
        ),
        (
            b'{"schema": 1, "date": "x", "gpu": "g", "seed": 1, "exit_code": 0, "stages": {"\\ud800": ""}}',
            r"has the character '\ud800'",
        ),
        (
            b'{"schema": 1, "date": "x", "gpu": "g", "seed": 1, "exit_code": 0, "commit": "--output=/tmp/x"}',
            "has commit '--output=/tmp/x', which is none: it has 7 to 64 digits",
        ),
        (b"\xff\xfe", "line 1: no JSON"),
        (b"[" * 100000, "line 1: no JSON"),
    ],
)
def test_other_lines_that_are_no_night(history: History, line: bytes, words: str) -> None:
    history.folder.mkdir(parents=True)
    lines_of(history).write_bytes(line + b"\n")
    history.append(night(5))
    past = history.read()
    assert [each.seed for each in past.nights] == [5]
    (told,) = past.told
    assert words in told


def test_fields_of_a_later_version_are_passed_over(history: History) -> None:
    history.append(night(1))
    content = json.loads(lines_of(history).read_text())
    content["weather"] = "fine"
    content["times"]["softmax-one"]["moon"] = 0.5
    lines_of(history).write_text(json.dumps(content) + "\n")
    assert history.read().nights == (night(1),)


def test_all_models_of_a_folder(tmp_path: Path) -> None:
    for gpu, day in (("NVIDIA B200", 3), (H200, 5)):
        History(tmp_path, gpu).append(replace(night(day), gpu=gpu))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "nights.jsonl").write_text("no\n")
    (tmp_path / "notes.txt").touch()
    found = all_models(tmp_path)
    assert list(found) == [H200, "NVIDIA B200", "broken"], "who had the last night first"
    assert [each.seed for each in found[H200].nights] == [5]
    assert "line 1: no JSON" in found["broken"].told[0]
    assert list(all_models(tmp_path / "nvidia-h200")) == [H200], "that of one model will do"
    with pytest.raises(FileNotFoundError):
        all_models(tmp_path / "nothing")


def test_copied_folder_does_not_replace_the_model(tmp_path: Path) -> None:
    history = History(tmp_path, H200)
    history.append(night(1))
    for name in ("nvidia-h200.bak", "copy"):
        shutil.copytree(history.folder, tmp_path / name)
    history.append(night(2))
    past = all_models(tmp_path)[H200]
    assert [each.seed for each in past.nights] == [1, 2]
    assert [told.partition(" has nights of NVIDIA H200, too; ")[0] for told in past.told] == [
        str(tmp_path / name / "nights.jsonl") for name in ("copy", "nvidia-h200.bak")
    ]


def test_model_that_cannot_be_read_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for gpu in (H200, "NVIDIA B200"):
        History(tmp_path, gpu).append(replace(night(1), gpu=gpu))
    read = Path.read_bytes

    def denied(path: Path) -> bytes:
        if path.parent.name == "nvidia-b200":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", denied)
    found = all_models(tmp_path)
    assert len(found[H200].nights) == 1
    assert found["nvidia-b200"].nights == ()
    assert found["nvidia-b200"].told[0].endswith("cannot be read: Permission denied")


FACTS = json.dumps({"toolchain": {"tilelang": "0.1.15"}, "rows": []})


def test_facts_are_kept_once(history: History) -> None:
    name = history.keep_facts(FACTS)
    assert history.keep_facts(FACTS) == name
    assert len(list((history.folder / "facts").iterdir())) == 1
    found = history.facts(name)
    assert found is not None and found.rows == {}
    assert history.facts("") is None and history.facts("gone") is None


def test_series_go_back_to_where_a_row_was_taken_differently() -> None:
    nights = [night(day, 1e-4 + day * 1e-6) for day in range(1, 6)]
    other = Time(9.0, "graph", vendor="torch")
    nights[1] = Night("2026-11-02", H200, 2, 0, times={"softmax-one": other})
    nights[3] = Night("2026-11-04", H200, 4, 0)  # not timed
    assert series(nights) == {"softmax-one": [pytest.approx(1.03e-4), pytest.approx(1.05e-4)]}
    assert series(nights, "ratio") == {"softmax-one": [0.5, 0.5]}
    assert series([]) == {}


def test_trends_have_a_place_for_each_night() -> None:
    found = trends([night(1), Night("2026-11-02", H200, 2, 13)])
    assert [each["exit_code"] for each in found["nights"]] == [0, 13]  # type: ignore[index, attr-defined]
    assert found["rows"] == {
        "softmax-one": {"median": [1e-4, None], "ratio": [0.5, None], "verdict": ["same", None]}
    }
