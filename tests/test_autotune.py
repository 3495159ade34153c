"""Does the search find schedules that are right, and none slower than the one in use?"""

import pytest

from tilecheck.plugin import KernelCase, Tuner

# Alone: times are taken. The search ends what hangs itself, within a minute.
pytestmark = [pytest.mark.autotune, pytest.mark.gpu, pytest.mark.alone, pytest.mark.timeout(900)]


def test_search(tuned_case: KernelCase, tuner: Tuner) -> None:
    tuned = tuner.search(tuned_case)
    timed = {outcome.id: outcome for outcome in tuned.found.timed}
    assert "default" in timed, "the schedule in use is not right, or has no time"
    assert len(timed) > 1, "no other schedule is right"
    assert tuned.confirmed is not None, tuned.refused
    if tuned.winner is not None:
        assert tuned.winner.default_median is not None
        assert tuned.winner.median < tuned.winner.default_median
