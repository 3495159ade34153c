"""Which TileLang is the newest, by a pip that is made."""

import json
from collections.abc import Sequence

import pytest

from tilecheck.nightly.newest import Newest, NoVersion, newest

INDEX = "https://example.org/nightly"


class FakePip:
    """release, nightly: what pip would install; "" where it finds none."""

    def __init__(self, release: str = "", nightly: str = "") -> None:
        self._versions = {False: release, True: nightly}
        self.asked: list[bool] = []

    def __call__(self, arguments: Sequence[str]) -> tuple[int, str]:
        assert "--dry-run" in arguments and arguments[-1] == "tilelang"
        from_index = INDEX in arguments
        assert from_index == ("--no-index" in arguments) == ("--pre" in arguments)
        self.asked.append(from_index)
        version = self._versions[from_index]
        if not version:
            return 1, "ERROR: No matching distribution found for tilelang"
        return 0, json.dumps({"install": [{"metadata": {"name": "tilelang", "version": version}}]})


@pytest.mark.parametrize(
    ("pip", "index", "found"),
    [
        (
            FakePip("0.1.16", "0.1.17.dev3"),
            INDEX,
            Newest("0.1.17.dev3", INDEX, "TileLang 0.1.17.dev3, the newest nightly build"),
        ),
        (FakePip("0.1.16", "0.1.17.dev3"), "", Newest("0.1.16", "", "TileLang 0.1.16, the newest release")),
        (
            FakePip("0.1.16"),
            INDEX,
            Newest(
                "0.1.16",
                "",
                "fell back from nightly builds, of which pip reaches none: TileLang 0.1.16, "
                "the newest release",
            ),
        ),
        (
            FakePip("0.1.15"),
            "",
            Newest(
                "", "", "TileLang 0.1.15, the newest release, is the pinned one: there is nothing to compare"
            ),
        ),
        (
            FakePip(),
            "",
            Newest(
                "",
                "",
                "fell back: pip finds no release of TileLang; the pinned 0.1.15 is compared with nothing",
            ),
        ),
    ],
)
def test_newest(pip: FakePip, index: str, found: Newest) -> None:
    assert newest("auto", index, "0.1.15", pip) == found


def test_version_that_is_asked_for_needs_no_pip() -> None:
    pip = FakePip()
    assert newest("0.1.14", "", "0.1.15", pip).version == "0.1.14"
    assert pip.asked == []


@pytest.mark.parametrize("wanted", ["0.1.15", "0.1.15.0", "v0.1.15"])
def test_pinned_one_is_compared_with_nothing_however_it_is_asked_for(wanted: str) -> None:
    found = newest(wanted, "", "0.1.15", FakePip())
    assert (found.version, found.words) == (
        "",
        f"TileLang {wanted}, as asked for, is the pinned one: there is nothing to compare",
    )


@pytest.mark.parametrize("wanted", ["", "newest", "0.1.x", "--pre"])
def test_what_is_no_version_is_refused(wanted: str) -> None:
    with pytest.raises(NoVersion, match="is no version of TileLang; give auto, off, or one"):
        newest(wanted, "", "0.1.15", FakePip())


def test_nothing_is_compared_where_it_is_off() -> None:
    assert newest("off", "", "0.1.15", FakePip()).version == ""


def test_answer_of_pip_that_makes_no_sense_is_none() -> None:
    assert newest("auto", "", "0.1.15", lambda arguments: (0, "{}")).version == ""
