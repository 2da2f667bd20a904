"""Warnings at the user's line, and those that a step of the package keeps to itself."""

from __future__ import annotations

import threading
import warnings

from aneforge.callsite import keep_warnings, warn
from aneforge.errors import DispatchFloorWarning, PrecisionWarning


def test_only_the_category_is_kept_and_by_the_innermost() -> None:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        with keep_warnings(PrecisionWarning) as outer, keep_warnings(DispatchFloorWarning) as inner:
            warn("rounds", PrecisionWarning)
            warn("mostly dispatch", DispatchFloorWarning)
            warn("anything else")
        warn("rounds again", PrecisionWarning)
    assert (outer, inner) == (["rounds"], ["mostly dispatch"])
    assert [str(one.message) for one in given] == ["anything else", "rounds again"]


def test_threads_that_keep_warnings_in_turns_leave_the_filters_of_the_process() -> None:
    begun, ended = threading.Event(), threading.Event()
    messages: list[str] = []

    def compile_beside() -> None:
        with keep_warnings() as kept:
            begun.set()
            ended.wait()
            warn("beside")
        messages.extend(kept)

    before = list(warnings.filters)
    thread = threading.Thread(target=compile_beside)
    with keep_warnings() as kept:
        thread.start()
        begun.wait()
        warn("here")
    ended.set()
    thread.join()
    assert (kept, messages) == (["here"], ["beside"])
    assert list(warnings.filters) == before
