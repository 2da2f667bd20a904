"""A target that is watched answers as the target itself does, and notes what it was asked."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from aneforge.targets import Target, group, resolve
from aneforge.targets.watching import GROUPS, MAPPINGS, NOTED, Watch, answers_alike

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTIONS: tuple[tuple[Callable[[Target], object], tuple[str, str]], ...] = (
    (lambda target: target.family, ("target", "family")),
    (lambda target: target.has_data, ("target", "tier")),
    (lambda target: target.hal.flag("texture_engine"), ("HAL", "texture_engine")),
    (lambda target: "texture_engine" in target.hal, ("HAL", "texture_engine")),
    (lambda target: target.fact("channel_extent").value, ("limit", "channel_extent")),
    (lambda target: target.streams.get("int8"), ("streams", "int8")),
    (lambda target: "int8" in target.streams, ("streams", "int8")),
    (lambda target: list(target.streams), ("target", "streams")),
    (lambda target: list(target.streams.items()), ("target", "streams")),
    (lambda target: len(target.facts), ("target", "facts")),
    (lambda target: target.ne_count_hal, ("facts", "ne_count_hal")),
)


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_a_question_is_answered_and_noted(number: int) -> None:
    ask, question = QUESTIONS[number]
    for target in group("all"):
        watch = Watch(target)
        watch.begin()
        assert ask(watch.target) == ask(target)
        assert question in dict(watch.answers())
        watch.begin()
        assert watch.answers() == ()
        ask(watch.target)
        assert question in dict(watch.answers()), "a later stage that asks again rests on the answer, too"
        assert question in dict(watch.all_answers)


def test_what_is_not_noted_is_named() -> None:
    """Whoever adds a field to targets decides here whether a program can depend on it."""
    unnoted = {one.name for one in fields(Target)} - NOTED - set(GROUPS) - set(MAPPINGS)
    assert unnoted == {"name", "encodings", "find_conflicts"}
    assert len({target.encodings for target in group("all")}) == 1


def test_targets_are_alike_where_they_answer_alike() -> None:
    watch = Watch(resolve("m1"))
    watch.target.limits.integer("channel_extent")
    assert answers_alike(resolve("m5"), watch.answers())
    watch.target.hal.flag("texture_engine")
    assert not answers_alike(resolve("m5"), watch.answers())
