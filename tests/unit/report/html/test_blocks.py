"""Blocks of the HTML report: nothing is lost on the way into them, and equal parts are there once."""

from __future__ import annotations

import base64
import gzip
import json
import math
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aneforge.report.html.blocks import Json, blocks_of, column, columns, pack, plain
from aneforge.report.model import Node, Report, Step
from aneforge.rules import Finding
from report_samples import sample_report

VALUES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4)


def unpacked(block: str) -> Json:
    """Return the content of a block as the page reads it."""
    return cast("Json", json.loads(gzip.decompress(base64.b64decode(block, validate=True)).decode("ascii")))


def whole(content: Json) -> list[Json]:
    """Return a column with every value in its place."""
    if isinstance(content, dict):
        values, places = content["values"], content["places"]
        assert isinstance(values, list)
        assert isinstance(places, list)
        return [values[cast("int", place)] for place in places]
    assert isinstance(content, list)
    return content


def index_of(report: Report) -> tuple[dict[str, Json], list[Json]]:
    blocks = [unpacked(block) for block in blocks_of(report)]
    return cast("dict[str, Json]", blocks[0]), blocks


@given(st.lists(VALUES, max_size=40))
def test_a_column_keeps_every_value_and_its_type(values: list[object]) -> None:
    read = whole(unpacked(pack(column(values))))
    assert [(type(one), repr(one)) for one in read] == [(type(plain(one)), repr(plain(one))) for one in values]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
        (2**53 - 1, 2**53 - 1),
        (2**53, "9007199254740992"),
        (-(2**53), "-9007199254740992"),
        (True, True),
        ((1, ("a", None)), [1, ["a", None]]),
    ],
)
def test_numbers_that_a_browser_cannot_hold_become_words(value: object, expected: Json) -> None:
    assert plain(value) == expected


def test_what_is_no_report_is_refused() -> None:
    with pytest.raises(TypeError, match="a report holds a set"):
        plain({1})


def test_repeated_values_are_written_once() -> None:
    assert column(["a", "b", "a", "a", "b"]) == {"values": ["a", "b"], "places": [0, 1, 0, 0, 1]}
    assert column(["a", "b", "a"]) == ["a", "b", "a"]
    assert column([1, True, 1.0, 1, True, 1.0]) == {"values": [1, True, 1.0], "places": [0, 1, 2, 0, 1, 2]}
    assert column([0.0, -0.0, 0.0, -0.0]) == {"values": [0.0, -0.0], "places": [0, 1, 0, 1]}
    assert column([]) == {"values": [], "places": []}


def test_every_field_of_a_row_is_a_column() -> None:
    made = columns(Step, (Step(0, 1, 2),))
    assert made == {"step": [0], "buffers": [1], "windows": [2]}
    nothing = columns(Finding, ())
    assert isinstance(nothing, dict)
    assert set(Finding.__struct_encode_fields__) - set(nothing) == {"target"}, "the page is of one target at a time"


def test_the_report_is_all_there() -> None:
    report = sample_report(50, 3)
    index, blocks = index_of(report)
    nodes = blocks[cast("int", index["nodes"])]
    assert isinstance(nodes, dict)
    assert whole(nodes["name"]) == [node.name for node in report.nodes]
    assert whole(nodes["inputs"]) == [list(node.inputs) for node in report.nodes]
    for entry, target in zip(cast("list[dict[str, Json]]", index["targets"]), report.targets, strict=True):
        findings, timeline = blocks[cast("int", entry["findings"])], blocks[cast("int", entry["timeline"])]
        assert isinstance(findings, dict)
        assert isinstance(timeline, dict)
        assert whole(findings["message"]) == [one.message for one in target.findings]
        assert whole(timeline["start"]) == [one.start for one in target.timeline]
        assert whole(blocks[cast("int", entry["verdicts"])]) == list(target.verdicts)
        assert entry["latency"] == plain(target.latency)


def test_targets_with_one_program_share_its_blocks() -> None:
    first = sample_report(50, 1).targets[0]
    report = replace(sample_report(50, 1), targets=(first, replace(first, target="twin")))
    index, blocks = index_of(report)
    one, other = cast("list[dict[str, Json]]", index["targets"])
    for part in ("verdicts", "findings", "groups", "timeline", "memory", "tasks", "remarks"):
        assert one[part] == other[part]
    assert (one["target"], other["target"]) == ("chip-a", "twin")
    assert len(blocks) == 9


def test_heat_counts_differences_by_operation() -> None:
    report = sample_report(60, 2)
    index, _ = index_of(report)
    (entry,) = cast("list[dict[str, Json]]", index["divergences"])
    heat = cast("dict[str, dict[str, int]]", entry["heat"])
    differences = report.divergences[0].differences
    assert sum(sum(counts.values()) for counts in heat.values()) == len(differences)
    strongest = differences[0]
    same = [one for one in differences if (one.op, one.strength) == (strongest.op, strongest.strength)]
    assert heat[strongest.op][strongest.strength] == len(same)


def test_the_same_report_gives_the_same_bytes() -> None:
    assert blocks_of(sample_report(40, 2)) == blocks_of(sample_report(40, 2))


def test_names_beyond_ascii_come_through() -> None:
    names = ["\ud800", "日本", "\x00", "</script>"]
    nodes = tuple(Node(name, "relu", "fp16", (1,), (), None) for name in names)
    index, blocks = index_of(Report("a", "graph", nodes, ()))
    content = blocks[cast("int", index["nodes"])]
    assert isinstance(content, dict)
    assert whole(content["name"]) == names


def test_the_index_says_whether_a_model_runs() -> None:
    first, *others = sample_report().targets
    clean = replace(first, ok=True)
    split = replace(first, ok=False, failure=None, counts=replace(first.counts, reject=0))
    index, _ = index_of(replace(sample_report(), targets=(clean, split, *others)))
    said = [cast("dict[str, Json]", entry)["runs"] for entry in cast("list[Json]", index["targets"])]
    assert said == ["yes", "after splitting", *("no" for _ in others)]
